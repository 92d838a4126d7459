"""One look at the machine: whose processes, whose files, whose settings."""

import os
import pwd
import signal
import subprocess
import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from agentctl.errors import Exhausted, Forbidden, Gone, Malformed, SourceError
from agentctl.paths import home
from agentctl.system import clock, file_holders, proc
from agentctl.system.proc import Process
from agentctl.testing.player import wait_for_program
from agentctl.truth import visibility
from agentctl.truth.look import Environ, Look
from agentctl.truth.model import Evidence, Facts
from agentctl.truth.warm import Stamp
from tests.fakes.stranger import Stranger
from tests.truth.strategies import process
from tests.waiting import until

NOBODY = 65534
INIT = {1: process(1, parent=0, start=0)}  # without it, others are hidden from us
UNLISTED = 54321


@pytest.fixture
def look() -> Look:
    return Look.take({"HOME": "/ours"}).scoped("somebody")


@pytest.fixture
def stranger(tmp_path: Path) -> Iterator[Stranger]:
    environ = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path / "theirs"), "LOOKED_AT": tmp_path.name}
    with Stranger("looked-at", environ, tmp_path) as made:
        yield made


def root(environ: Environ) -> str | None:
    base = home(environ)
    return environ.get("AGENT_HOME") or (f"{base}/.agent" if base else None)


# processes


def test_a_long_look_does_not_date_processes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    def long_read() -> dict[int, Process]:
        end = time.monotonic() + 0.3
        while time.monotonic() < end:
            pass
        return {}

    monkeypatch.setattr(proc, "read_table", long_read)
    assert Look.take({}).boot_time > clock.boot_time(time.time()) - 0.2


def test_candidates_are_sieved_by_name(stranger: Stranger, look: Look) -> None:
    look = Look.take({})
    pids = [p.pid for p in look.candidates(frozenset({"looked-at"}))]
    assert stranger.pid in pids
    assert stranger.pid not in [p.pid for p in look.candidates(frozenset({"looked"}))]


@pytest.mark.parametrize(
    ("comm", "fits"), [("2.1.325", True), ("2.1.325-beta.1", True), ("2.1", False), ("a.b.c", False)]
)
def test_a_binary_named_after_its_version(comm: str, fits: bool) -> None:
    made = Process(process(7).identity, 1, "S", comm)
    assert bool(Look({7: made}, {}, 0.0).candidates(frozenset({"#.#.#"}))) == fits
    assert not Look({7: made}, {}, 0.0).candidates(frozenset({"claude"}))


def test_a_zombie_is_no_candidate(tmp_path: Path) -> None:
    with Stranger("looked-at", {"LOOKED_AT": tmp_path.name}, tmp_path) as stranger:
        stranger.end(reap=False)
        assert stranger.process.state == "Z"
        assert stranger.pid not in [p.pid for p in Look.take({}).candidates(frozenset({"looked-at"}))]


def test_confined_it_sees_only_the_marked(stranger: Stranger, tmp_path: Path) -> None:
    comms = frozenset({"looked-at"})
    with Stranger("looked-at", {"LOOKED_AT": "another"}, tmp_path) as other:
        confined = Look.take({"AGENTCTL_CONFINE": f"LOOKED_AT={tmp_path.name}"})
        assert [p.pid for p in confined.candidates(comms)] == [stranger.pid]
        assert {stranger.pid, other.pid} <= {p.pid for p in Look.take({}).candidates(comms)}
        assert Look.take({"AGENTCTL_CONFINE": "LOOKED_AT=nobody"}).candidates(comms) == []


def test_children_and_descendants() -> None:
    made = [
        process(10),
        process(20, 10),
        process(21, 10, "Z"),
        process(30, 20),
        process(31, 21),
        process(40),
    ]
    look = Look({p.pid: p for p in made}, {}, 0.0)
    assert [p.pid for p in look.children(made[0])] == [20, 21]
    assert [p.pid for p in look.descendants(made[0])] == [20, 30]
    assert look.descendants(made[-1]) == []


