"""Housekeeping: what agentctl itself has kept and needs no more. Never an agent's own file, never a
worktree, and nothing of a launch of which any process lives."""

from __future__ import annotations

import os
import re
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import NamedTuple

from agentctl import paths
from agentctl.durations import age
from agentctl.errors import AgentctlError, Gone, SourceError
from agentctl.process.ours import LAUNCH
from agentctl.process.tree import is_control
from agentctl.state import cache, launch_writes, launches, locks, remains
from agentctl.state.remains import Remains
from agentctl.system import files, proc
from agentctl.system.files import translated
from agentctl.system.private import check_home
from agentctl.truth.model import Problem

# As `launch/start.py` makes them: should AGENTCTL_HOME be somebody's home by mistake, a folder of
# theirs is not taken for a launch's.
_ID = re.compile("[0-9a-f]{12}")
BRIEF = 0.25  # seconds that housekeeping may add to a launch


class Pruned(NamedTuple):
    kind: str  # end, lock, launch, folder, cache, file
    what: str
    why: str


class Swept(NamedTuple):
    done: list[Pruned]  # or, in a dry run, what would be
    problems: list[Problem]


def prune(state: str, ttl: float, *, dry_run: bool = False) -> Swept:
    """`ttl`: seconds that a launch's note and folder stay after its end. Raises SourceError where our
    own notes cannot be read: then nothing is known to be needed no more."""
    check_home(state)
    scene = _Scene(state)
    swept = Swept([], [])
    overdue = scene.overdue()
    swept.done.extend(_ends(state, overdue, swept.problems, dry_run=dry_run))
    swept.done.extend(_locks(scene.path, dry_run=dry_run))
    fresh = {note.id for note in overdue}  # they were finished just now: theirs is the next time
    forgotten = [(note, why) for note, why in scene.forgettable(ttl) if note.id not in fresh]
    orphans = scene.orphans()
    if not dry_run:
        swept.problems.extend(_forget(scene, [note for note, _ in forgotten], orphans))
    swept.done.extend(Pruned("launch", note.id, why) for note, why in forgotten)
    swept.done.extend(
        Pruned("folder", name, "of a launch that is not known any more") for name in orphans
    )
    swept.done.extend(_cache(state, swept.problems, dry_run=dry_run))
    return swept


def overdue(state: str) -> list[str]:
    """Launches that have ended and whose finishing work was never begun: their shim was killed."""
    return [note.id for note in _Scene(state).overdue()]


def quietly(state: str, ttl: float | None = None) -> None:
    """What is cheap, for `launch` to call. Says nothing and fails at nothing: a launch is not to fail
    for want of housekeeping, and `prune` tells what is wrong. Runs nobody's hook."""
    deadline = time.monotonic() + BRIEF
    try:
        scene = _Scene(state)
        going = [
            note
            for note, _ in scene.forgettable(_configured() if ttl is None else ttl)
            if not note.has_hook or not scene.is_overdue(note)
        ]
        due = [note.id for note in going]
        if due:
            launch_writes.forget(scene.path, due, BRIEF, scene.never_began(going))
        for launch_id in (*due, *scene.orphans()):
            if time.monotonic() > deadline:
                return
            _remove(launches.folder(scene.path, launch_id))
        locks.sweep(scene.path, patience=BRIEF)
    except (AgentctlError, OSError):
        pass


