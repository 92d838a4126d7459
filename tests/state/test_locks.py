"""Locks on directories: each has one holder, the dead hold nothing, and a refusal names the holder."""

import os
import re
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentctl.errors import NotFound, Refused, UsageError
from agentctl.state import db, launch_writes, locks, schema
from agentctl.state.locks import Lock
from agentctl.system import proc
from agentctl.system.proc import ProcessIdentity
from agentctl.truth import launches
from agentctl.truth.model import Launch
from tests.fakes.stranger import Stranger
from tests.namespaces import pid_namespace
from tests.running import SOURCES
from tests.state.racing import race
from tests.waiting import until

ME = proc.read_process(os.getpid(), proc.read_boot_id()).identity
DEAD = ME._replace(start=ME.start - 1)  # a process that had our pid before


@pytest.fixture
def stranger(tmp_path: Path) -> Iterator[Stranger]:
    with Stranger("another", {"PATH": "/usr/bin:/bin"}, tmp_path) as process:
        yield process


def _begin(path: str, work: str, identity: ProcessIdentity = ME, launch_id: str = "1a") -> Launch:
    note = Launch(launch_id, identity, cwd=work)
    launch_writes.begin_launch(path, note)
    return note


# people


def test_a_persons_lock_is_held_until_it_is_released(path: str, work: str) -> None:
    lock = locks.acquire_lock(path, work, "me", "a merge", None)
    assert locks.list_held(path) == [lock]
    assert (lock.directory, lock.by, lock.reason, lock.expires_at) == (work, "me", "a merge", None)
    with pytest.raises(Refused) as caught:
        locks.acquire_lock(path, work, "you", None, None)
    assert re.fullmatch(
        rf"{re.escape(work)} is locked by me \(a merge\), for \d+s now", str(caught.value)
    )
    assert caught.value.hint == f"agentctl unlock {work} releases it"
    assert locks.release_locks(path, work, force=False) == [lock]
    assert locks.list_held(path) == []


def test_a_persons_lock_survives_the_process_that_took_it(path: str, work: str) -> None:
    """A person's lock is bound to no process."""
    assert race(1, "locks.acquire_lock(*sys.argv[1:], None, None, None)", path, work) == ["won"]
    assert [lock.directory for lock in locks.list_held(path)] == [work]


def test_a_lock_ends_with_its_time(path: str, work: str, monkeypatch: pytest.MonkeyPatch) -> None:
    lock = locks.acquire_lock(path, work, "me", None, 7200)
    with pytest.raises(Refused, match=r"and free in 2h$"):
        locks.acquire_lock(path, work, "you", None, None)
    assert lock.expires_at is not None
    _set_time(monkeypatch, lock.expires_at)
    assert locks.list_held(path) == []
    with pytest.raises(NotFound):
        locks.release_locks(path, work, force=False)
    assert locks.acquire_lock(path, work, "you", None, None).by == "you"


def _set_time(monkeypatch: pytest.MonkeyPatch, now: float) -> None:
    monkeypatch.setattr(time, "time", lambda: now)