def test_when_a_process_started(stranger: Stranger) -> None:
    before = time.time()
    look = Look.take({})
    assert abs(look.started_at(look.table[stranger.pid]) - before) < 60


def test_the_fate_of_a_process_that_a_record_names(tmp_path: Path) -> None:
    with Stranger("looked-at", {}, tmp_path) as stranger:
        identity = stranger.identity

        def fate(start: int) -> list[Evidence]:
            return list(Look.take({}).fate(identity.pid, start, "/7.json"))

        assert fate(identity.start) == []
        (reused,) = fate(identity.start - 1)
        assert (reused.claim, reused.authority) == ("ended", "kernel")
        stranger.end(reap=False)
        ended, exited = fate(identity.start)
        assert (ended.claim, exited.claim, exited.value) == ("ended", "exited", -signal.SIGKILL)
    (ended,) = fate(identity.start)
    assert "does not exist any more" in ended.note


# settings


def test_the_environment_of_another_process_is_its_own(
    stranger: Stranger, look: Look, tmp_path: Path
) -> None:
    assert look.environ_of(stranger.process)["HOME"] == str(tmp_path / "theirs")


def test_roots_are_ours_and_each_of_theirs_once(look: Look, tmp_path: Path) -> None:
    with (
        Stranger("looked-at", {"HOME": "/a"}, tmp_path) as one,
        Stranger("looked-at", {"HOME": "/a"}, tmp_path) as two,
        Stranger("looked-at", {"HOME": "/b", "AGENT_HOME": "/c"}, tmp_path) as three,
    ):
        look.owned = tuple(each.process for each in (one, two, three))
        assert look.roots(root) == ["/ours/.agent", "/a/.agent", "/c"]
        assert look.root_of(three.process, root) == "/c"


def test_a_process_that_is_gone_has_no_settings(look: Look, tmp_path: Path) -> None:
    with Stranger("looked-at", {"HOME": "/a"}, tmp_path) as stranger:
        made = stranger.process
    assert look.environ_of(made) == {}
    assert look.problems == []


class Withheld(Process):
    """Another user's: the kernel does not show its environment."""

    __slots__ = ()

    failure: SourceError = Forbidden("proc:7@1/environ", "the kernel refuses to tell")

    def __init__(self, uid: int) -> None:
        super().__init__(process(7).identity, 1, "S", "agent")
        self._uid, self._described = uid, True

    def environ(self) -> Environ:
        raise self.failure


@pytest.mark.parametrize(
    "failure", [Withheld.failure, Exhausted("proc:7@1", "too many open files")], ids=lambda f: f.kind
)
def test_where_the_environment_is_withheld_the_user_s_home_counts(
    look: Look, failure: SourceError, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Withheld, "failure", failure)
    assert look.environ_of(Withheld(0)) == {"HOME": pwd.getpwuid(0).pw_dir}
    assert [p.kind for p in look.problems] == [failure.kind]


def test_a_withheld_uid_without_passwd_entry_has_no_home(look: Look) -> None:
    with pytest.raises(KeyError):
        pwd.getpwuid(UNLISTED)
    assert look.environ_of(Withheld(UNLISTED)) == {}


def test_home_without_home(monkeypatch: pytest.MonkeyPatch) -> None:
    assert home({"HOME": "/h"}) == "/h"
    assert home({}) == pwd.getpwuid(os.getuid()).pw_dir
    assert home({"HOME": ""}) == pwd.getpwuid(os.getuid()).pw_dir
    monkeypatch.setattr("os.getuid", lambda: UNLISTED)
    assert home({}) is None
    assert Look({}, {}, 0.0).roots(root) == []


