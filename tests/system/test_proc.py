"""The process table: identities, names, processes that are gone and facts that are withheld."""

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from agentctl.errors import Exhausted, Forbidden, Gone, SourceError
from agentctl.system import proc, procfs
from agentctl.system.proc import Process, ProcessIdentity, read_threads
from agentctl.testing.player import wait_for_program
from tests.waiting import until

OTHER_USER = 65534
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become another user")


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    child = subprocess.Popen(["/bin/sleep", "60"], env={"COLOUR": "blue", "EMPTY": ""}, cwd="/")
    wait_for_program(child.pid)
    yield child
    child.kill()
    child.wait()


def read_process(pid: int) -> proc.Process:
    return proc.read_process(pid, proc.read_boot_id())


def is_true_for(work: Callable[[], bool], uid: int) -> bool:
    """Return `work()` for another user, in a fork, as a process cannot change its user back."""
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
    process = read_process(sleeper.pid)
    assert process.is_alive
    assert process.parent == os.getpid()
    assert process.argv == ("/bin/sleep", "60")
    assert process.cwd == "/"
    assert os.path.samefile(process.exe or "", "/bin/sleep")
    assert process.uid == os.getuid()
    assert dict(process.environ()) == {"COLOUR": "blue", "EMPTY": ""}
    assert process.read_inner_pid() == sleeper.pid
    assert process.pid_namespace == os.readlink("/proc/self/ns/pid")


def test_the_table_has_us_and_our_children(sleeper: subprocess.Popen[bytes]) -> None:
    table = proc.read_table()
    assert table[os.getpid()].comm == Path("/proc/self/comm").read_text().strip()
    assert table[sleeper.pid].identity == read_process(sleeper.pid).identity


@pytest.mark.parametrize("limit", [Exhausted("proc:1", "too many open files"), None])
def test_without_a_descriptor_there_is_no_table(
    sleeper: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch, limit: Exception | None
) -> None:
    """Without a descriptor a process would not be read, and count as ended. One that we may not read is
    skipped."""
    read, failure = procfs.read_stat, limit or Forbidden("proc:1", "hidepid=1")

    def refuse_child(pid: int) -> bytes:
        if pid == sleeper.pid:
            raise failure
        return read(pid)

    monkeypatch.setattr(proc, "read_stat", refuse_child)
    if limit is None:
        assert sleeper.pid not in proc.read_table()
        return
    with pytest.raises(Exhausted):
        proc.read_table()


@pytest.mark.parametrize(
    ("failure", "expected"),
    [
        (FileNotFoundError(), proc.INITIAL_PID_NAMESPACE),  # a kernel without namespaces has the one
        (PermissionError(), ""),
    ],
)
def test_our_namespace_without_the_link(
    failure: OSError, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: str) -> str:
        raise failure

    us = read_process(os.getpid()).identity
    assert proc.pid_namespace() == os.readlink("/proc/self/ns/pid")
    assert not proc.may_be_elsewhere(us, proc.pid_namespace())
    monkeypatch.setattr(os, "readlink", refuse)
    assert proc.pid_namespace() == expected
    assert proc.may_be_elsewhere(us, proc.pid_namespace()) == (expected == ""), (
        "we cannot tell that they are the same"
    )
    assert not proc.may_be_elsewhere(us, None)


def test_open_files_are_listed(tmp_path: Path) -> None:
    with (tmp_path / "held").open("w") as file:
        child = subprocess.Popen(["/bin/sleep", "60"], stdout=file)
    try:
        assert str(tmp_path / "held") in read_process(child.pid).list_open_files()
    finally:
        child.kill()
        child.wait()


def test_wait_channels_of_its_threads_are_read() -> None:
    child = subprocess.Popen(["/bin/cat"], stdin=subprocess.PIPE)
    try:
        until(
            lambda: any("pipe" in place for place in read_process(child.pid).read_wait_channels()),
            "it reads its pipe",
        )
    finally:
        child.communicate()


def test_a_file_open_to_write_is_distinguished_from_one_open_to_read(tmp_path: Path) -> None:
    read, output = tmp_path / "read", tmp_path / "written"
    read.touch()
    with read.open("rb") as source, output.open("ab") as target:
        child = subprocess.Popen(
            ["/bin/cat"], stdin=subprocess.PIPE, stdout=target, pass_fds=[source.fileno()]
        )
    try:
        assert str(read) in read_process(child.pid).list_open_files()
        answers = [
            read_process(child.pid).has_open_to_write(str(path))
            for path in (read, output, tmp_path / "else")
        ]
        assert answers == [False, True, False]
    finally:
        child.kill()
        child.communicate()


