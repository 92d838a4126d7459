"""Housekeeping: what may go goes, with its reason; nothing of a launch that lives is touched."""

import os
import shutil
import sqlite3
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentctl import paths
from agentctl.errors import SourceError
from agentctl.launch import prune
from agentctl.launch.order import new_id
from agentctl.launch.prune import Pruned
from agentctl.state import cache, launch_writes, launches, locks
from agentctl.system import proc
from agentctl.system.identity import ProcessIdentity
from agentctl.truth.model import Exit, Launch
from tests.fakes.stranger import Stranger

ME = proc.read_process(os.getpid(), proc.boot_id()).identity
DEAD = ME._replace(start=ME.start - 1)
DAY = 86400.0
WEEK = 7 * DAY


class State:
    """A state directory with what launches leave in it."""

    def __init__(self, root: Path) -> None:
        self.path = str(root / "state")
        self.notes = paths.notes_file(self.path)
        self.work = root / "work"
        self.work.mkdir()

    def launch(
        self,
        identity: ProcessIdentity = DEAD,
        *,
        files: tuple[str, ...] = ("stdin", "stdout", "stderr"),
        ended: float | None = None,
        finished: bool = True,
        created: float = 30 * DAY,
        hook: str | None = None,
    ) -> str:
        """`ended`, `created`: how long ago."""
        launch_id = new_id()
        note = Launch(launch_id, identity, created_at=time.time() - created, on_complete=hook)
        launch_writes.begin(self.notes, note)
        folder = Path(launches.folder(self.notes, launch_id))
        if files:
            folder.mkdir(parents=True)
        for name in files:
            (folder / name).touch()
            os.utime(folder / name, (0, time.time() - created))
        if finished:
            how = Exit(0, time.time() - ended, "") if ended is not None else None
            launch_writes.claim_end(self.notes, launch_id, how)
        return launch_id

    def prune(self, ttl: float = WEEK, *, dry_run: bool = False) -> list[Pruned]:
        swept = prune.prune(self.path, ttl, dry_run=dry_run)
        assert swept.problems == []
        return swept.done

    def kept(self) -> tuple[set[str], set[str]]:
        """Ids of notes, and of folders."""
        there = Path(self.path) / "launches"
        folders = {path.name for path in there.iterdir()} if there.exists() else set()
        return {note.id for note in launches.recorded(self.notes)}, folders


@pytest.fixture
def state(tmp_path: Path) -> State:
    return State(tmp_path)


@pytest.fixture
def starts() -> Iterator[ExitStack]:
    with ExitStack() as ends:
        yield ends


def _process(starts: ExitStack, cwd: Path, comm: str, launch_id: str) -> Stranger:
    environ = {"PATH": "/usr/bin:/bin", "AGENTCTL_LAUNCH_ID": launch_id}
    return starts.enter_context(Stranger(comm, environ, cwd))


def test_nothing_there_nothing_made(state: State) -> None:
    assert state.prune() == []
    prune.quietly(state.path)
    assert prune.overdue(state.path) == []
    assert not Path(state.path).exists()


def test_a_launch_goes_when_its_time_after_its_end_is_over(state: State) -> None:
    old, young = state.launch(ended=8 * DAY), state.launch(ended=6 * DAY)
    assert state.prune() == [Pruned("launch", old, "ended 8d ago")]
    assert state.kept() == ({young}, {young})
    assert state.prune(ttl=0) == [Pruned("launch", young, "ended 6d ago")]
    assert state.kept() == (set(), set())


def test_a_dry_run_says_the_same_and_does_nothing(state: State) -> None:
    state.launch(ended=8 * DAY)
    state.launch(files=())
    launch_writes.begin(state.notes, Launch(new_id(), DEAD, cwd=str(state.work)))
    (Path(state.path) / "launches" / new_id()).mkdir()
    before = state.kept(), len(locks.written(state.notes))
    would = state.prune(dry_run=True)
    assert (state.kept(), len(locks.written(state.notes))) == before
    assert state.prune() == would
    assert sorted(each.kind for each in would) == ["folder", "launch", "launch", "launch", "lock"]
    assert state.kept() == (set(), set())


# whatever lives


def test_an_agent_that_lives_keeps_everything_however_old(state: State) -> None:
    live = state.launch(ME, created=400 * DAY, finished=False)
    assert state.prune(ttl=0) == []
    prune.quietly(state.path, 0)
    assert state.kept() == ({live}, {live})


def test_so_does_one_where_we_cannot_look(state: State) -> None:
    foreign = state.launch(ended=400 * DAY)
    connection = sqlite3.connect(state.notes)
    with connection:
        connection.execute("update launch set detail = json_set(detail, '$.namespace', 'pid:[1]')")
    connection.close()
    assert state.prune(ttl=0) == []
    assert state.kept() == ({foreign}, {foreign})