def test_a_process_without_home_lives_in_its_own_user_s(look: Look, tmp_path: Path) -> None:
    """Not in ours: root looks at other people's agents."""
    if os.geteuid() != 0:
        pytest.skip("needs root: to start a process of another user")
    with subprocess.Popen(
        ["sleep", "60"],
        env={"PATH": "/usr/bin:/bin"},
        cwd="/",
        user=NOBODY,
        group=NOBODY,
        extra_groups=[],
    ) as child:
        try:
            made = proc.read_process(child.pid, proc.boot_id())
            assert home(look.environ_of(made)) == pwd.getpwuid(NOBODY).pw_dir
        finally:
            child.kill()


# files


def test_absent_is_nothing_and_unreadable_is_told(look: Look, tmp_path: Path) -> None:
    assert look.names(str(tmp_path / "none")) == []
    assert look.status(str(tmp_path / "none")) is None
    assert look.problems == []
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    assert look.names(str(loop)) == []
    assert look.status(str(loop)) is None
    assert {(p.adapter, p.kind, p.source) for p in look.problems} == {
        ("somebody", "malformed", str(loop))
    }


class Remembering:
    """A memory that tells what it was given."""

    def __init__(self) -> None:
        self.kept: dict[tuple[str, Stamp], Any] = {}

    def recall(self, path: str, stamp: Stamp) -> Any:
        return self.kept.get((path, stamp))

    def remember(self, path: str, stamp: Stamp, changed: float, said: Any) -> None:
        self.kept[path, stamp] = said


def test_what_a_file_said_is_remembered_unless_it_had_a_problem(tmp_path: Path) -> None:
    memory = Remembering()
    look = Look({}, {}, 0.0, memory=memory).scoped("somebody")
    status = tmp_path.stat()
    assert look.facts("/good", status, lambda *_: Facts(title="read")) == Facts(title="read")
    assert look.facts("/good", status, lambda *_: Facts(title="again")) == Facts(title="read")
    assert look.facts("/bad", status, lambda *_: Facts(garbled=2)) == Facts(garbled=2)
    assert {path for path, _ in memory.kept} == {"/good"}
    assert [(p.kind, p.source) for p in look.problems] == [("malformed", "/bad")]


def test_a_problem_told_already_is_one_all_the_same(tmp_path: Path) -> None:
    """A live session's file is read twice: as the one of its process, and as a file."""
    memory = Remembering()
    look = Look({}, {}, 0.0, memory=memory).scoped("somebody")
    look.problem("malformed", "2 records not readable", "/bad")
    look.facts("/bad", tmp_path.stat(), lambda *_: Facts(garbled=2))
    assert len(look.problems) == 1
    assert memory.kept == {}


def test_a_file_that_changed_is_read_anew(tmp_path: Path) -> None:
    look, path = Look({}, {}, 0.0, memory=Remembering()), tmp_path / "s.jsonl"
    read = count(1)

    def facts() -> str | None:
        return look.facts(str(path), path.stat(), lambda *_: Facts(title=str(next(read)))).title

    path.write_text("{}\n")
    os.utime(path, ns=(0, 10**18))
    assert [facts(), facts()] == ["1", "1"]
    os.utime(path, ns=(0, 10**18 + 1))  # another time
    assert [facts(), facts()] == ["2", "2"]
    path.write_text("{} \n")  # another size
    os.utime(path, ns=(0, 10**18 + 1))
    assert [facts(), facts()] == ["3", "3"]
    other = tmp_path / "other"
    other.write_text("{} \n")  # another inode
    os.utime(other, ns=(0, 10**18 + 1))
    other.rename(path)
    assert [facts(), facts()] == ["4", "4"]


@pytest.mark.parametrize("said", [7, "word", (), (1, 2), (1,) * 13])
def test_a_strange_memory_is_no_memory(tmp_path: Path, said: Any) -> None:
    memory = Remembering()
    look, status = Look({}, {}, 0.0, memory=memory), tmp_path.stat()
    look.facts("/f", status, lambda *_: Facts(title="read"))
    memory.kept = dict.fromkeys(memory.kept, said)
    assert look.facts("/f", status, lambda *_: Facts(title="again")) == Facts(title="again")