def test_the_position_in_an_open_file_is_read(tmp_path: Path) -> None:
    """It is not the end of the file, to which others append too."""
    log = tmp_path / "log"
    with log.open("ab") as file:
        child = subprocess.Popen(
            ["/bin/sh", "-c", "echo one; read _"], stdout=file, stdin=subprocess.PIPE, text=True
        )
    try:
        until(lambda: log.read_text() == "one\n", "it has written")
        with log.open("a") as other:
            other.write("another\n")
        assert read_process(child.pid).read_file_position(str(log)) == len("one\n")
        with pytest.raises(Gone, match="does not hold"):
            read_process(child.pid).read_file_position(str(tmp_path / "else"))
    finally:
        child.kill()
        child.communicate()


def test_a_zombie_is_not_alive(sleeper: subprocess.Popen[bytes]) -> None:
    identity = read_process(sleeper.pid).identity
    sleeper.kill()
    os.waitid(os.P_PID, sleeper.pid, os.WEXITED | os.WNOWAIT)  # dead, and not reaped
    zombie = proc.find_process(identity)
    assert zombie is not None
    assert not zombie.is_alive
    assert zombie.exit_status == 9
    assert not proc.read_table()[sleeper.pid].is_alive


def test_a_process_that_ends_after_the_table_was_read_is_gone(sleeper: subprocess.Popen[bytes]) -> None:
    process = proc.read_table()[sleeper.pid]
    sleeper.kill()
    sleeper.wait()
    for read in (lambda: process.argv, process.environ, process.list_open_files, process.read_inner_pid):
        with pytest.raises(Gone):
            read()
    assert proc.find_process(process.identity) is None
    with pytest.raises(Gone):
        read_process(sleeper.pid)


def test_another_process_with_the_same_pid_is_not_found(
    sleeper: subprocess.Popen[bytes],
) -> None:
    real = read_process(sleeper.pid).identity
    earlier = ProcessIdentity(real.boot, real.pid, real.start - 1)
    assert proc.find_process(earlier) is None
    assert proc.find_process(ProcessIdentity("another-boot", real.pid, real.start)) is None
    with pytest.raises(Gone, match="another process"):
        proc.Process(earlier, 1, "S", "sleep").environ()


@pytest.mark.parametrize("name", ["a b", "a) S 1 (b", ")", "(", "ünïcode"])
def test_names_with_blanks_and_parentheses(tmp_path: Path, name: str) -> None:
    binary = tmp_path / name
    shutil.copy("/bin/sleep", binary)
    child = subprocess.Popen([str(binary), "60"])
    try:
        wait_for_program(child.pid)
        process = read_process(child.pid)
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
        process = read_process(child.pid)
        assert process.exe == str(binary)
    finally:
        child.kill()
        child.wait()


@as_root
def test_withheld_facts_of_another_users_process_are_none(sleeper: subprocess.Popen[bytes]) -> None:
    def look() -> bool:
        process = read_process(sleeper.pid)
        is_readable = process.argv == ("/bin/sleep", "60") and process.uid == 0
        is_withheld = process.exe is None and process.cwd is None
        return is_readable and is_withheld and process.layout == 0

    assert is_true_for(look, OTHER_USER)


@as_root
@pytest.mark.parametrize("what", ["environ", "list_open_files"])
def test_another_users_secrets_are_forbidden(sleeper: subprocess.Popen[bytes], what: str) -> None:
    def look() -> bool:
        try:
            getattr(read_process(sleeper.pid), what)()
        except Forbidden:
            return True
        return False

    assert is_true_for(look, OTHER_USER)


def test_a_fork_has_the_layout_of_its_parent_and_an_exec_has_not(
    sleeper: subprocess.Popen[bytes],
) -> None:
    wait_end, release = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(release)
        os.read(wait_end, 1)
        os._exit(0)
    try:
        mine = read_process(os.getpid()).layout
        assert mine != 0
        assert read_process(child).layout == mine
        assert read_process(sleeper.pid).layout != mine
    finally:
        os.close(release)
        os.close(wait_end)
        os.waitpid(child, 0)


def test_a_process_without_its_first_thread_is_alive_while_another_runs() -> None:
    """Its state is that of a zombie, and kill -0 works for both: only the number of threads differs."""
    script = (
        "import ctypes, threading, time\n"
        "threading.Thread(target=time.sleep, args=[600]).start()\n"
        "ctypes.CDLL(None).syscall(60, 0)\n"  # exit(2) of the thread alone, which Python never calls
    )
    child = subprocess.Popen([sys.executable, "-c", script])
    try:
        until(lambda: read_process(child.pid).state == "Z", "the first thread has ended")
        assert read_process(child.pid).is_alive
        assert read_process(child.pid).is_ending
    finally:
        child.kill()
        child.wait()


