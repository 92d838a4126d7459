"""Watch files by inotify and processes by pidfd, in one wait that another thread can end.

Each watcher has a name and its own files and processes. What cannot be watched is in `problems`: such a
watcher looks by the clock, and tries to watch it again with each look.
"""

from __future__ import annotations

import os
import time

from agentctl.errors import Exhausted, Gone, SourceError
from agentctl.light_typing import Iterable, NamedTuple
from agentctl.system import this_process
from agentctl.system.files import NO_DESCRIPTOR
from agentctl.system.inotify import Change, Inotify
from agentctl.system.pidfd import Handle
from agentctl.system.proc import ProcessIdentity
from agentctl.system.waiter import Poll, watch_nearest
from agentctl.truth.model import Problem

PLAIN = (b".json", b".jsonl")  # not databases: a write can be read at once
AT_ONCE = 64  # descriptors of one wait; the others are ready the next time
SPARE = 64  # descriptors to leave free: without any, this process can neither read nor answer
ANY = b"*"  # as the name of a file: any file in its directory


class Wakeup(NamedTuple):
    """Why a wait ended: names of watchers, and processes."""

    changed: frozenset[str] = frozenset()  # a file of theirs changed
    logged: frozenset[str] = frozenset()  # of these, the file may be a database
    changing: frozenset[str] = frozenset()  # a record of theirs is being written: complete in a moment
    ended_processes: frozenset[ProcessIdentity] = frozenset()
    lost_since: float | None = None  # then the kernel began to drop changes


NOTHING = Wakeup()


Place = tuple[int, bytes]  # a watch, and a name in its directory


class Writes(NamedTuple):
    """Writes of a record since it was last read."""

    most: int | None  # there were no more than these; None: not counted
    since: float  # there was none before, by the time of day; 0: not known


class _Count:
    __slots__ = ("base", "complete", "is_writing", "since")

    def __init__(self) -> None:
        self.complete = 0  # writes that are complete
        self.is_writing = False  # one more has begun
        self.base: int | None = None  # complete writes when it was last read; None: not read yet
        self.since: float | None = None  # when the first write after these may have begun


class WriteCounts:
    """Count the writes of records, by place."""

    def __init__(self) -> None:
        self._counts: dict[Place, _Count] = {}

    def keep(self, places: Iterable[Place]) -> None:
        """Count these, and no others."""
        before = self._counts
        self._counts = {place: before.get(place) or _Count() for place in places}

    def __contains__(self, place: Place) -> bool:
        return place in self._counts

    def add_changes(self, changes: Iterable[Change], quiet: float) -> None:
        """Count these changes. `quiet`: all of them came after this time."""
        for change in changes:
            count = self._counts.get((change.watch, change.name))
            if count is None:
                continue
            count.complete += change.is_complete
            count.is_writing = not change.is_complete
            if count.since is None:
                count.since = quiet

    def forget(self) -> None:
        """The kernel dropped changes: no count is right until the next read."""
        for count in self._counts.values():
            count.base, count.since = None, None

    def count_complete(self, place: Place) -> int:
        """Return the number of complete writes. A reader takes it before it reads, for `mark_read`."""
        count = self._counts.get(place)
        return count.complete if count is not None else 0

    def writes_since_read(self, place: Place) -> Writes | None:
        """Return None where writes are not counted."""
        count = self._counts.get(place)
        if count is None:
            return None
        if count.base is None:
            return Writes(None, 0.0)
        return Writes(count.complete + count.is_writing - count.base, count.since or 0.0)

    def mark_read(self, place: Place, complete: int, moment: float) -> None:
        """The record was read, from that moment on, after so many complete writes. Later writes may not
        have been read."""
        count = self._counts.get(place)
        if count is not None:
            count.base = complete
            count.since = moment if count.complete > complete or count.is_writing else None


def watch_problem(watcher: str, error: SourceError) -> Problem:
    """Return the problem. A limit is one problem, however many files are over it."""
    if isinstance(error, Exhausted):
        return Problem("", error.kind, error.why)
    return Problem(watcher, error.kind, error.why, error.source)


