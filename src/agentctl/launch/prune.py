"""Delete what agentctl stored about launches that ended. Never an agent's own file, never a worktree,
and nothing of a launch that has a live process."""

from __future__ import annotations

import os
import re
import time

from agentctl import paths
from agentctl.durations import format_age
from agentctl.errors import AgentctlError, Gone, SourceError
from agentctl.light_typing import Callable, Iterator, Mapping, NamedTuple, Sequence
from agentctl.light_typing import Set as AbstractSet
from agentctl.process.ours import LAUNCH
from agentctl.process.tree import is_control
from agentctl.state import cache, launch_writes, launches, locks
from agentctl.state.launches import LaunchRow
from agentctl.system import files, proc
from agentctl.system.files import translate_error
from agentctl.system.permissions import check_home
from agentctl.truth.model import Problem

# Launch ids, as `order.new_id` makes them: if AGENTCTL_HOME is a home directory by mistake, no other
# folder is taken for a launch folder.
_ID = re.compile("[0-9a-f]{12}")
BRIEF = 0.25  # seconds that pruning may add to a launch


class PrunedItem(NamedTuple):
    kind: str  # end, lock, launch, folder, cache, file
    what: str
    why: str


class PruneResult(NamedTuple):
    items: list[PrunedItem]  # in a dry run: what would be pruned
    problems: list[Problem]


def prune(state: str, ttl: float, *, dry_run: bool = False) -> PruneResult:
    """Finish launches whose shim was killed, and delete what is old. `ttl`: seconds that the note and
    the folder of a launch stay after its end. Raises SourceError if our database cannot be read."""
    check_home(state)
    snapshot = Snapshot(state)
    result = PruneResult([], [])
    overdue = snapshot.find_overdue()
    result.items.extend(_finish(state, overdue, result.problems, dry_run=dry_run))
    result.items.extend(_sweep_locks(snapshot.path, dry_run=dry_run))
    fresh = {row.id for row in overdue}  # finished just now: a later prune deletes them
    old = [(row, why) for row, why in snapshot.find_forgettable(ttl) if row.id not in fresh]
    orphans = snapshot.find_orphans()
    if not dry_run:
        result.problems.extend(_forget(snapshot, [row for row, _ in old], orphans))
    result.items.extend(PrunedItem("launch", row.id, why) for row, why in old)
    result.items.extend(
        PrunedItem("folder", name, "of a launch that is not known any more") for name in orphans
    )
    result.items.extend(_prune_cache(state, result.problems, dry_run=dry_run))
    return result


def prune_briefly(state: str, ttl: float | None = None) -> None:
    """Prune what is cheap, after a launch. Raises nothing and runs no hook: a launch does not fail for
    this, and `prune` reports what is wrong."""
    deadline = time.monotonic() + BRIEF
    try:
        snapshot = Snapshot(state)
        rows = [
            row
            for row, _ in snapshot.find_forgettable(_configured_ttl() if ttl is None else ttl)
            if not row.has_hook or not snapshot.is_overdue(row)
        ]
        ids = [row.id for row in rows]
        if ids:
            launch_writes.forget_launches(snapshot.path, ids, BRIEF, snapshot.find_unstarted(rows))
        for launch_id in (*ids, *snapshot.find_orphans()):
            if time.monotonic() > deadline:
                return
            _remove(launches.launch_folder(snapshot.path, launch_id))
        locks.sweep_locks(snapshot.path, patience=BRIEF)
    except (AgentctlError, OSError):
        pass


class Snapshot:
    """Folders, rows and processes of all launches, read once. Folders first: a launch that begins
    meanwhile has its row before it has its folder."""

    def __init__(self, state: str) -> None:
        self.path = paths.database_file(state)
        self._folders = _launch_folders(f"{state}/launches")
        self.rows = launches.read_launch_rows(self.path)
        self._living: Mapping[str, bool] | None = None

    def find_overdue(self) -> list[LaunchRow]:
        """Return the launches that have ended and whose finishing work was never begun: their shim was
        killed."""
        return self._keep_unchanged([row for row in self.rows if self.is_overdue(row)])

    def is_overdue(self, row: LaunchRow) -> bool:
        return (
            row.finished_at is None
            and not row.may_live
            and self._has_begun(row)
            and not self.living.get(row.id, False)
        )

    def find_forgettable(self, ttl: float) -> list[tuple[LaunchRow, str]]:
        """Return the launches that ended longer ago than `ttl`, or never began, and why."""
        reasons = dict(self._iterate_forgettable(ttl))
        return [(row, reasons[row]) for row in self._keep_unchanged(list(reasons))]

    def _iterate_forgettable(self, ttl: float) -> Iterator[tuple[LaunchRow, str]]:
        now = time.time()
        for row in self.rows:
            if row.may_live:
                continue
            if not self._has_begun(row):
                why = "its launcher died before anything was started"
            else:
                at, what = self._read_end(row)
                if at + ttl > now:
                    continue
                why = f"{_session_text(row)}{what} {format_age(now - at)} ago"
            if row.id not in self.living:
                yield row, why

    def find_unstarted(self, rows: Sequence[LaunchRow]) -> set[str]:
        return {row.id for row in rows if not self._has_begun(row)}

    def find_orphans(self) -> list[str]:
        """Return the folders without a row and without a live process."""
        ids = {row.id for row in self.rows}
        loose = [name for name in self._folders if name not in ids]
        return [name for name in loose if name not in self.living]

    @property
    def living(self) -> Mapping[str, bool]:
        """Launches with a live process, and whether one of these is the shim, which does the finishing
        work. Read only when needed."""
        if self._living is None:
            self._living = dict(sorted(_marked_processes()))  # True sorts last and wins
        return self._living

    def _keep_unchanged(self, rows: list[LaunchRow]) -> list[LaunchRow]:
        """Return the rows that are still the same in the database: since the snapshot, a shim may have
        done its work, or a launcher may have undone a failed start."""
        now = set(launches.read_launch_rows(self.path)) if rows else ()
        return [row for row in rows if row in now]

    def _has_begun(self, row: LaunchRow) -> bool:
        """Return True if an agent was started: the process that becomes the agent creates its output. A
        session id proves nothing: some are chosen before the start."""
        if row.ended_at is not None or row.finished_at is not None:
            return True
        folder = launches.launch_folder(self.path, row.id)
        return any(os.path.lexists(f"{folder}/{name}") for name in ("stdout", "exit"))

    def _read_end(self, row: LaunchRow) -> tuple[float, str]:
        """Return the end of the launch and what that time is. Without an exit record (the shim was
        killed) it is the last write into the folder, else the start."""
        if row.ended_at is not None:
            return row.ended_at, "ended"
        try:
            record = launches.read_exit_record(self.path, row.id)
        except SourceError:  # an incomplete record: the time of its file counts
            record = None
        if record is not None:
            return record.at, "ended"
        last_write = _last_write(launches.launch_folder(self.path, row.id))
        if last_write is not None:
            return last_write, "ended, time unknown; last wrote something"
        return row.created_at, "ended, time unknown; began"