class _Scene:
    """All that is there, seen once. The folders first: whatever launch begins meanwhile has its note
    before it has its folder."""

    def __init__(self, state: str) -> None:
        self.path = paths.notes_file(state)
        self._folders = _names(f"{state}/launches")
        self.notes = remains.recorded(self.path)
        self._living: Mapping[str, bool] | None = None

    def overdue(self) -> list[Remains]:
        return self._still([note for note in self.notes if self.is_overdue(note)])

    def is_overdue(self, note: Remains) -> bool:
        return (
            note.finished_at is None
            and not note.may_live
            and self._began(note)
            and not self.living.get(note.id, False)
        )

    def forgettable(self, ttl: float) -> list[tuple[Remains, str]]:
        found = dict(self._forgettable(ttl))
        return [(note, found[note]) for note in self._still(list(found))]

    def _forgettable(self, ttl: float) -> Iterator[tuple[Remains, str]]:
        now = time.time()
        for note in self.notes:
            if note.may_live:
                continue
            if not self._began(note):
                why = "its launcher died before anything was started"
            else:
                at, told = self._end(note)
                if at + ttl > now:
                    continue
                why = f"{_who(note)}{told} {age(now - at)} ago"
            if note.id not in self.living:
                yield note, why

    def never_began(self, notes: Sequence[Remains]) -> set[str]:
        return {note.id for note in notes if not self._began(note)}

    def orphans(self) -> list[str]:
        known = {note.id for note in self.notes}
        loose = [name for name in self._folders if name not in known]
        return [name for name in loose if name not in self.living]

    @property
    def living(self) -> Mapping[str, bool]:
        """Launches of which a process lives, whatever it is; and whether one is the shim, whose work
        the end is. Looked up only when there is somebody to ask about."""
        if self._living is None:
            self._living = dict(sorted(_marked()))  # of several, a shim comes last and stays
        return self._living

    def _still(self, notes: list[Remains]) -> list[Remains]:
        """Those whose notes say the same: between the look at them and the one at folders and processes,
        a shim may have done its work, or a launcher may have undone what had failed."""
        now = set(remains.recorded(self.path)) if notes else ()
        return [note for note in notes if note in now]

    def _began(self, note: Remains) -> bool:
        """Whether there was ever an agent: its output is opened by the process that becomes it. The
        session's id tells nothing here: some are chosen before."""
        if note.ended_at is not None or note.finished_at is not None:
            return True
        folder = launches.folder(self.path, note.id)
        return any(os.path.lexists(f"{folder}/{name}") for name in ("stdout", "exit"))

    def _end(self, note: Remains) -> tuple[float, str]:
        """When it ended. Where the shim was killed nobody wrote that down: then the last it wrote, which
        is no later; else its start, since a process that is gone has ended after that."""
        if note.ended_at is not None:
            return note.ended_at, "ended"
        try:
            record = launches.exit_record(self.path, note.id)
        except SourceError:  # half a record: its time is in the file's own
            record = None
        if record is not None:
            return record.at, "ended"
        written = _last_written(launches.folder(self.path, note.id))
        if written is not None:
            return written, "ended, nobody knows when; last wrote something"
        return note.created_at, "ended, nobody knows when; began"


def _ends(
    state: str, notes: Sequence[Remains], problems: list[Problem], *, dry_run: bool
) -> Iterator[Pruned]:
    for note in notes:
        if not dry_run:
            from agentctl.launch.finish import finish

            try:
                finish(state, note.id)
            except AgentctlError as error:
                problems.append(Problem("", getattr(error, "kind", "broken"), str(error), note.id))
                continue
        hook = "its on-complete hook was due" if note.has_hook else "its end was not noted"
        yield Pruned("end", note.id, f"its shim was killed: {hook}")


def _locks(path: str, *, dry_run: bool) -> Iterator[Pruned]:
    over = [lock for lock in locks.written(path) if not lock.held] if dry_run else locks.sweep(path)
    for lock in over:
        why = (
            f"{lock.holder} is gone" if lock.identity is not None else f"{lock.holder}: its time is over"
        )
        yield Pruned("lock", lock.directory, why)


def _cache(state: str, problems: list[Problem], *, dry_run: bool) -> Iterator[Pruned]:
    number = cache.forget_absent(paths.cache_file(state), dry_run=dry_run)
    if number:
        yield Pruned("cache", str(number), "cached facts of files that no longer exist")
    for path in cache.unfinished(paths.cache_file(state)):
        if not dry_run:
            problems.extend(_remove(path, os.unlink))
        yield Pruned("file", path, "half of a cache, whose writer was killed")


def _forget(scene: _Scene, notes: Sequence[Remains], orphans: Sequence[str]) -> list[Problem]:
    """Notes before folders: a folder without a note is found the next time."""
    launch_ids = [note.id for note in notes]
    if launch_ids:
        launch_writes.forget(scene.path, launch_ids, never_began=scene.never_began(notes))
    folders = [launches.folder(scene.path, launch_id) for launch_id in (*launch_ids, *orphans)]
    return [problem for folder in folders for problem in _remove(folder)]


def _marked() -> Iterator[tuple[str, bool]]:
    for process in proc.read_table().values():
        try:
            launch_id = process.environ().get(LAUNCH) if process.alive else None
        except SourceError:  # another user's, or gone: none of ours
            continue
        if launch_id is not None:
            yield launch_id, is_control(process)


def _names(directory: str) -> AbstractSet[str]:
    try:
        with os.scandir(directory) as entries:
            return {e.name for e in entries if _ID.fullmatch(e.name) and e.is_dir(follow_symlinks=False)}
    except OSError as error:
        told = translated(error, directory)
        if isinstance(told, Gone):
            return frozenset()
        raise told from error


def _who(note: Remains) -> str:
    if note.session_id is None:
        return ""
    return f"session {note.session_id}{f' ({note.name})' if note.name else ''} "


def _last_written(folder: str) -> float | None:
    try:
        return max(files.status(f"{folder}/{name}").st_mtime for name in files.names(folder))
    except (SourceError, ValueError):  # no folder, or an empty one
        return None


def _remove(path: str, how: Callable[[str], None] | None = None) -> list[Problem]:
    try:
        (how or shutil.rmtree)(path)
    except FileNotFoundError:
        pass
    except OSError as error:
        told = translated(error, path)
        return [Problem("", told.kind, told.why, path)]
    return []


def _configured() -> float:
    from agentctl.config import settings

    return settings.load(os.environ).ttl.value
