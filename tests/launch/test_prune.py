"""Housekeeping: what may go is removed, with its reason; nothing of a live launch is touched."""

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
from agentctl.launch.prune import PrunedItem
from agentctl.state import cache, launch_writes, launches, locks
from agentctl.system import proc
from agentctl.system.proc import ProcessIdentity
from agentctl.truth.model import Exit, Launch
from tests.fakes.stranger import Stranger

ME = proc.read_process(os.getpid(), proc.read_boot_id()).identity
DEAD = ME._replace(start=ME.start - 1)
DAY = 86400.0
WEEK = 7 * DAY


class State:
    """A state directory with what launches leave in it."""

    def __init__(self, root: Path) -> None:
        self.path = str(root / "state")
        self.notes = paths.database_file(self.path)
        self.work = root / "work"
        self.work.mkdir()

    def launch(
        self,
        identity: ProcessIdentity = DEAD,
        *,
        files: tuple[str, ...] = ("stdin", "stdout", "stderr"),
        ended_ago: float | None = None,
        finished: bool = True,
        created_ago: float = 30 * DAY,
        hook: str | None = None,
    ) -> str:
        launch_id = new_id()
        note = Launch(launch_id, identity, created_at=time.time() - created_ago, on_complete=hook)
        launch_writes.begin_launch(self.notes, note)
        folder = Path(launches.launch_folder(self.notes, launch_id))
        if files:
            folder.mkdir(parents=True)
        for name in files:
            (folder / name).touch()
            os.utime(folder / name, (0, time.time() - created_ago))
        if finished:
            how = Exit(0, time.time() - ended_ago, "") if ended_ago is not None else None
            launch_writes.claim_end(self.notes, launch_id, how)
        return launch_id

    def prune(self, ttl: float = WEEK, *, dry_run: bool = False) -> list[PrunedItem]:
        swept = prune.prune(self.path, ttl, dry_run=dry_run)
        assert swept.problems == []
        return swept.items

    def list_ids(self) -> tuple[set[str], set[str]]:
        """Return the ids of notes, and those of folders."""
        there = Path(self.path) / "launches"
        folders = {path.name for path in there.iterdir()} if there.exists() else set()
        return {note.id for note in launches.read_launches(self.notes)}, folders


@pytest.fixture
def state(tmp_path: Path) -> State:
    return State(tmp_path)


@pytest.fixture
def starts() -> Iterator[ExitStack]:
    with ExitStack() as ends:
        yield ends


def overdue(state: State) -> list[str]:
    """The launches that have ended and were never finished."""
    return [row.id for row in prune.Snapshot(state.path).find_overdue()]


def _process(starts: ExitStack, cwd: Path, comm: str, launch_id: str) -> Stranger:
    environ = {"PATH": "/usr/bin:/bin", "AGENTCTL_LAUNCH_ID": launch_id}
    return starts.enter_context(Stranger(comm, environ, cwd))


def test_pruning_creates_nothing(state: State) -> None:
    assert state.prune() == []
    prune.prune_briefly(state.path)
    assert overdue(state) == []
    assert not Path(state.path).exists()


def test_an_ended_launch_is_pruned_after_its_ttl(state: State) -> None:
    old, young = state.launch(ended_ago=8 * DAY), state.launch(ended_ago=6 * DAY)
    assert state.prune() == [PrunedItem("launch", old, "ended 8d ago")]
    assert state.list_ids() == ({young}, {young})
    assert state.prune(ttl=0) == [PrunedItem("launch", young, "ended 6d ago")]
    assert state.list_ids() == (set(), set())


