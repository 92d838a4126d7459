"""Locks on directories: exactly one holds one, the dead hold nothing, and a refusal says who."""

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
from agentctl.state import db, launch_writes, locks
from agentctl.system import proc
from agentctl.system.identity import ProcessIdentity
from agentctl.truth import launched
from agentctl.truth.model import Launch
from tests.fakes.stranger import Stranger
from tests.namespaces import pid_namespace
from tests.running import SOURCES
from tests.state.racing import race

ME = proc.read_process(os.getpid(), proc.boot_id()).identity
DEAD = ME._replace(start=ME.start - 1)  # as one whose pid we have got


@pytest.fixture
def stranger(tmp_path: Path) -> Iterator[Stranger]:
    with Stranger("somebody", {"PATH": "/usr/bin:/bin"}, tmp_path) as made:
        yield made


def _begin(path: str, work: str, identity: ProcessIdentity = ME, launch_id: str = "1a") -> Launch:
    note = Launch(launch_id, identity, cwd=work)
    launch_writes.begin(path, note)
    return note


# people


def test_a_person_s_lock_is_held_by_whoever_asks_later(path: str, work: str) -> None:
    taken = locks.acquire(path, work, "me", "a merge", None)
    assert locks.held(path) == [taken]
    assert (taken.directory, taken.by, taken.reason, taken.expires_at) == (work, "me", "a merge", None)
    with pytest.raises(Refused) as caught:
        locks.acquire(path, work, "you", None, None)
    assert re.fullmatch(
        rf"{re.escape(work)} is locked by me \(a merge\), for \d+s now", str(caught.value)
    )
    assert caught.value.hint == f"agentctl unlock {work} releases it"
    assert locks.release(path, work, force=False) == [taken]
    assert locks.held(path) == []


def test_it_survives_the_one_who_took_it(path: str, work: str) -> None:
    """Another process takes it and ends: a person's lock is bound to no process."""
    assert race(1, "locks.acquire(*sys.argv[1:], None, None, None)", path, work) == ["won"]
    assert [lock.directory for lock in locks.held(path)] == [work]


def test_its_time_ends_it(path: str, work: str, monkeypatch: pytest.MonkeyPatch) -> None:
    taken = locks.acquire(path, work, "me", None, 7200)
    with pytest.raises(Refused, match=r"and free in 2h$"):
        locks.acquire(path, work, "you", None, None)
    assert taken.expires_at is not None
    _let_pass(monkeypatch, taken.expires_at)
    assert locks.held(path) == []
    with pytest.raises(NotFound):
        locks.release(path, work, force=False)
    assert locks.acquire(path, work, "you", None, None).by == "you"


def _let_pass(monkeypatch: pytest.MonkeyPatch, until: float) -> None:
    monkeypatch.setattr(time, "time", lambda: until)