def _finish(
    state: str, rows: Sequence[LaunchRow], problems: list[Problem], *, dry_run: bool
) -> Iterator[PrunedItem]:
    for row in rows:
        if not dry_run:
            from agentctl.launch.finish import finish_launch

            try:
                finish_launch(state, row.id)
            except AgentctlError as error:
                problems.append(Problem("", getattr(error, "kind", "broken"), str(error), row.id))
                continue
        work = "its on-complete hook was due" if row.has_hook else "its end was not recorded"
        yield PrunedItem("end", row.id, f"its shim was killed: {work}")


def _sweep_locks(path: str, *, dry_run: bool) -> Iterator[PrunedItem]:
    free = (
        [lock for lock in locks.read_locks(path) if not lock.is_held]
        if dry_run
        else locks.sweep_locks(path)
    )
    for lock in free:
        why = (
            f"{lock.holder} is gone" if lock.identity is not None else f"{lock.holder}: its time is over"
        )
        yield PrunedItem("lock", lock.directory, why)


def _prune_cache(state: str, problems: list[Problem], *, dry_run: bool) -> Iterator[PrunedItem]:
    number = cache.forget_absent(paths.cache_file(state), dry_run=dry_run)
    if number:
        yield PrunedItem("cache", str(number), "cached facts of files that no longer exist")
    for path in cache.find_unfinished(paths.cache_file(state)):
        if not dry_run:
            problems.extend(_remove(path, os.unlink))
        yield PrunedItem("file", path, "an incomplete cache, whose writer was killed")


def _forget(snapshot: Snapshot, rows: Sequence[LaunchRow], orphans: Sequence[str]) -> list[Problem]:
    """Delete rows before folders: the next prune finds a folder without a row."""
    launch_ids = [row.id for row in rows]
    if launch_ids:
        launch_writes.forget_launches(
            snapshot.path, launch_ids, never_began=snapshot.find_unstarted(rows)
        )
    folders = [launches.launch_folder(snapshot.path, launch_id) for launch_id in (*launch_ids, *orphans)]
    return [problem for folder in folders for problem in _remove(folder)]


def _marked_processes() -> Iterator[tuple[str, bool]]:
    for process in proc.read_table().values():
        try:
            launch_id = process.environ().get(LAUNCH) if process.is_alive else None
        except SourceError:  # another user's, or gone
            continue
        if launch_id is not None:
            yield launch_id, is_control(process)


def _launch_folders(directory: str) -> AbstractSet[str]:
    try:
        with os.scandir(directory) as entries:
            return {e.name for e in entries if _ID.fullmatch(e.name) and e.is_dir(follow_symlinks=False)}
    except OSError as error:
        translated = translate_error(error, directory)
        if isinstance(translated, Gone):
            return frozenset()
        raise translated from error


def _session_text(row: LaunchRow) -> str:
    if row.session_id is None:
        return ""
    return f"session {row.session_id}{f' ({row.name})' if row.name else ''} "


def _last_write(folder: str) -> float | None:
    try:
        return max(files.read_status(f"{folder}/{name}").st_mtime for name in files.list_names(folder))
    except (SourceError, ValueError):  # no folder, or an empty one
        return None


def _remove(path: str, remove: Callable[[str], None] | None = None) -> list[Problem]:
    try:
        (remove or _remove_folder)(path)
    except FileNotFoundError:
        pass
    except OSError as error:
        translated = translate_error(error, path)
        return [Problem("", translated.kind, translated.why, path)]
    return []


def _remove_folder(path: str) -> None:
    import shutil  # 3 ms, and each launch imports this module

    shutil.rmtree(path)


def _configured_ttl() -> float:
    from agentctl.config import settings

    return settings.load(os.environ).launches.ttl.value