@pytest.mark.parametrize("comm", ["agentctl-shim", "a tool it left"])
def test_any_process_of_it_keeps_it(state: State, starts: ExitStack, comm: str) -> None:
    launch_id = state.launch(ended=8 * DAY)
    process = _process(starts, state.work, comm, launch_id)
    assert state.prune() == []
    prune.quietly(state.path)
    assert state.kept() == ({launch_id}, {launch_id})
    process.end()
    assert [each.what for each in state.prune()] == [launch_id]


def test_and_its_folder_when_our_notes_were_deleted(state: State, starts: ExitStack) -> None:
    launch_id = state.launch()
    os.unlink(state.notes)
    process = _process(starts, state.work, "agent", launch_id)
    assert state.prune() == []
    assert state.kept() == (set(), {launch_id})
    process.end()
    assert state.prune() == [Pruned("folder", launch_id, "of a launch that is not known any more")]
    assert state.kept() == (set(), set())


# how old


def test_without_a_note_of_the_end_the_shim_s_record_tells(state: State) -> None:
    for days, kept in ((6, True), (8, False)):
        launch_id = state.launch()
        record = f'{{"code": 0, "at": {time.time() - days * DAY}}}'
        Path(launches.folder(state.notes, launch_id), "exit").write_text(record)
        assert [each.why for each in state.prune()] == ([] if kept else ["ended 8d ago"])


def test_without_that_the_last_it_wrote(state: State) -> None:
    launch_id = state.launch()
    stdout = Path(launches.folder(state.notes, launch_id), "stdout")
    os.utime(stdout, (0, time.time() - 6 * DAY))
    assert state.prune() == []
    os.utime(stdout, (0, time.time() - 8 * DAY))
    assert state.prune() == [
        Pruned("launch", launch_id, "ended, nobody knows when; last wrote something 8d ago")
    ]


def test_without_that_its_beginning(state: State) -> None:
    """A finished launch whose folder somebody deleted."""
    young, old = state.launch(files=(), created=6 * DAY), state.launch(files=(), created=8 * DAY)
    assert state.prune() == [Pruned("launch", old, "ended, nobody knows when; began 8d ago")]
    assert state.kept()[0] == {young}


@settings(max_examples=100)
@given(
    ended=st.none() | st.floats(0, 20),
    record=st.none() | st.floats(0, 20) | st.just("rubbish"),
    created=st.floats(0, 20),
    ttl=st.floats(0, 20),
)
def test_never_before_its_time(
    tmp_path_factory: pytest.TempPathFactory,
    ended: float | None,
    record: float | str | None,
    created: float,
    ttl: float,
) -> None:
    state = State(tmp_path_factory.mktemp("any"))
    launch_id = state.launch(ended=None if ended is None else ended * DAY, created=created * DAY)
    if record is not None:
        at = time.time() - record * DAY if isinstance(record, float) else '"x"'
        file = Path(launches.folder(state.notes, launch_id), "exit")
        file.write_text(f'{{"code": 0, "at": {at}}}')
        os.utime(file, (0, time.time() - created * DAY))
    days = next(age for age in (ended, record, created) if isinstance(age, float))
    prune.quietly(state.path, ttl * DAY)
    if abs(days - ttl) > 0.001:
        assert (launch_id in state.kept()[0]) == (days < ttl)


# what crashes leave


@pytest.mark.parametrize("files", [(), ("stdin",)])
def test_a_launcher_that_died_before_anything_was_started(state: State, files: tuple[str, ...]) -> None:
    """Also where the session's id was chosen before: it says nothing of whether there was one."""
    launch_id = state.launch(files=files, created=0, finished=False, hook="touch ran")
    launch_writes.learned(state.notes, Launch(launch_id, DEAD, "4f2a"))
    assert prune.overdue(state.path) == []
    assert state.prune() == [
        Pruned("launch", launch_id, "its launcher died before anything was started")
    ]
    assert state.kept() == (set(), set())
    assert not (state.work / "ran").exists()


def test_one_that_is_about_to_start_stays(state: State, starts: ExitStack) -> None:
    waiting = _process(starts, state.work, "agent", "another")
    launch_id = state.launch(waiting.identity, files=(), created=0, finished=False)
    assert state.prune(ttl=0) == []
    assert state.kept()[0] == {launch_id}


def test_only_what_looks_like_ours_is_taken_for_ours(state: State) -> None:
    """AGENTCTL_HOME may be a directory that is somebody's."""
    there = Path(state.path) / "launches"
    there.mkdir(parents=True)
    (there / "apollo-11").mkdir()
    (there / new_id()).touch()
    (there / new_id()).symlink_to(state.work)
    assert state.prune() == []
    assert len(list(there.iterdir())) == 3
    assert state.work.exists()


def test_notes_that_cannot_be_read_protect_every_folder(state: State) -> None:
    launch_id = state.launch(ended=8 * DAY)
    for name in ("state.db-wal", "state.db-shm"):
        Path(state.path, name).unlink(missing_ok=True)
    Path(state.notes).write_bytes(b"rubbish\n" * 500)
    with pytest.raises(SourceError):
        state.prune()
    prune.quietly(state.path)
    assert Path(launches.folder(state.notes, launch_id)).exists()


