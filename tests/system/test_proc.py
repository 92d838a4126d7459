"""The process table: identities, names, what is gone and what is withheld."""

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from agentctl.errors import Exhausted, Forbidden, Gone, SourceError
from agentctl.system import proc, proc_entry
from agentctl.system.identity import ProcessIdentity
from agentctl.testing.player import wait_for_program
from tests.waiting import until

NOBODY = 65534
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become another user")


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    child = subprocess.Popen(["/bin/sleep", "60"], env={"COLOUR": "blue", "EMPTY": ""}, cwd="/")
    wait_for_program(child.pid)
    yield child
    child.kill()
    child.wait()


def seen(pid: int) -> proc.Process:
    return proc.read_process(pid, proc.boot_id())


def in_a_child(work: Callable[[], bool], uid: int) -> bool:
    """Whether `work` is true for another user; in a fork, because there is no way back."""
    child = os.fork()
    if child == 0:
        code = 2
        try:
            os.setgroups([])
            os.setresgid(uid, uid, uid)
            os.setresuid(uid, uid, uid)
            code = 0 if work() else 1
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_a_process_is_described(sleeper: subprocess.Popen[bytes]) -> None:
    process = seen(sleeper.pid)
    assert process.alive
    assert process.parent == os.getpid()
    assert process.argv == ("/bin/sleep", "60")
    assert process.cwd == "/"
    assert os.path.samefile(process.exe or "", "/bin/sleep")
    assert process.uid == os.getuid()
    assert dict(process.environ()) == {"COLOUR": "blue", "EMPTY": ""}
    assert process.inner_pid() == sleeper.pid
    assert process.namespace == os.readlink("/proc/self/ns/pid")
    assert process.withheld == ()


def test_the_table_holds_us_and_our_children(sleeper: subprocess.Popen[bytes]) -> None:
    table = proc.read_table()
    assert table[os.getpid()].comm == Path("/proc/self/comm").read_text().strip()
    assert table[sleeper.pid].identity == seen(sleeper.pid).identity


@pytest.mark.parametrize("limit", [Exhausted("proc:1", "too many open files"), None])
def test_without_a_descriptor_there_is_no_table(
    sleeper: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch, limit: Exception | None
) -> None:
    """One that was not read for want of a descriptor would be missing, and count as ended. What may not
    be looked at is passed over."""
    read, failure = proc_entry.read_stat, limit or Forbidden("proc:1", "hidepid=1")

    def refusing(pid: int) -> bytes:
        if pid == sleeper.pid:
            raise failure
        return read(pid)

    monkeypatch.setattr(proc, "read_stat", refusing)
    if limit is None:
        assert sleeper.pid not in proc.read_table()
        return
    with pytest.raises(Exhausted):
        proc.read_table()


@pytest.mark.parametrize(
    ("failure", "told"),
    [
        (FileNotFoundError(), proc.INITIAL_PID_NAMESPACE),  # a kernel without namespaces has the one
        (PermissionError(), ""),
    ],
)
def test_our_namespace_where_it_is_not_told(
    failure: OSError, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: str) -> str:
        raise failure

    us = seen(os.getpid()).identity
    assert proc.namespace() == os.readlink("/proc/self/ns/pid")
    assert not proc.elsewhere(us, proc.namespace())
    monkeypatch.setattr(os, "readlink", refuse)
    assert proc.namespace() == told
    assert proc.elsewhere(us, proc.namespace()) == (told == ""), "nobody can tell that they are the same"
    assert not proc.elsewhere(us, None)


def test_open_files_are_told(tmp_path: Path) -> None:
    with (tmp_path / "held").open("w") as held:
        child = subprocess.Popen(["/bin/sleep", "60"], stdout=held)
    try:
        assert str(tmp_path / "held") in seen(child.pid).open_files()
    finally:
        child.kill()
        child.wait()


def test_where_its_threads_sleep_is_told() -> None:
    child = subprocess.Popen(["/bin/cat"], stdin=subprocess.PIPE)
    try:
        until(lambda: any("pipe" in place for place in seen(child.pid).sleeps_in()), "it reads its pipe")
    finally:
        child.communicate()