def test_a_dry_run_lists_the_same_and_removes_nothing(state: State) -> None:
    state.launch(ended_ago=8 * DAY)
    state.launch(files=())
    launch_writes.begin_launch(state.notes, Launch(new_id(), DEAD, cwd=str(state.work)))
    (Path(state.path) / "launches" / new_id()).mkdir()
    before = state.list_ids(), len(locks.read_locks(state.notes))
    would = state.prune(dry_run=True)
    assert (state.list_ids(), len(locks.read_locks(state.notes))) == before
    assert state.prune() == would
    assert sorted(each.kind for each in would) == ["folder", "launch", "launch", "launch", "lock"]
    assert state.list_ids() == (set(), set())


# live processes


def test_a_live_agent_keeps_everything_however_old(state: State) -> None:
    live = state.launch(ME, created_ago=400 * DAY, finished=False)
    assert state.prune(ttl=0) == []
    prune.prune_briefly(state.path, 0)
    assert state.list_ids() == ({live}, {live})


def test_a_launch_in_another_container_is_kept(state: State) -> None:
    foreign = state.launch(ended_ago=400 * DAY)
    connection = sqlite3.connect(state.notes)
    with connection:
        connection.execute("update launch set detail = json_set(detail, '$.namespace', 'pid:[1]')")
    connection.close()
    assert state.prune(ttl=0) == []
    assert state.list_ids() == ({foreign}, {foreign})


@pytest.mark.parametrize("comm", ["agentctl-shim", "a tool it left"])
def test_any_process_of_a_launch_keeps_it(state: State, starts: ExitStack, comm: str) -> None:
    launch_id = state.launch(ended_ago=8 * DAY)
    process = _process(starts, state.work, comm, launch_id)
    assert state.prune() == []
    prune.prune_briefly(state.path)
    assert state.list_ids() == ({launch_id}, {launch_id})
    process.end()
    assert [each.what for each in state.prune()] == [launch_id]


def test_a_process_keeps_the_folder_when_our_notes_were_deleted(state: State, starts: ExitStack) -> None:
    launch_id = state.launch()
    os.unlink(state.notes)
    process = _process(starts, state.work, "agent", launch_id)
    assert state.prune() == []
    assert state.list_ids() == (set(), {launch_id})
    process.end()
    assert state.prune() == [PrunedItem("folder", launch_id, "of a launch that is not known any more")]
    assert state.list_ids() == (set(), set())


# how old


def test_the_age_is_from_the_exit_record_if_there_is_no_note(state: State) -> None:
    for days, stays in ((6, True), (8, False)):
        launch_id = state.launch()
        record = f'{{"code": 0, "at": {time.time() - days * DAY}}}'
        Path(launches.launch_folder(state.notes, launch_id), "exit").write_text(record)
        assert [each.why for each in state.prune()] == ([] if stays else ["ended 8d ago"])


def test_the_age_is_from_the_last_output_if_there_is_no_record(state: State) -> None:
    launch_id = state.launch()
    stdout = Path(launches.launch_folder(state.notes, launch_id), "stdout")
    os.utime(stdout, (0, time.time() - 6 * DAY))
    assert state.prune() == []
    os.utime(stdout, (0, time.time() - 8 * DAY))
    assert state.prune() == [
        PrunedItem("launch", launch_id, "ended, time unknown; last wrote something 8d ago")
    ]


def test_the_age_is_from_the_beginning_if_there_is_no_output(state: State) -> None:
    """A finished launch whose folder the user deleted."""
    young, old = state.launch(files=(), created_ago=6 * DAY), state.launch(files=(), created_ago=8 * DAY)
    assert state.prune() == [PrunedItem("launch", old, "ended, time unknown; began 8d ago")]
    assert state.list_ids()[0] == {young}