# what could not be read


def test_a_problem_is_told_once(look: Look) -> None:
    for _ in range(3):
        look.unreadable(Malformed("/f", "not JSON"))
    look.drift("status", "parked", "2.2.0", "/f")
    assert [(p.kind, p.source) for p in look.problems] == [("malformed", "/f"), ("drift", "/f")]
    assert "somebody 2.2.0 says status 'parked'" in look.problems[1].message


def test_a_source_that_was_not_read_is_more_than_a_problem(look: Look) -> None:
    look.problem("malformed", "2 records not readable", "/f")
    assert not look.unread
    look.unreadable(Malformed("/f", "database is locked"))
    assert look.unread
    assert not look.scoped("other").unread


def test_what_cannot_be_seen_is_the_same_for_every_adapter(
    look: Look, monkeypatch: pytest.MonkeyPatch
) -> None:
    take, taken = visibility.take, count()

    def counted(*given: Any) -> visibility.Sight:
        next(taken)
        return take(*given)

    monkeypatch.setattr(visibility, "take", counted)
    assert look.scoped("one").sight is look.scoped("two").sight is look.sight
    assert next(taken) == 1


def test_each_adapter_has_its_own_view(look: Look) -> None:
    other = look.scoped("other")
    other.problem("broken", "by itself")
    other.owned = (process(7),)
    assert look.problems == []
    assert look.owned == ()
    assert other.table is look.table
    assert (other.now, other.boot_time) == (look.now, look.boot_time)


def test_no_process_vanishing_ends_the_look(tmp_path: Path) -> None:
    made = process(2**22 - 1)
    look = Look({made.pid: made}, {}, 0.0, confine="A=b")
    assert look.candidates(frozenset({"agent"})) == []
    with pytest.raises(Gone):
        _ = made.argv


def test_what_was_written_after_we_looked_is_proven_by_nothing() -> None:
    look = Look(INIT, {}, now=time.time() - 1)
    assert look.unowned(look.now - 1, path="/x").claim == "gone"
    assert look.unowned(look.now + 0.5, path="/x").claim == "hidden"


def test_a_stamp_of_the_future_may_be_a_newcomer_s() -> None:
    """Mostly the clock was set back: then nobody is new, and all who may have written it are known."""
    before = proc.read_table()
    child = subprocess.Popen(["cat"], stdin=subprocess.PIPE, env={"OURS": "yes"})
    try:
        wait_for_program(child.pid)
        with_it = {**before, child.pid: proc.read_process(child.pid, proc.boot_id())}
        for table, comms, claim in (
            (before, {"cat"}, "hidden"),
            (before, {"no-such-program"}, "gone"),
            (with_it, {"cat"}, "gone"),
        ):
            look = Look(table, {}, now=time.time(), confine="OURS=yes")
            look.comms = frozenset(comms)
            assert look.unowned(look.now + 3600, path="/x").claim == claim
    finally:
        child.communicate(timeout=20)