def test_who_writes_a_file_and_who_only_reads_it(tmp_path: Path) -> None:
    read, written = tmp_path / "read", tmp_path / "written"
    read.touch()
    with read.open("rb") as source, written.open("ab") as target:
        child = subprocess.Popen(
            ["/bin/cat"], stdin=subprocess.PIPE, stdout=target, pass_fds=[source.fileno()]
        )
    try:
        assert str(read) in seen(child.pid).open_files()
        found = [seen(child.pid).writes(str(path)) for path in (read, written, tmp_path / "else")]
        assert found == [False, True, False]
    finally:
        child.kill()
        child.communicate()


def test_how_far_it_has_written_is_told(tmp_path: Path) -> None:
    """Not where the file ends: others append to it, too."""
    log = tmp_path / "log"
    with log.open("ab") as held:
        child = subprocess.Popen(
            ["/bin/sh", "-c", "echo one; read _"], stdout=held, stdin=subprocess.PIPE, text=True
        )
    try:
        until(lambda: log.read_text() == "one\n", "it has written")
        with log.open("a") as other:
            other.write("another\n")
        assert seen(child.pid).position_in(str(log)) == len("one\n")
        with pytest.raises(Gone, match="does not hold"):
            seen(child.pid).position_in(str(tmp_path / "else"))
    finally:
        child.kill()
        child.communicate()


def test_a_zombie_is_not_alive(sleeper: subprocess.Popen[bytes]) -> None:
    identity = seen(sleeper.pid).identity
    sleeper.kill()
    os.waitid(os.P_PID, sleeper.pid, os.WEXITED | os.WNOWAIT)  # dead, and left unburied
    zombie = proc.current(identity)
    assert zombie is not None
    assert not zombie.alive
    assert zombie.exit_status == 9
    assert not proc.read_table()[sleeper.pid].alive


def test_one_that_ends_after_the_first_glance_is_gone(sleeper: subprocess.Popen[bytes]) -> None:
    process = proc.read_table()[sleeper.pid]
    sleeper.kill()
    sleeper.wait()
    for ask in (lambda: process.argv, process.environ, process.open_files, process.inner_pid):
        with pytest.raises(Gone):
            ask()
    assert proc.current(process.identity) is None
    with pytest.raises(Gone):
        seen(sleeper.pid)


def test_another_process_with_the_same_pid_is_not_taken_for_it(
    sleeper: subprocess.Popen[bytes],
) -> None:
    real = seen(sleeper.pid).identity
    earlier = ProcessIdentity(real.boot, real.pid, real.start - 1)
    assert proc.current(earlier) is None
    assert proc.current(ProcessIdentity("another-boot", real.pid, real.start)) is None
    with pytest.raises(Gone, match="another process"):
        proc.Process(earlier, 1, "S", "sleep").environ()


@pytest.mark.parametrize("name", ["a b", "a) S 1 (b", ")", "(", "ünïcode"])
def test_names_with_blanks_and_parentheses(tmp_path: Path, name: str) -> None:
    binary = tmp_path / name
    shutil.copy("/bin/sleep", binary)
    child = subprocess.Popen([str(binary), "60"])
    try:
        wait_for_program(child.pid)
        process = seen(child.pid)
        assert (process.comm, process.state in "SRD") == (name, True)
        assert process.parent == os.getpid()
    finally:
        child.kill()
        child.wait()


def test_a_deleted_binary_keeps_its_name(tmp_path: Path) -> None:
    binary = tmp_path / "agent"
    shutil.copy("/bin/sleep", binary)
    child = subprocess.Popen([str(binary), "60"])
    try:
        wait_for_program(child.pid)
        binary.unlink()
        process = seen(child.pid)
        assert process.exe == str(binary)
        assert process.replaced
    finally:
        child.kill()
        child.wait()


@as_root
def test_what_is_withheld_is_told_as_such(sleeper: subprocess.Popen[bytes]) -> None:
    def look() -> bool:
        process = seen(sleeper.pid)
        told = process.argv == ("/bin/sleep", "60") and process.uid == 0
        withheld = process.exe is None and process.cwd is None and process.withheld == ("exe", "cwd")
        return told and withheld and process.layout == 0

    assert in_a_child(look, NOBODY)


@as_root
@pytest.mark.parametrize("what", ["environ", "open_files"])
def test_another_users_secrets_are_forbidden(sleeper: subprocess.Popen[bytes], what: str) -> None:
    def look() -> bool:
        try:
            getattr(seen(sleeper.pid), what)()
        except Forbidden:
            return True
        return False

    assert in_a_child(look, NOBODY)