def test_what_cannot_be_locked(path: str, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for name in ("file", "absent", "file/below", "a\0b"):
        with pytest.raises(UsageError, match="not a directory"):
            locks.acquire_lock(path, str(tmp_path / name), None, None, None)
    for ttl in (0.0, -1.0):
        with pytest.raises(UsageError, match="--ttl must be more than 0"):
            locks.acquire_lock(path, str(tmp_path), None, None, ttl)
    assert not Path(path).exists()


def test_a_lock_that_does_not_exist_is_not_released(path: str, work: str) -> None:
    with pytest.raises(NotFound, match=f"^{work} is not locked$"):
        locks.release_locks(path, work, force=True)
    assert not Path(path).exists()  # asking creates nothing
    locks.acquire_lock(path, os.path.dirname(work), None, None, None)
    with pytest.raises(NotFound):
        locks.release_locks(path, work, force=True)


def test_a_deleted_directory_can_be_released(path: str, work: str) -> None:
    locks.acquire_lock(path, work, None, None, None)
    os.rmdir(work)
    assert len(locks.release_locks(path, work, force=False)) == 1


# launches


def test_a_launch_holds_its_directory_while_its_agent_lives(
    path: str, work: str, stranger: Stranger
) -> None:
    _begin(path, work, stranger.identity)
    with pytest.raises(Refused):
        _begin(path, work, launch_id="2b")
    with pytest.raises(Refused):
        locks.acquire_lock(path, work, None, None, None)
    stranger.end()  # by SIGKILL: the database does not change
    assert locks.list_held(path) == []
    _begin(path, work, launch_id="2b")
    assert [lock.launch_id for lock in locks.read_locks(path)] == ["2b"]  # the dead one's row is gone


def test_a_refusal_names_session_pid_age_and_the_ways_out(path: str, work: str) -> None:
    note = _begin(path, work)
    with pytest.raises(Refused) as caught:
        _begin(path, work, launch_id="2b")
    assert str(caught.value) == f"{work} is in use by launch 1a, pid {ME.pid}, for 0s now"
    assert caught.value.hint == f"agentctl stop pid:{ME.pid} ends it; --force launches beside it"
    launch_writes.record_session(path, note._replace(session_id="4f2a-51"))
    with pytest.raises(Refused) as caught:
        locks.acquire_lock(path, work, None, None, None)
    assert str(caught.value) == f"{work} is in use by session 4f2a-51, pid {ME.pid}, for 0s now"
    by_force = f"agentctl unlock --force {work} takes the lock from it"
    assert caught.value.hint == f"agentctl stop 4f2a-51 ends it; {by_force}"


def test_an_owner_in_another_container_holds_it_and_is_named(path: str, work: str) -> None:
    _begin(path, work, DEAD)
    connection = sqlite3.connect(path)
    with connection:
        connection.execute("update lock set namespace = 'pid:[1]'")
    connection.close()
    with pytest.raises(Refused) as caught:
        _begin(path, work, launch_id="2b")
    assert f"pid {ME.pid} in another container" in str(caught.value)
    assert str(caught.value).endswith("agentctl cannot see from here whether it lives")
    assert caught.value.hint == "--force launches beside it"
    assert len(locks.release_locks(path, work, force=True)) == 1


def test_a_lock_from_a_real_container(path: str, work: str) -> None:
    """Taken inside a pid namespace by a process that lives there, seen from here."""
    program = (
        "import os, sys; from agentctl.state import launch_writes; from agentctl.system import proc;"
        "from agentctl.truth.model import Launch;"
        "me = proc.read_process(os.getpid(), proc.read_boot_id()).identity;"
        "launch_writes.begin_launch(sys.argv[1], Launch('1a', me, cwd=sys.argv[2]));"
        "print('held', flush=True);"
        "sys.stdin.readline()"
    )
    child = subprocess.Popen(
        [*pid_namespace(), sys.executable, "-S", "-c", program, path, work],
        env={"PYTHONPATH": SOURCES, "PATH": os.environ["PATH"]},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert child.stdout is not None
    try:
        assert child.stdout.readline() == b"held\n"
        with pytest.raises(Refused, match=r"pid 1 in another container"):
            _begin(path, work, launch_id="2b")
    finally:
        child.communicate(timeout=20)


@pytest.mark.parametrize(
    ("namespace", "is_listed"), [(None, True), (proc.pid_namespace(), True), ("pid:[1]", False)]
)
def test_a_shim_of_a_container_with_the_same_path_is_ignored(
    path: str, work: str, monkeypatch: pytest.MonkeyPatch, namespace: str | None, is_listed: bool
) -> None:
    """Root has a home there, too: the same path, and another directory."""
    home = os.path.dirname(path)
    note = launches.ShimNote("1a", home, "demo", work, ME, namespace, 1.0, "4f2a-51", None)
    monkeypatch.setattr(locks, "read_shim_notes", lambda _: iter([note]))
    assert [lock.launch_id for lock in locks.list_without_note(path)] == ["1a"] * is_listed


def test_a_process_that_reuses_the_pid_holds_nothing(path: str, work: str) -> None:
    """In a pid namespace of its own, where the next pid can be chosen."""
    root = str(Path(SOURCES).parent)
    ran = subprocess.run(
        [*pid_namespace(), sys.executable, "-m", "tests.state.reuse_a_pid", path, work],
        env={"PYTHONPATH": f"{SOURCES}:{root}", "PATH": os.environ["PATH"]},
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert ran.stdout == b"the newcomer inherits nothing\n", ran.stderr.decode()


def test_a_forced_launch_shares_the_directory_and_each_lock_ends_alone(
    path: str, work: str, stranger: Stranger
) -> None:
    _begin(path, work, stranger.identity)
    launch_writes.begin_launch(path, Launch("2b", ME, cwd=work), force=True)
    assert {lock.launch_id for lock in locks.find_holders(path, work)} == {"1a", "2b"}
    stranger.end()
    assert {lock.launch_id for lock in locks.find_holders(path, work)} == {"2b"}


def test_the_lock_of_a_launch_is_released_only_by_force(path: str, work: str) -> None:
    _begin(path, work)
    with pytest.raises(Refused, match="in use by launch 1a") as caught:
        locks.release_locks(path, work, force=False)
    assert f"agentctl unlock --force {work}" in caught.value.hint
    assert [lock.launch_id for lock in locks.release_locks(path, work, force=True)] == ["1a"]
    assert locks.list_held(path) == []


def test_a_persons_lock_beside_a_launch_is_released_alone(path: str, work: str) -> None:
    locks.acquire_lock(path, work, "me", None, None)
    launch_writes.begin_launch(path, Launch("1a", ME, cwd=work), force=True)
    assert [lock.by for lock in locks.release_locks(path, work, force=False)] == ["me"]
    assert [lock.launch_id for lock in locks.list_held(path)] == ["1a"]


# names


def test_a_link_is_the_directory_it_leads_to(path: str, work: str, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(work)
    locks.acquire_lock(path, str(tmp_path / "link"), None, None, None)
    for name in (work, str(tmp_path / "link"), f"{work}/../link/."):
        with pytest.raises(Refused):
            _begin(path, name)
        assert [lock.directory for lock in locks.find_holders(path, name)] == [work]


@pytest.mark.parametrize(
    "name", ["a\nb", "\x1b[31m", "ä漢\u202e", "\udcff\udc80x", "a\udce4", " ", "'\"%_"]
)
def test_odd_names_are_names(path: str, tmp_path: Path, name: str) -> None:
    odd, plain = str(tmp_path / name), str(tmp_path / "plain")
    os.mkdir(odd)
    os.mkdir(plain)
    _begin(path, odd)
    locks.acquire_lock(path, plain, None, None, None)
    assert [lock.directory for lock in locks.list_held(path)] == [odd, plain]
    with pytest.raises(Refused):
        locks.acquire_lock(path, odd, None, None, None)
    assert [lock.directory for lock in locks.release_locks(path, odd, force=True)] == [odd]
    assert [lock.directory for lock in locks.list_held(path)] == [plain]


def test_a_deleted_current_directory_is_an_error(path: str, work: str) -> None:
    """`lock .`: the directory still exists for the process, but has no name any more."""
    inside = (
        "os.chdir(sys.argv[2]); os.rmdir(sys.argv[2]);"
        "locks.acquire_lock(sys.argv[1], '.', None, None, None)"
    )
    [line] = race(1, inside, path, work)
    assert line == "Gone .: no such file"


# many at once


@pytest.mark.slow
def test_exactly_one_of_fifty_processes_gets_the_lock(path: str, work: str) -> None:
    lines = race(50, "locks.acquire_lock(*sys.argv[1:], str(me.pid), None, None)", path, work)
    assert lines.count("won") == 1
    assert sum(line.startswith(f"Refused {work} is locked by ") for line in lines) == 49
    assert len(locks.read_locks(path)) == 1


@pytest.mark.slow
def test_of_six_processes_that_take_turns_no_two_are_inside(path: str, work: str) -> None:
    """Each takes and releases the lock, over and over, and must be alone while it holds it."""
    code = """
    for _ in range(300):
        try:
            locks.acquire_lock(*sys.argv[1:], None, None, None)
        except Refused:
            continue
        os.mkdir(f"{sys.argv[2]}/inside")
        os.rmdir(f"{sys.argv[2]}/inside")
        locks.release_locks(*sys.argv[1:], force=False)
"""
    assert race(6, code, path, work) == ["won"] * 6


# old databases, and none


def test_without_a_database_there_are_no_locks(path: str) -> None:
    assert locks.list_held(path) == []
    assert locks.sweep_locks(path) == []
    assert not Path(path).exists()


def test_a_database_from_before_locks_holds_none(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schema, "MIGRATIONS", schema.MIGRATIONS[:1])
    db.open_writable(path).close()
    assert locks.list_held(path) == []


def test_sweep_removes_locks_that_hold_nothing(
    path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("dead", "live", "over", "mine"):
        (tmp_path / name).mkdir()
    _begin(path, str(tmp_path / "dead"), DEAD, "1a")
    _begin(path, str(tmp_path / "live"), ME, "2b")
    locks.acquire_lock(path, str(tmp_path / "mine"), None, None, None)
    over = locks.acquire_lock(path, str(tmp_path / "over"), None, None, 60)
    assert over.expires_at is not None
    _set_time(monkeypatch, over.expires_at)
    assert {os.path.basename(lock.directory) for lock in locks.sweep_locks(path)} == {"dead", "over"}
    assert {os.path.basename(lock.directory) for lock in locks.read_locks(path)} == {"live", "mine"}
    assert locks.sweep_locks(path) == []


# any history


_DIRECTORY = st.sampled_from(["a", "b", "link to a"])
_STEPS = st.one_of(
    st.tuples(st.just("acquire"), _DIRECTORY, st.sampled_from([None, 10.0])),
    st.tuples(st.just("launch"), _DIRECTORY, st.booleans()),
    st.tuples(st.just("release"), _DIRECTORY, st.booleans()),
    st.tuples(st.just("end"), st.integers(0, 9), st.none()),
    st.tuples(st.just("wait"), st.sampled_from([1.0, 10.0]), st.none()),
    st.tuples(st.just("sweep"), st.none(), st.none()),
)


class _World:
    """The database, and a model of what it should say: the holders of each directory, and until when."""

    def __init__(self, root: Path) -> None:
        self.path = str(root / "state" / "state.db")
        self.root = root
        self.now = 1000.0
        self.number = 0
        self.holders: dict[tuple[str, str], float | None] = {}
        for name in ("a", "b"):
            (root / name).mkdir()
        (root / "link to a").symlink_to("a")

    def list_holders(self, directory: str) -> list[str]:
        return [launch for place, launch in self.holders if place == directory.rpartition(" ")[2]]

    def acquire(self, directory: str, ttl: float | None) -> None:
        if self.list_holders(directory):
            with pytest.raises(Refused):
                locks.acquire_lock(self.path, self._at(directory), None, None, ttl)
            return
        locks.acquire_lock(self.path, self._at(directory), None, None, ttl)
        self.holders[directory[-1], ""] = self.now + ttl if ttl else None

    def launch(self, directory: str, force: bool) -> None:
        self.number += 1
        note = Launch(str(self.number), ME, cwd=self._at(directory))
        if self.list_holders(directory) and not force:
            with pytest.raises(Refused):
                launch_writes.begin_launch(self.path, note, force=force)
            return
        launch_writes.begin_launch(self.path, note, force=force)
        self.holders[directory[-1], note.id] = None

    def release(self, directory: str, force: bool) -> None:
        going = [launch for launch in self.list_holders(directory) if force or not launch]
        if not going:
            with pytest.raises(Refused if self.list_holders(directory) else NotFound):
                locks.release_locks(self.path, self._at(directory), force=force)
            return
        released = locks.release_locks(self.path, self._at(directory), force=force)
        assert {lock.launch_id for lock in released} == set(going)
        for launch in going:
            del self.holders[directory[-1], launch]

    def end(self, which: int, _: object) -> None:
        """Its agent is now one that has died."""
        launches = sorted(key for key in self.holders if key[1])
        if launches:
            directory, launch = launches[which % len(launches)]
            launch_writes.record_session(self.path, Launch(launch, DEAD))
            del self.holders[directory, launch]

    def wait(self, seconds: float, _: object) -> None:
        self.now += seconds
        self.holders = {
            key: until for key, until in self.holders.items() if until is None or until > self.now
        }

    def sweep(self, *_: object) -> None:
        locks.sweep_locks(self.path)
        assert len(locks.read_locks(self.path)) == len(self.holders)

    def read_holders(self) -> set[tuple[str, str]]:
        return {
            (os.path.basename(lock.directory), lock.launch_id) for lock in locks.list_held(self.path)
        }

    def _at(self, directory: str) -> str:
        return str(self.root / directory)


@settings(max_examples=settings().max_examples // 4)
@given(st.lists(_STEPS, max_size=25))
def test_any_history(steps: list[tuple[str, object, object]]) -> None:
    with tempfile.TemporaryDirectory() as directory, pytest.MonkeyPatch.context() as patch:
        world = _World(Path(directory).resolve())
        patch.setattr(time, "time", lambda: world.now)
        for step, *words in steps:
            getattr(world, step)(*words)
            assert world.read_holders() == set(world.holders)


def _make_lock(identity: ProcessIdentity, within: str | None = None) -> Lock:
    return Lock("/d", "1a", identity, within or proc.pid_namespace(), None, None, 0.0, None)


def test_a_lock_is_held_exactly_as_long_as_its_owner_lives(stranger: Stranger) -> None:
    lock = _make_lock(stranger.identity)
    assert lock.is_held
    stranger.end()
    assert not lock.is_held


def test_a_zombie_holds_nothing() -> None:
    child = subprocess.Popen(["sleep", "60"])
    lock = _make_lock(proc.read_process(child.pid, proc.read_boot_id()).identity)
    assert lock.is_held
    child.kill()
    until(lambda: proc.read_process(child.pid, "").state == "Z", "it is a zombie")
    assert not lock.is_held
    child.wait()


def test_another_process_with_the_pid_holds_nothing(stranger: Stranger) -> None:
    identity = stranger.identity
    assert not _make_lock(identity._replace(start=identity.start - 1)).is_held
    assert not _make_lock(identity._replace(start=identity.start + 1)).is_held


def test_no_owner_survives_a_boot(stranger: Stranger) -> None:
    before = stranger.identity._replace(boot="another boot")
    for within in (proc.pid_namespace(), "pid:[1]"):
        assert not _make_lock(before, within).is_held
        assert not _make_lock(before, within).is_foreign


def test_an_owner_where_we_cannot_look_counts_as_alive(stranger: Stranger) -> None:
    """Whether the pid exists here proves nothing."""
    for pid in (stranger.pid, 2**22 + 1):
        lock = _make_lock(stranger.identity._replace(pid=pid), "pid:[1]")
        assert lock.is_foreign
        assert lock.is_held
        assert lock.holder == f"launch 1a, pid {pid} in another container"


def test_a_persons_lock_is_held_until_its_time_is_over() -> None:
    lock = Lock("/d", "", None, None, "me", "because", 0.0, None)
    assert lock.is_held
    assert lock._replace(expires_at=time.time() + 60).is_held
    assert not lock._replace(expires_at=time.time() - 1).is_held
    assert not lock.is_foreign


def test_the_holder_is_named(stranger: Stranger) -> None:
    lock = _make_lock(stranger.identity)
    assert lock.holder == f"launch 1a, pid {stranger.pid}"
    identified = lock._replace(session_id="4f2a", name="the name")
    assert identified.holder == f"session 4f2a (the name), pid {stranger.pid}"
    person = Lock("/d", "", None, None, "me", "because", 0.0, None)
    assert person.holder == "me (because)"
    assert person._replace(by=None, reason=None).holder == "a person"