def test_a_process_began_no_later_than_it_was_first_seen(sleeper: subprocess.Popen[bytes]) -> None:
    """Counted from boot it may seem younger, if the clock was set forward since."""
    looked = time.time()
    _ = read_process(sleeper.pid).argv
    its = read_process(sleeper.pid)
    counted = its.identity.start / proc.TICKS
    assert its.find_start_time(looked) == its.find_earliest_start_time(looked) <= time.time(), (
        "it seems to be in the future"
    )
    assert its.find_start_time(looked) >= looked - 60, "another process may have looked before"
    assert its.find_start_time(0.0) == counted, "the earlier of the two"
    near = its.find_start_time(looked) - counted + proc.STEP / 2
    assert its.find_start_time(near) == near + counted, (
        "no clock was set: the kernel's count is the better one"
    )


def test_a_process_began_no_later_than_it_opened_a_file() -> None:
    """A file that it inherited may be older than the process; and a socket has no time at all."""
    program = "import os, socket; both = socket.socketpair(), os.pipe(); print(flush=True); input()"
    child = subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    try:
        assert child.stdout is not None
        child.stdout.readline()
        its, created_at = read_process(child.pid), os.fstat(child.stdout.fileno()).st_ctime
        its._described, its._accessed_at = True, proc.NEVER  # as if no process had read it
        assert its.find_start_time(1e12) > 1e12
        assert created_at <= its.find_earliest_start_time(1e12) <= time.time()
    finally:
        child.communicate(b"\n", timeout=20)


@pytest.mark.parametrize(
    "failure", [Exhausted("/proc", "too many open files"), Forbidden("/proc", "no")]
)
def test_without_a_descriptor_the_earliest_start_time_is_an_error(
    failure: SourceError, sleeper: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The files that it has opened may be all that shows its age."""

    def refuse(self: proc.Process) -> dict[str, str]:
        raise failure

    its = read_process(sleeper.pid)
    monkeypatch.setattr(proc.Process, "_descriptors", refuse)
    if isinstance(failure, Forbidden):
        assert its.find_earliest_start_time(0.0) == its.find_start_time(0.0)
        return
    with pytest.raises(Exhausted):
        its.find_earliest_start_time(0.0)


def test_the_start_time_of_an_ended_process_is_counted_from_boot() -> None:
    child = subprocess.Popen(["cat"], stdin=subprocess.PIPE)
    wait_for_program(child.pid)
    its = read_process(child.pid)
    child.communicate(timeout=20)
    assert its.find_earliest_start_time(1e12) == 1e12 + its.identity.start / proc.TICKS


def test_new_processes_are_forks_and_execs() -> None:
    before = proc.read_table()
    command = ["sh", "-c", "echo ready; read line; exec cat"]
    child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert child.stdin is not None
    assert child.stdout is not None

    def list_new(table: Mapping[int, proc.Process]) -> list[str]:
        return [process.comm for process in proc.find_new_processes(table) if process.pid == child.pid]

    try:
        # An exec is not atomic: a process has the name of its program before the program's memory.
        assert child.stdout.readline() == b"ready\n"
        assert list_new(before) == ["sh"]
        between = proc.read_table()
        assert list_new(between) == []
        child.stdin.write(b"\n")
        child.stdin.flush()
        until(lambda: read_process(child.pid).comm == "cat", "it has become another program")
        assert list_new(between) == ["cat"]
    finally:
        child.communicate(timeout=20)
    assert list_new(before) == []


TWO_THREADS = """
import threading
def second():
    open("/proc/thread-self/comm", "w").write("second")
    print("ready", flush=True)
    input()
threading.Thread(target=second).start()
"""


def test_a_thread_has_a_name_and_began_after_its_process() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", TWO_THREADS], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as child:
        assert child.stdout is not None
        child.stdout.readline()
        process = proc.read_process(child.pid, proc.read_boot_id())
        first, second = read_threads(process)
        assert first.start == process.identity.start
        assert second.start >= first.start
        assert second.comm == "second"
        assert process.find_thread_start("second") == second.start
        assert process.find_thread_start("third") is None
        child.communicate(b"\n")
    with pytest.raises(Gone):
        read_threads(process)


def test_threads_of_another_process_with_the_pid_are_gone() -> None:
    me = proc.read_process(os.getpid(), proc.read_boot_id())
    earlier = ProcessIdentity(me.identity.boot, me.pid, me.identity.start - 1)
    with pytest.raises(Gone):
        read_threads(Process(earlier, me.parent, me.state, me.comm))


def test_queue_seconds_are_zero_without_a_process() -> None:
    assert proc.read_queue_seconds(os.getpid()) >= 0.0
    assert proc.read_queue_seconds(2**31 - 1) == 0.0