def test_a_fork_has_the_layout_of_its_parent_and_an_exec_has_not(
    sleeper: subprocess.Popen[bytes],
) -> None:
    ready, done = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(done)
        os.read(ready, 1)
        os._exit(0)
    try:
        mine = seen(os.getpid()).layout
        assert mine != 0
        assert seen(child).layout == mine
        assert seen(sleeper.pid).layout != mine
    finally:
        os.close(done)
        os.close(ready)
        os.waitpid(child, 0)


def test_a_process_whose_first_thread_has_ended_is_alive_while_another_runs() -> None:
    """Its state is a zombie's, and kill -0 says nothing new: only the number of threads tells."""
    script = (
        "import ctypes, threading, time\n"
        "threading.Thread(target=time.sleep, args=[600]).start()\n"
        "ctypes.CDLL(None).syscall(60, 0)\n"  # exit(2) of the thread alone, which Python never calls
    )
    child = subprocess.Popen([sys.executable, "-c", script])
    try:
        until(lambda: seen(child.pid).state == "Z", "the first thread has ended")
        assert seen(child.pid).alive
        assert seen(child.pid).ending
    finally:
        child.kill()
        child.wait()


def test_when_it_began_is_no_later_than_when_it_was_first_seen(sleeper: subprocess.Popen[bytes]) -> None:
    """The clock may have been set forward since."""
    looked = time.time()
    _ = seen(sleeper.pid).argv
    its = seen(sleeper.pid)
    counted = its.identity.start / proc.TICKS
    assert its.began(looked) == its.may_have_begun(looked) <= time.time(), "it seems to be in the future"
    assert its.began(looked) >= looked - 60, "others may have looked before"
    assert its.began(0.0) == counted, "the earlier of the two"
    near = its.began(looked) - counted + proc.STEP / 2
    assert its.began(near) == near + counted, "no clock was set: the kernel's count is the better one"


def test_what_it_has_opened_it_opened_after_it_began() -> None:
    """Not what it was given, which may be older than it is; and a socket has no time at all."""
    program = "import os, socket; both = socket.socketpair(), os.pipe(); print(flush=True); input()"
    child = subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    try:
        assert child.stdout is not None
        child.stdout.readline()
        its, given = seen(child.pid), os.fstat(child.stdout.fileno()).st_ctime
        its._described, its._seen = True, proc.NEVER  # as if nobody had looked
        assert its.began(1e12) > 1e12
        assert given <= its.may_have_begun(1e12) <= time.time()
    finally:
        child.communicate(b"\n", timeout=20)


@pytest.mark.parametrize(
    "failure", [Exhausted("/proc", "too many open files"), Forbidden("/proc", "no")]
)
def test_nor_younger_for_want_of_a_descriptor(
    failure: SourceError, sleeper: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it has opened may be all that shows how old it is."""

    def refuse(self: proc.Process) -> dict[str, str]:
        raise failure

    its = seen(sleeper.pid)
    monkeypatch.setattr(proc.Process, "_descriptors", refuse)
    if isinstance(failure, Forbidden):
        assert its.may_have_begun(0.0) == its.began(0.0)
        return
    with pytest.raises(Exhausted):
        its.may_have_begun(0.0)


def test_a_process_that_is_gone_has_left_no_mark() -> None:
    ended = subprocess.Popen(["cat"], stdin=subprocess.PIPE)
    wait_for_program(ended.pid)
    its = seen(ended.pid)
    ended.communicate(timeout=20)
    assert its.may_have_begun(1e12) == 1e12 + its.identity.start / proc.TICKS


def test_newcomers_were_born_or_became_another_program() -> None:
    before = proc.read_table()
    child = subprocess.Popen(["sh", "-c", "read line; exec cat"], stdin=subprocess.PIPE)
    assert child.stdin is not None

    def new(table: Mapping[int, proc.Process]) -> list[str]:
        return [process.comm for process in proc.newcomers(table) if process.pid == child.pid]

    try:
        until(lambda: seen(child.pid).comm == "sh", "it is a shell")
        assert new(before) == ["sh"]
        between = proc.read_table()
        assert new(between) == []
        child.stdin.write(b"\n")
        child.stdin.flush()
        until(lambda: seen(child.pid).comm == "cat", "it has become another program")
        assert new(between) == ["cat"]
    finally:
        child.communicate(timeout=20)
    assert new(before) == []