@pytest.mark.slow
@settings(max_examples=100)
@given(
    ended_ago=st.none() | st.floats(0, 20),
    record=st.none() | st.floats(0, 20) | st.just("rubbish"),
    created_ago=st.floats(0, 20),
    ttl=st.floats(0, 20),
)
def test_no_launch_is_pruned_before_its_time(
    tmp_path_factory: pytest.TempPathFactory,
    ended_ago: float | None,
    record: float | str | None,
    created_ago: float,
    ttl: float,
) -> None:
    state = State(tmp_path_factory.mktemp("any"))
    launch_id = state.launch(
        ended_ago=None if ended_ago is None else ended_ago * DAY, created_ago=created_ago * DAY
    )
    if record is not None:
        at = time.time() - record * DAY if isinstance(record, float) else '"x"'
        file = Path(launches.launch_folder(state.notes, launch_id), "exit")
        file.write_text(f'{{"code": 0, "at": {at}}}')
        os.utime(file, (0, time.time() - created_ago * DAY))
    days = next(age for age in (ended_ago, record, created_ago) if isinstance(age, float))
    prune.prune_briefly(state.path, ttl * DAY)
    if abs(days - ttl) > 0.001:
        assert (launch_id in state.list_ids()[0]) == (days < ttl)


# what crashes leave


@pytest.mark.parametrize("files", [(), ("stdin",)])
def test_a_launcher_that_died_before_anything_was_started(state: State, files: tuple[str, ...]) -> None:
    """Also if the session's id was chosen before: that does not show that there was a session."""
    launch_id = state.launch(files=files, created_ago=0, finished=False, hook=f"touch {state.work}/ran")
    launch_writes.record_session(state.notes, Launch(launch_id, DEAD, "4f2a"))
    assert overdue(state) == []
    assert state.prune() == [
        PrunedItem("launch", launch_id, "its launcher died before anything was started")
    ]
    assert state.list_ids() == (set(), set())
    assert not (state.work / "ran").exists()


def test_one_that_is_about_to_start_stays(state: State, starts: ExitStack) -> None:
    waiting = _process(starts, state.work, "agent", "another")
    launch_id = state.launch(waiting.identity, files=(), created_ago=0, finished=False)
    assert state.prune(ttl=0) == []
    assert state.list_ids()[0] == {launch_id}


def test_only_names_like_ours_are_pruned(state: State) -> None:
    """AGENTCTL_HOME may be a directory with the user's own files."""
    there = Path(state.path) / "launches"
    there.mkdir(parents=True)
    (there / "apollo-11").mkdir()
    (there / new_id()).touch()
    (there / new_id()).symlink_to(state.work)
    assert state.prune() == []
    assert len(list(there.iterdir())) == 3
    assert state.work.exists()


def test_notes_that_cannot_be_read_protect_every_folder(state: State) -> None:
    launch_id = state.launch(ended_ago=8 * DAY)
    for name in ("state.db-wal", "state.db-shm"):
        Path(state.path, name).unlink(missing_ok=True)
    Path(state.notes).write_bytes(b"rubbish\n" * 500)
    with pytest.raises(SourceError):
        state.prune()
    prune.prune_briefly(state.path)
    assert Path(launches.launch_folder(state.notes, launch_id)).exists()


def test_a_folder_that_cannot_be_removed_is_a_problem(
    state: State, monkeypatch: pytest.MonkeyPatch
) -> None:
    state.launch(ended_ago=8 * DAY)

    def denied(_: str) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(shutil, "rmtree", denied)
    swept = prune.prune(state.path, WEEK)
    assert [(problem.kind, problem.message) for problem in swept.problems] == [
        ("forbidden", "permission denied")
    ]


# locks and cache


def test_locks_of_dead_processes_are_pruned(state: State) -> None:
    for name in ("dead", "live"):
        (state.work / name).mkdir()
    launch_writes.begin_launch(state.notes, Launch(new_id(), DEAD, cwd=str(state.work / "dead")))
    launch_writes.begin_launch(state.notes, Launch(new_id(), ME, cwd=str(state.work / "live")))
    locks.acquire_lock(state.notes, str(state.work), "me", None, None)
    items = [each for each in state.prune() if each.kind == "lock"]
    assert [each.what for each in items] == [str(state.work.resolve() / "dead")]
    assert items[0].why.endswith(f", pid {DEAD.pid} is gone")
    assert len(locks.read_locks(state.notes)) == 2