def test_what_cannot_be_locked(path: str, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for name in ("file", "absent", "file/below", "a\0b"):
        with pytest.raises(UsageError, match="not a directory"):
            locks.acquire(path, str(tmp_path / name), None, None, None)
    for ttl in (0.0, -1.0):
        with pytest.raises(UsageError, match="over at once"):
            locks.acquire(path, str(tmp_path), None, None, ttl)
    assert not Path(path).exists()


def test_release_of_what_nobody_holds(path: str, work: str) -> None:
    with pytest.raises(NotFound, match=f"^nobody holds {work}$"):
        locks.release(path, work, force=True)
    assert not Path(path).exists()  # asking makes nothing
    locks.acquire(path, os.path.dirname(work), None, None, None)
    with pytest.raises(NotFound):
        locks.release(path, work, force=True)


def test_a_directory_that_is_gone_can_be_released(path: str, work: str) -> None:
    locks.acquire(path, work, None, None, None)
    os.rmdir(work)
    assert len(locks.release(path, work, force=False)) == 1


# launches


def test_a_launch_holds_its_directory_while_its_agent_lives(
    path: str, work: str, stranger: Stranger
) -> None:
    _begin(path, work, stranger.identity)
    with pytest.raises(Refused):
        _begin(path, work, launch_id="2b")
    with pytest.raises(Refused):
        locks.acquire(path, work, None, None, None)
    stranger.end()  # -9, and nobody tells the database
    assert locks.held(path) == []
    _begin(path, work, launch_id="2b")
    assert [lock.launch_id for lock in locks.written(path)] == ["2b"]  # the dead one's row is gone


def test_a_refusal_names_session_pid_age_and_the_ways_out(path: str, work: str) -> None:
    note = _begin(path, work)
    with pytest.raises(Refused) as caught:
        _begin(path, work, launch_id="2b")
    assert str(caught.value) == f"{work} is in use by launch 1a, pid {ME.pid}, for 0s now"
    assert caught.value.hint == f"agentctl stop pid:{ME.pid} ends it; --force launches beside it"
    launch_writes.learned(path, note._replace(session_id="4f2a-51"))
    with pytest.raises(Refused) as caught:
        locks.acquire(path, work, None, None, None)
    assert str(caught.value) == f"{work} is in use by session 4f2a-51, pid {ME.pid}, for 0s now"
    by_force = f"agentctl unlock --force {work} takes the lock from it"
    assert caught.value.hint == f"agentctl stop 4f2a-51 ends it; {by_force}"


def test_an_owner_in_another_container_holds_it_and_is_told(path: str, work: str) -> None:
    _begin(path, work, DEAD)
    connection = sqlite3.connect(path)
    with connection:
        connection.execute("update lock set namespace = 'pid:[1]'")
    connection.close()
    with pytest.raises(Refused) as caught:
        _begin(path, work, launch_id="2b")
    assert f"pid {ME.pid} in another container" in str(caught.value)
    assert str(caught.value).endswith("whether it lives cannot be told from here")
    assert caught.value.hint == "--force launches beside it"
    assert len(locks.release(path, work, force=True)) == 1


def test_a_real_container_s_lock(path: str, work: str) -> None:
    """Taken inside a pid namespace by a process that lives there, seen from here."""
    program = (
        "import os, sys; from agentctl.state import launch_writes; from agentctl.system import proc;"
        "from agentctl.truth.model import Launch;"
        "me = proc.read_process(os.getpid(), proc.boot_id()).identity;"
        "launch_writes.begin(sys.argv[1], Launch('1a', me, cwd=sys.argv[2])); print('held', flush=True);"
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
    ("namespace", "held"), [(None, True), (proc.namespace(), True), ("pid:[1]", False)]
)
def test_a_shim_of_a_container_with_the_same_path_is_not_of_this_state(
    path: str, work: str, monkeypatch: pytest.MonkeyPatch, namespace: str | None, held: bool
) -> None:
    """Root has a home there, too: the same path, and another directory."""
    home = os.path.dirname(path)
    told = launched.Carried("1a", home, "demo", work, ME, namespace, 1.0, "4f2a-51", None)
    monkeypatch.setattr(launched, "carriers", lambda _: iter([told]))
    assert [lock.launch_id for lock in locks.unnoted(path)] == ["1a"] * held


def test_a_process_that_gets_the_pid_holds_nothing(path: str, work: str) -> None:
    """In a pid namespace of its own, where the next pid can be chosen."""
    root = str(Path(SOURCES).parent)
    done = subprocess.run(
        [*pid_namespace(), sys.executable, "-m", "tests.state.reuse_a_pid", path, work],
        env={"PYTHONPATH": f"{SOURCES}:{root}", "PATH": os.environ["PATH"]},
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert done.stdout == b"the newcomer inherits nothing\n", done.stderr.decode()


def test_force_goes_beside_and_each_ends_by_itself(path: str, work: str, stranger: Stranger) -> None:
    _begin(path, work, stranger.identity)
    launch_writes.begin(path, Launch("2b", ME, cwd=work), force=True)
    assert {lock.launch_id for lock in locks.holders(path, work)} == {"1a", "2b"}
    stranger.end()
    assert {lock.launch_id for lock in locks.holders(path, work)} == {"2b"}


def test_a_launch_s_lock_is_released_only_by_force(path: str, work: str) -> None:
    _begin(path, work)
    with pytest.raises(Refused, match="in use by launch 1a") as caught:
        locks.release(path, work, force=False)
    assert f"agentctl unlock --force {work}" in caught.value.hint
    assert [lock.launch_id for lock in locks.release(path, work, force=True)] == ["1a"]
    assert locks.held(path) == []


def test_a_person_s_lock_beside_a_launch_is_released_alone(path: str, work: str) -> None:
    locks.acquire(path, work, "me", None, None)
    launch_writes.begin(path, Launch("1a", ME, cwd=work), force=True)
    assert [lock.by for lock in locks.release(path, work, force=False)] == ["me"]
    assert [lock.launch_id for lock in locks.held(path)] == ["1a"]


# names


def test_a_link_is_the_directory_it_leads_to(path: str, work: str, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(work)
    locks.acquire(path, str(tmp_path / "link"), None, None, None)
    for name in (work, str(tmp_path / "link"), f"{work}/../link/."):
        with pytest.raises(Refused):
            _begin(path, name)
        assert [lock.directory for lock in locks.holders(path, name)] == [work]


@pytest.mark.parametrize(
    "name", ["a\nb", "\x1b[31m", "ä漢\u202e", "\udcff\udc80x", "a\udce4", " ", "'\"%_"]
)
def test_odd_names_are_names(path: str, tmp_path: Path, name: str) -> None:
    odd, plain = str(tmp_path / name), str(tmp_path / "plain")
    os.mkdir(odd)
    os.mkdir(plain)
    _begin(path, odd)
    locks.acquire(path, plain, None, None, None)
    assert [lock.directory for lock in locks.held(path)] == [odd, plain]
    with pytest.raises(Refused):
        locks.acquire(path, odd, None, None, None)
    assert [lock.directory for lock in locks.release(path, odd, force=True)] == [odd]
    assert [lock.directory for lock in locks.held(path)] == [plain]


def test_a_place_that_was_deleted_under_us_is_told(path: str, work: str) -> None:
    """`lock .`: the directory can still be asked about, but has no name any more."""
    inside = (
        "os.chdir(sys.argv[2]); os.rmdir(sys.argv[2]); locks.acquire(sys.argv[1], '.', None, None, None)"
    )
    [told] = race(1, inside, path, work)
    assert told == "Gone .: no such file"


# many at once


def test_of_fifty_exactly_one_gets_it(path: str, work: str) -> None:
    told = race(50, "locks.acquire(*sys.argv[1:], str(me.pid), None, None)", path, work)
    assert told.count("won") == 1
    assert sum(line.startswith(f"Refused {work} is locked by ") for line in told) == 49
    assert len(locks.written(path)) == 1


def test_of_six_who_take_turns_no_two_are_inside(path: str, work: str) -> None:
    """Each takes and releases it, over and over; whoever has it must find itself alone there."""
    deed = """
    for _ in range(300):
        try:
            locks.acquire(*sys.argv[1:], None, None, None)
        except Refused:
            continue
        os.mkdir(f"{sys.argv[2]}/inside")
        os.rmdir(f"{sys.argv[2]}/inside")
        locks.release(*sys.argv[1:], force=False)
"""
    assert race(6, deed, path, work) == ["won"] * 6


# old databases, and none


def test_no_database_no_locks(path: str) -> None:
    assert locks.held(path) == []
    assert locks.sweep(path) == []
    assert not Path(path).exists()


def test_a_database_from_before_locks_holds_none(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(db, "MIGRATIONS", db.MIGRATIONS[:1])
    db.open_writable(path).close()
    assert locks.held(path) == []


def test_sweep_removes_what_holds_nothing(
    path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("dead", "live", "over", "mine"):
        (tmp_path / name).mkdir()
    _begin(path, str(tmp_path / "dead"), DEAD, "1a")
    _begin(path, str(tmp_path / "live"), ME, "2b")
    locks.acquire(path, str(tmp_path / "mine"), None, None, None)
    over = locks.acquire(path, str(tmp_path / "over"), None, None, 60)
    assert over.expires_at is not None
    _let_pass(monkeypatch, over.expires_at)
    assert {os.path.basename(lock.directory) for lock in locks.sweep(path)} == {"dead", "over"}
    assert {os.path.basename(lock.directory) for lock in locks.written(path)} == {"live", "mine"}
    assert locks.sweep(path) == []


# any history


_DIRECTORY = st.sampled_from(["a", "b", "link to a"])
_DEEDS = st.one_of(
    st.tuples(st.just("acquire"), _DIRECTORY, st.sampled_from([None, 10.0])),
    st.tuples(st.just("launch"), _DIRECTORY, st.booleans()),
    st.tuples(st.just("release"), _DIRECTORY, st.booleans()),
    st.tuples(st.just("end"), st.integers(0, 9), st.none()),
    st.tuples(st.just("wait"), st.sampled_from([1.0, 10.0]), st.none()),
    st.tuples(st.just("sweep"), st.none(), st.none()),
)


class _World:
    """The database on the one side, on the other what it should say: who holds which directory, and
    until when."""

    def __init__(self, root: Path) -> None:
        self.path = str(root / "state" / "state.db")
        self.root = root
        self.now = 1000.0
        self.number = 0
        self.held: dict[tuple[str, str], float | None] = {}
        for name in ("a", "b"):
            (root / name).mkdir()
        (root / "link to a").symlink_to("a")

    def who(self, directory: str) -> list[str]:
        return [launch for place, launch in self.held if place == directory.rpartition(" ")[2]]

    def acquire(self, directory: str, ttl: float | None) -> None:
        if self.who(directory):
            with pytest.raises(Refused):
                locks.acquire(self.path, self._at(directory), None, None, ttl)
            return
        locks.acquire(self.path, self._at(directory), None, None, ttl)
        self.held[directory[-1], ""] = self.now + ttl if ttl else None

    def launch(self, directory: str, force: bool) -> None:
        self.number += 1
        note = Launch(str(self.number), ME, cwd=self._at(directory))
        if self.who(directory) and not force:
            with pytest.raises(Refused):
                launch_writes.begin(self.path, note, force=force)
            return
        launch_writes.begin(self.path, note, force=force)
        self.held[directory[-1], note.id] = None

    def release(self, directory: str, force: bool) -> None:
        going = [launch for launch in self.who(directory) if force or not launch]
        if not going:
            with pytest.raises(Refused if self.who(directory) else NotFound):
                locks.release(self.path, self._at(directory), force=force)
            return
        gone = locks.release(self.path, self._at(directory), force=force)
        assert {lock.launch_id for lock in gone} == set(going)
        for launch in going:
            del self.held[directory[-1], launch]

    def end(self, which: int, _: object) -> None:
        """Its agent is now one that has died."""
        launches = sorted(key for key in self.held if key[1])
        if launches:
            directory, launch = launches[which % len(launches)]
            launch_writes.learned(self.path, Launch(launch, DEAD))
            del self.held[directory, launch]

    def wait(self, seconds: float, _: object) -> None:
        self.now += seconds
        self.held = {key: until for key, until in self.held.items() if until is None or until > self.now}

    def sweep(self, *_: object) -> None:
        locks.sweep(self.path)
        assert len(locks.written(self.path)) == len(self.held)

    def seen(self) -> set[tuple[str, str]]:
        return {(os.path.basename(lock.directory), lock.launch_id) for lock in locks.held(self.path)}

    def _at(self, directory: str) -> str:
        return str(self.root / directory)


@settings(max_examples=60)
@given(st.lists(_DEEDS, max_size=25))
def test_any_history(deeds: list[tuple[str, object, object]]) -> None:
    with tempfile.TemporaryDirectory() as directory, pytest.MonkeyPatch.context() as patch:
        world = _World(Path(directory).resolve())
        patch.setattr(time, "time", lambda: world.now)
        for deed, *words in deeds:
            getattr(world, deed)(*words)
            assert world.seen() == set(world.held)