def test_a_folder_that_cannot_be_removed_is_told(state: State, monkeypatch: pytest.MonkeyPatch) -> None:
    state.launch(ended=8 * DAY)

    def denied(_: str) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(shutil, "rmtree", denied)
    swept = prune.prune(state.path, WEEK)
    assert [(problem.kind, problem.message) for problem in swept.problems] == [
        ("forbidden", "permission denied")
    ]


# locks and cache


def test_locks_that_hold_nothing_go(state: State) -> None:
    for name in ("dead", "live"):
        (state.work / name).mkdir()
    launch_writes.begin(state.notes, Launch(new_id(), DEAD, cwd=str(state.work / "dead")))
    launch_writes.begin(state.notes, Launch(new_id(), ME, cwd=str(state.work / "live")))
    locks.acquire(state.notes, str(state.work), "me", None, None)
    gone = [each for each in state.prune() if each.kind == "lock"]
    assert [each.what for each in gone] == [str(state.work.resolve() / "dead")]
    assert gone[0].why.endswith(f", pid {DEAD.pid} is gone")
    assert len(locks.written(state.notes)) == 2


def test_the_cache_forgets_files_that_are_gone(state: State, tmp_path: Path) -> None:
    os.mkdir(state.path)
    entry = ((1, 2, 3), "what it said")
    (tmp_path / "there").touch()
    file = paths.cache_file(state.path)
    cache.save(file, {str(tmp_path / name): entry for name in ("there", "gone", "there/below")})
    would = state.prune(dry_run=True)
    assert would == [Pruned("cache", "2", "cached facts of files that no longer exist")]
    assert len(cache.load(file)) == 3
    assert state.prune() == would
    assert list(cache.load(file)) == [str(tmp_path / "there")]
    assert state.prune() == []


def test_half_a_cache_goes_when_nobody_can_be_writing_it(state: State) -> None:
    os.mkdir(state.path)
    old, young, other = (Path(state.path, name) for name in ("cache.71", "cache.72", "cache.mine"))
    for path in (old, young, other):
        path.touch()
    os.utime(old, (0, time.time() - DAY))
    os.utime(other, (0, 0))
    would = state.prune(dry_run=True)
    assert would == [Pruned("file", str(old), "half of a cache, whose writer was killed")]
    assert state.prune() == would
    assert not old.exists()
    assert state.prune() == []


# ends that nobody has finished


def test_an_end_whose_shim_was_killed_is_finished_once(
    state: State, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AGENTCTL_HOME", state.path)
    monkeypatch.setenv("AGENTCTL_CONFINE", "NO=BODY")
    hook = f"echo ran >> {state.work}/ran"
    launch_id = state.launch(finished=False, created=0, hook=hook)
    prune.quietly(state.path, 0)  # runs nobody's hook, and so forgets nothing that has one
    assert prune.overdue(state.path) == [launch_id]
    due = [Pruned("end", launch_id, "its shim was killed: its on-complete hook was due")]
    assert state.prune(ttl=0, dry_run=True) == due
    assert not (state.work / "ran").exists()
    assert state.prune(ttl=0) == due
    assert prune.overdue(state.path) == []
    assert (state.work / "ran").read_text() == "ran\n"
    [note] = launches.recorded(state.notes)
    assert [(run.hook, run.code) for run in note.hooks] == [("on-complete", 0)]
    assert [each.kind for each in state.prune(ttl=0)] == ["launch"]
    assert (state.work / "ran").read_text() == "ran\n"


def test_while_its_shim_lives_the_end_is_the_shim_s(state: State, starts: ExitStack) -> None:
    launch_id = state.launch(finished=False, hook="true")
    shim = _process(starts, state.work, "agentctl-shim", launch_id)
    tool = _process(starts, state.work, "a tool it left", launch_id)
    assert prune.overdue(state.path) == []
    shim.end()
    assert prune.overdue(state.path) == [launch_id]  # a tool that lives on is no shim
    tool.end()


def test_an_agent_that_lives_has_no_end(state: State) -> None:
    state.launch(ME, finished=False, hook="true")
    assert prune.overdue(state.path) == []


def test_quietly_forgets_what_has_no_hook_to_run(state: State) -> None:
    state.launch(ended=8 * DAY)
    prune.quietly(state.path)
    assert state.kept() == (set(), set())


def test_quietly_asks_the_settings_and_fails_at_nothing(
    state: State, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AGENTCTL_HOME", state.path)
    launch_id = state.launch(ended=2 * DAY)
    monkeypatch.setenv("AGENTCTL_LAUNCH_TTL", "soon")
    prune.quietly(state.path)
    monkeypatch.setenv("AGENTCTL_LAUNCH_TTL", "3d")
    prune.quietly(state.path)
    assert state.kept()[0] == {launch_id}
    monkeypatch.setenv("AGENTCTL_LAUNCH_TTL", "1d")
    prune.quietly(state.path)
    assert state.kept()[0] == set()