def test_the_cache_forgets_files_that_are_gone(state: State, tmp_path: Path) -> None:
    os.mkdir(state.path)
    entry = ((1, 2, 3), "what it said")
    (tmp_path / "there").touch()
    file = paths.cache_file(state.path)
    cache.save_entries(file, {str(tmp_path / name): entry for name in ("there", "gone", "there/below")})
    would = state.prune(dry_run=True)
    assert would == [PrunedItem("cache", "2", "cached facts of files that no longer exist")]
    assert len(cache.load_entries(file)) == 3
    assert state.prune() == would
    assert list(cache.load_entries(file)) == [str(tmp_path / "there")]
    assert state.prune() == []


def test_an_incomplete_cache_is_pruned_when_its_writer_is_gone(state: State) -> None:
    os.mkdir(state.path)
    old, young, other = (Path(state.path, name) for name in ("cache.71", "cache.72", "cache.mine"))
    for path in (old, young, other):
        path.touch()
    os.utime(old, (0, time.time() - DAY))
    os.utime(other, (0, 0))
    would = state.prune(dry_run=True)
    assert would == [PrunedItem("file", str(old), "an incomplete cache, whose writer was killed")]
    assert state.prune() == would
    assert not old.exists()
    assert state.prune() == []


# ends that were not finished


def test_an_end_whose_shim_was_killed_is_finished_once(
    state: State, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AGENTCTL_HOME", state.path)
    monkeypatch.setenv("AGENTCTL_CONFINE", "NO=BODY")
    hook = f"echo ran >> {state.work}/ran"
    launch_id = state.launch(finished=False, created_ago=0, hook=hook)
    prune.prune_briefly(state.path, 0)  # runs no hook, so a launch with a hook stays
    assert overdue(state) == [launch_id]
    due = [PrunedItem("end", launch_id, "its shim was killed: its on-complete hook was due")]
    assert state.prune(ttl=0, dry_run=True) == due
    assert not (state.work / "ran").exists()
    assert state.prune(ttl=0) == due
    assert overdue(state) == []
    assert (state.work / "ran").read_text() == "ran\n"
    [note] = launches.read_launches(state.notes)
    assert [(run.hook, run.code) for run in note.hooks] == [("on-complete", 0)]
    assert [each.kind for each in state.prune(ttl=0)] == ["launch"]
    assert (state.work / "ran").read_text() == "ran\n"


def test_while_its_shim_lives_the_end_is_the_shim_s(state: State, starts: ExitStack) -> None:
    launch_id = state.launch(finished=False, hook="true")
    shim = _process(starts, state.work, "agentctl-shim", launch_id)
    tool = _process(starts, state.work, "a tool it left", launch_id)
    assert overdue(state) == []
    shim.end()
    assert overdue(state) == [launch_id]  # a tool that lives on is no shim
    tool.end()


def test_an_agent_that_lives_has_no_end(state: State) -> None:
    state.launch(ME, finished=False, hook="true")
    assert overdue(state) == []


def test_pruning_briefly_forgets_what_has_no_hook_to_run(state: State) -> None:
    state.launch(ended_ago=8 * DAY)
    prune.prune_briefly(state.path)
    assert state.list_ids() == (set(), set())


def test_pruning_briefly_reads_the_settings_and_never_fails(
    state: State, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AGENTCTL_HOME", state.path)
    launch_id = state.launch(ended_ago=2 * DAY)
    monkeypatch.setenv("AGENTCTL_LAUNCH_TTL", "soon")
    prune.prune_briefly(state.path)
    monkeypatch.setenv("AGENTCTL_LAUNCH_TTL", "3d")
    prune.prune_briefly(state.path)
    assert state.list_ids()[0] == {launch_id}
    monkeypatch.setenv("AGENTCTL_LAUNCH_TTL", "1d")
    prune.prune_briefly(state.path)
    assert state.list_ids()[0] == set()