class Sources:
    """The files and processes of all watchers. Two watchers may share one."""

    def __init__(self, *, new_names: bool = True) -> None:
        """`new_names`: a new file beside a watched one wakes too. Raises SourceError if no descriptor is
        left."""
        self._new_names = new_names
        self._poll = Poll()
        self._inotify: Inotify | None = None  # opened for the first file
        self._places: dict[str, dict[str, Place]] = {}  # by watcher, by path
        self._at: dict[Place, list[str]] = {}  # watchers of this file
        self._in: dict[int, list[str]] = {}  # watchers of a file in this directory
        self._records: dict[str, frozenset[str]] = {}  # paths, by watcher
        self._writes = WriteCounts()
        self._quiet = time.time()  # all changes before this time were read
        self._processes: dict[str, frozenset[ProcessIdentity]] = {}  # by watcher
        self._handles: dict[ProcessIdentity, Handle] = {}
        self._identities: dict[int, ProcessIdentity] = {}  # by descriptor
        self._ended: set[ProcessIdentity] = set()  # each end is reported once
        self.problems: dict[str, list[Problem]] = {}  # what could not be watched, by watcher

    def close(self) -> None:
        for handle in self._handles.values():
            handle.close()
        self._poll.close()
        if self._inotify is not None:
            self._inotify.close()

    def wake(self) -> None:
        """End the wait, from any thread."""
        self._poll.wake()

    def wait(self, timeout: float) -> Wakeup:
        """Return as soon as something happens. NOTHING: woken, or the time is over."""
        ready = self._poll.wait(timeout, AT_ONCE)
        if not ready:  # nearly always
            self._quiet = time.time()
            return NOTHING
        wakeup, exits = NOTHING, set()
        for fd in ready:
            if fd in self._identities:
                exits.add(self._identities[fd])
                self._poll.drop(fd)  # an ended process stays ready for ever
            elif self._inotify is not None:
                wakeup = self._read_changes(self._inotify.read())
        self._ended |= exits
        return wakeup._replace(ended_processes=frozenset(exits)) if exits else wakeup

    def attend(
        self,
        watcher: str,
        paths: Iterable[str],
        processes: Iterable[ProcessIdentity],
        records: Iterable[str] = (),
    ) -> bool:
        """Watch these for this watcher, and nothing else; count each write of `records`. Return True if
        something is watched for the first time: it may have changed before."""
        self.problems[watcher] = []
        before = self._places.get(watcher), self._records.get(watcher, frozenset())
        self._records[watcher] = frozenset(records)
        is_new = self._watch_files(watcher, dict.fromkeys(paths), self._records[watcher] - before[1])
        if before != (self._places[watcher], self._records[watcher]):
            self._index()
        self._processes[watcher] = frozenset(processes)
        watched = frozenset[ProcessIdentity]().union(*self._processes.values())
        for identity in self._handles.keys() - watched:
            self._close_handle(identity)
        self._ended &= watched
        unopened = watched - self._handles.keys() - self._ended
        opened = [self._open_handle(identity, watcher) for identity in unopened]
        return is_new or any(opened)

    def handle(self, identity: ProcessIdentity) -> Handle | None:
        return self._handles.get(identity)

    @property
    def ended_processes(self) -> frozenset[ProcessIdentity]:
        """The watched processes that have ended, also before they could be watched."""
        return frozenset(self._ended)

    # records

    def count_complete(self, watcher: str) -> dict[str, int]:
        """Return the number of complete writes of each record, for `mark_read`."""
        places = self._places.get(watcher, {})
        records = self._records.get(watcher, ())
        return {path: self._writes.count_complete(places[path]) for path in records if path in places}

    def writes_since_read(self, watcher: str, record: str) -> Writes | None:
        """Return None where writes are not counted."""
        place = self._places.get(watcher, {}).get(record)
        return self._writes.writes_since_read(place) if place is not None else None

    def mark_read(self, watcher: str, record: str, complete: int, moment: float) -> None:
        place = self._places.get(watcher, {}).get(record)
        if place is not None:
            self._writes.mark_read(place, complete, moment)

    # files

    def _read_changes(self, changes: list[Change]) -> Wakeup:
        quiet, self._quiet = self._quiet, time.time()
        self._writes.add_changes(changes, quiet)
        is_lost = any(change.is_overflow for change in changes)
        if is_lost:
            self._writes.forget()
        if any(change.is_about_directory and not change.is_watch_end for change in changes):
            watchers = frozenset(self._places)
            return Wakeup(watchers, watchers, lost_since=quiet if is_lost else None)
        changed, logged, changing = set[str](), set[str](), set[str]()
        for change in changes:
            place = (change.watch, change.name)
            if place in self._writes and not change.is_complete and not change.is_new_name:
                changing.update(self._at[place])
                continue
            if change.is_closed and place not in self._writes:
                continue  # the write itself was a change before
            watchers = self._find_watchers(change)
            changed |= watchers
            if not change.name.endswith(PLAIN):
                logged |= watchers
        changed |= self._drop_watches({change.watch for change in changes if change.is_watch_end})
        return Wakeup(frozenset(changed), frozenset(logged), frozenset(changing - changed))

    def _find_watchers(self, change: Change) -> frozenset[str]:
        watchers = self._at.get((change.watch, change.name), []) + self._at.get((change.watch, ANY), [])
        if change.is_new_name and self._new_names:
            watchers += self._in.get(change.watch, [])
        return frozenset(watchers)

    def _drop_watches(self, watches: set[int]) -> set[str]:
        """Forget the watches of directories that no longer exist. Return their watchers, which have to
        look and to watch again."""
        watchers = set()
        for watcher, places in self._places.items() if watches else ():
            for path in [path for path, (watch, _) in places.items() if watch in watches]:
                del places[path]
                watchers.add(watcher)
        if watchers:
            self._index()
        return watchers

    def _watch_files(self, watcher: str, paths: dict[str, None], counted: frozenset[str]) -> bool:
        """Return True if a place is new. `counted`: records whose writes are counted from now on."""
        before, now = self._places.get(watcher, {}), {}
        for path in paths:
            place = before.get(path)
            # a file whose directory did not exist is watched by another name in another directory
            is_final = place is not None and place[1] == os.fsencode(os.path.basename(path))
            if place is not None and is_final and path not in counted:
                now[path] = place
                continue
            try:
                now[path] = watch_nearest(self._open_inotify(), path, closings=path in counted)
            except SourceError as error:  # no permission for the directory, or no watch is left
                self._add_problem(watcher, error)
        self._places[watcher] = now
        used = {watch for places in self._places.values() for watch, _ in places.values()}
        for watch in {watch for watch, _ in before.values()} - used:
            self._open_inotify().drop(watch)
        return not set(now.values()) <= set(before.values())

    def _open_inotify(self) -> Inotify:
        """Raises SourceError."""
        if self._inotify is None:
            self._inotify = Inotify()
            self._poll.add(self._inotify.fileno())
        return self._inotify

    def _add_problem(self, watcher: str, error: SourceError) -> None:
        if (problem := watch_problem(watcher, error)) not in self.problems[watcher]:
            self.problems[watcher].append(problem)

    def _index(self) -> None:
        self._at, self._in = {}, {}
        for watcher, places in self._places.items():
            for place in places.values():
                self._at.setdefault(place, []).append(watcher)
            for watch in {watch for watch, _ in places.values()}:
                self._in.setdefault(watch, []).append(watcher)
        self._writes.keep(
            places[path]
            for watcher, places in self._places.items()
            for path in self._records.get(watcher, ())
            if path in places
        )

    # processes

    def _open_handle(self, identity: ProcessIdentity, watcher: str) -> bool:
        """Return True if the process is watched from now on, or has just ended."""
        try:
            if this_process.count_free_descriptors() < SPARE:
                raise Exhausted(identity.address, NO_DESCRIPTOR)
            handle = Handle(identity)
        except Gone:
            self._ended.add(identity)
            return True
        except SourceError as error:  # no descriptor is left
            self._add_problem(watcher, error)
            return False
        self._handles[identity] = handle
        self._identities[handle.fileno()] = identity
        self._poll.add(handle.fileno())
        return True

    def _close_handle(self, identity: ProcessIdentity) -> None:
        handle = self._handles.pop(identity)
        del self._identities[handle.fileno()]
        if identity not in self._ended:
            self._poll.drop(handle.fileno())
        handle.close()