@pytest.mark.parametrize(
    ("uid", "environ", "claim"),
    [
        (0, {}, "hidden"),  # as after `sudo -E`
        (os.geteuid(), {}, "hidden"),  # as seen from inside a user namespace
        (os.geteuid() + 1, {}, "gone"),
        (0, {"AGENTCTL_ALONE": "1"}, "gone"),
    ],
)
def test_a_process_outside_of_the_confinement_whose_settings_are_withheld(
    uid: int, environ: dict[str, str], claim: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def withheld(self: Process) -> dict[str, str]:
        raise Forbidden("/proc", "withheld")

    monkeypatch.setattr(Process, "environ", withheld)
    monkeypatch.setattr(Process, "uid", uid)
    outsider = proc.read_process(os.getpid(), proc.boot_id())
    look = Look({**INIT, outsider.pid: outsider}, environ, now=time.time(), confine="A=b")
    look.comms, look.owns = frozenset({outsider.comm}), lambda process: True
    assert look.unowned(look.now - 1, path="/x").claim == claim


def test_the_moment_of_a_look_is_before_its_processes() -> None:
    before = time.time()
    look = Look.take({})
    assert before <= look.now
    newest = max(look.started_at(process) for process in look.table.values())
    assert newest <= time.time() + 0.1


def test_another_user_s_process_is_no_suspect_for_our_session() -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can start a process as somebody else")
    other = subprocess.Popen(["cat"], stdin=subprocess.PIPE, user=NOBODY)
    try:
        wait_for_program(other.pid)
        its, ours = (proc.read_process(pid, proc.boot_id()) for pid in (other.pid, os.getpid()))
        look = Look(INIT, {}, now=time.time() + 60)
        look.loose = (its,)
        assert look.unowned(look.now, uid=NOBODY, path="/x").claim == "ambiguous"
        assert look.unowned(look.now, uid=4242, path="/x").claim == "gone"
        assert look.unowned(look.now, path="/x").claim == "ambiguous"  # whose file it is is not known
        look.loose = (its, ours)
        assert look.unowned(look.now, uid=4242, path="/x").note.startswith(
            f"pid {os.getpid()}:"
        )  # root may
    finally:
        other.communicate(timeout=20)


def test_a_suspect_that_has_ended_is_none() -> None:
    ended = subprocess.Popen(["cat"], stdin=subprocess.PIPE)
    wait_for_program(ended.pid)
    look = Look(INIT, {}, now=time.time() + 60)
    look.loose = (proc.read_process(ended.pid, proc.boot_id()),)
    ended.communicate(timeout=20)
    assert look.unowned(look.now, uid=os.getuid(), path="/x").claim == "gone"


def test_a_clock_that_was_set_forward_proves_nobody_younger() -> None:
    """It wrote, and then an hour was skipped, as where a machine has slept: counted from boot, it seems
    to have begun after that. What the kernel stamped for it tells otherwise."""
    child = subprocess.Popen(["cat"], stdin=subprocess.PIPE)
    try:
        wait_for_program(child.pid)
        its = proc.read_process(child.pid, proc.boot_id())
        assert its.began(0.0) < time.time()  # somebody has looked at it before
        written = time.time()
        look = Look(INIT, {}, now=time.time() + 3600)
        look.loose = (proc.read_process(child.pid, proc.boot_id()),)
        assert abs(look.started_at(its) - written) < 60
        assert look.unowned(written, path="/x").claim == "ambiguous"
        assert look.unowned(written - 1000, path="/x").claim == "gone", "before it began by either clock"
    finally:
        child.communicate(timeout=20)


def test_a_lock_of_the_same_number_on_another_file_system_is_nobody_s(
    tmp_path: Path, stranger: Stranger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel's table of locks names a file by its number, which other file systems have too. For
    want of a descriptor it cannot be told which one it is."""

    def exhausted(*_: object) -> bool:
        raise Exhausted("/proc", "too many open files")

    path = tmp_path / "thread.lock"
    path.touch()
    holder = subprocess.Popen(["flock", str(path), "cat"], stdin=subprocess.PIPE)
    try:
        inode = path.stat().st_ino
        until(lambda: inode in file_holders.lock_holders(), "it is locked")
        look = Look.take({})
        look._locks.update({inode: {*file_holders.lock_holders()[inode], stranger.pid}})
        assert [process.pid for process in look.lock_holders(str(path))] == [holder.pid]
        monkeypatch.setattr(Process, "has_open", exhausted)
        with pytest.raises(Exhausted):
            look.lock_holders(str(path))
    finally:
        holder.communicate()
