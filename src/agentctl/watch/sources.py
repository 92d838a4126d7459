"""What is watched, for whom: files by inotify, processes by pidfd, in one poll that a call from another
thread can end.

What cannot be watched is in `problems`: whoever has some looks by the clock, and asks to watch it again
with each look.
"""

from __future__ import annotations

import os
import select
import time
from collections.abc import Iterable
from typing import NamedTuple

from agentctl.errors import Exhausted, Gone, SourceError
from agentctl.system import descriptors
from agentctl.system.files import NO_DESCRIPTOR, translated
from agentctl.system.identity import ProcessIdentity
from agentctl.system.inotify import Inotify, News
from agentctl.system.pidfd import Handle
from agentctl.system.waiter import nearest
from agentctl.truth.model import Problem
from agentctl.watch.writes import Counts, Place, Written

PLAIN = (b".json", b".jsonl")  # what is written there is there: no database, which has it in a moment
AT_ONCE = 64  # descriptors; the others are ready the next time
SPARE = 64  # descriptors that are left to others: who takes the last ones can neither read nor be asked
ANY = b"*"  # as a file's name: whatever changes in that directory


class Happened(NamedTuple):
    changed: frozenset[str] = frozenset()  # for whom a file changed
    logged: frozenset[str] = frozenset()  # of these, for whom it may be a database
    changing: frozenset[str] = frozenset()  # for whom a record is being written: whole in a moment
    ended: frozenset[ProcessIdentity] = frozenset()
    lost: float | None = None  # since when: the kernel had more to tell than it keeps


NOTHING = Happened()


def unwatched(watcher: str, error: SourceError) -> Problem:
    """A limit that is reached is one problem, whatever the number of files."""
    if isinstance(error, Exhausted):
        return Problem("", error.kind, error.why)
    return Problem(watcher, error.kind, error.why, error.source)


class Lookout:
    """Each watcher has its own files and processes; two may share one."""

    def __init__(self) -> None:
        """Raises SourceError where no descriptor is left."""
        try:
            self._poll = select.epoll()  # many processes take no longer than few
            self._wake, self._waker = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError as error:
            raise translated(error, "epoll") from error
        self._poll.register(self._wake, select.EPOLLIN)
        self._inotify: Inotify | None = None  # opened for the first file
        self._places: dict[str, dict[str, Place]] = {}  # by watcher, by path
        self._at: dict[Place, list[str]] = {}  # who watches there
        self._in: dict[int, list[str]] = {}  # who watches anything in that directory
        self._records: dict[str, frozenset[str]] = {}  # paths, by watcher
        self._writes = Counts()
        self._quiet = time.time()  # until then all was read
        self._owners: dict[str, frozenset[ProcessIdentity]] = {}
        self._handles: dict[ProcessIdentity, Handle] = {}
        self._whose: dict[int, ProcessIdentity] = {}  # by descriptor
        self._over: set[ProcessIdentity] = set()  # have ended: told once
        self.problems: dict[str, list[Problem]] = {}  # what could not be watched, by watcher

    def close(self) -> None:
        for handle in self._handles.values():
            handle.close()
        self._poll.close()
        if self._inotify is not None:
            self._inotify.close()
        os.close(self._wake)
        os.close(self._waker)

    def wake(self) -> None:
        """From any thread: the wait ends."""
        try:
            os.write(self._waker, b"!")
        except BlockingIOError:  # it is woken already
            pass

    def wait(self, timeout: float) -> Happened:
        """What happened; at once when something does. Nothing: woken, or the time is over."""
        ready = self._poll.poll(max(0.0, timeout), AT_ONCE)
        if not ready:  # nearly always
            self._quiet = time.time()
            return NOTHING
        happened, ended = NOTHING, set()
        for fd, _ in ready:
            if fd in self._whose:
                ended.add(self._whose[fd])
                self._poll.unregister(fd)  # an ended process would wake us for ever
            elif fd == self._wake:
                os.read(self._wake, 4096)
            elif self._inotify is not None:
                happened = self._heard(self._inotify.read())
        self._over |= ended
        return happened._replace(ended=frozenset(ended)) if ended else happened

    def attend(
        self,
        watcher: str,
        paths: Iterable[str],
        processes: Iterable[ProcessIdentity],
        records: Iterable[str] = (),
    ) -> bool:
        """Watch these for this watcher, and nothing else; of `records` count each write. Whether there
        is anything new among them: then it may have changed before it was watched."""
        self.problems[watcher] = []
        before = self._places.get(watcher), self._records.get(watcher, frozenset())
        self._records[watcher] = frozenset(records)
        news = self._watch_files(watcher, dict.fromkeys(paths), self._records[watcher] - before[1])
        if before != (self._places[watcher], self._records[watcher]):
            self._index()
        self._owners[watcher] = frozenset(processes)
        wanted = frozenset[ProcessIdentity]().union(*self._owners.values())
        for identity in self._handles.keys() - wanted:
            self._drop(identity)
        self._over &= wanted
        opened = [self._open(i, watcher) for i in wanted - self._handles.keys() - self._over]
        return news or any(opened)

    def handle(self, identity: ProcessIdentity) -> Handle | None:
        return self._handles.get(identity)

    # records

    def over(self, watcher: str) -> dict[str, int]:
        """How many writes of its records are over, as far as we were told; for `was_read`."""
        places = self._places.get(watcher, {})
        records = self._records.get(watcher, ())
        return {path: self._writes.over(places[path]) for path in records if path in places}

    def written(self, watcher: str, record: str) -> Written | None:
        """Since it was last read; None: that is not counted."""
        place = self._places.get(watcher, {}).get(record)
        return self._writes.written(place) if place is not None else None

    def was_read(self, watcher: str, record: str, over: int, moment: float) -> None:
        place = self._places.get(watcher, {}).get(record)
        if place is not None:
            self._writes.was_read(place, over, moment)

    # files

    def _heard(self, news: list[News]) -> Happened:
        quiet, self._quiet = self._quiet, time.time()
        self._writes.hear(news, quiet)
        lost = any(each.lost for each in news)
        if lost:
            self._writes.lost()
        if any(each.of_itself and not each.over for each in news):
            everybody = frozenset(self._places)
            return Happened(everybody, everybody, lost=quiet if lost else None)
        changed, logged, changing = set[str](), set[str](), set[str]()
        for each in news:
            place = (each.watch, each.name)
            if place in self._writes and not each.whole and not each.came:
                changing.update(self._at[place])
                continue
            if each.closed and place not in self._writes:
                continue  # its changes were told before
            concerned = self._at.get(place, []) + self._at.get((each.watch, ANY), [])
            concerned += self._in.get(each.watch, []) if each.came else []
            changed.update(concerned)
            if not each.name.endswith(PLAIN):
                logged.update(concerned)
        changed |= self._lost({each.watch for each in news if each.over})
        return Happened(frozenset(changed), frozenset(logged), frozenset(changing - changed))

    def _lost(self, over: set[int]) -> set[str]:
        """Directories that are no more: whoever watched there is to look, and to watch anew."""
        concerned = set()
        for watcher, places in self._places.items() if over else ():
            for path in [path for path, (watch, _) in places.items() if watch in over]:
                del places[path]
                concerned.add(watcher)
        if concerned:
            self._index()
        return concerned

    def _watch_files(self, watcher: str, paths: dict[str, None], counted: frozenset[str]) -> bool:
        """`counted`: of which each write is, from now on."""
        before, now = self._places.get(watcher, {}), {}
        for path in paths:
            known = before.get(path)
            there = known is not None and known[1] == os.fsencode(os.path.basename(path))
            if known is not None and there and path not in counted:
                now[path] = known  # not one whose directory was yet to come
                continue
            try:
                now[path] = nearest(self._opened(), path, closings=path in counted)
            except SourceError as error:  # its directory is closed to us, or there are no more watches
                self._note(watcher, error)
        self._places[watcher] = now
        used = {watch for places in self._places.values() for watch, _ in places.values()}
        for watch in {watch for watch, _ in before.values()} - used:
            self._opened().drop(watch)
        return not set(now.values()) <= set(before.values())

    def _opened(self) -> Inotify:
        """Raises SourceError."""
        if self._inotify is None:
            self._inotify = Inotify()
            self._poll.register(self._inotify, select.EPOLLIN)
        return self._inotify

    def _note(self, watcher: str, error: SourceError) -> None:
        if (problem := unwatched(watcher, error)) not in self.problems[watcher]:
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

    def _open(self, identity: ProcessIdentity, watcher: str) -> bool:
        try:
            if descriptors.left() < SPARE:
                raise Exhausted(identity.address, NO_DESCRIPTOR)
            handle = Handle(identity)
        except Gone:
            self._over.add(identity)
            return True  # it ended since we looked: look again
        except SourceError as error:  # no more descriptors
            self._note(watcher, error)
            return False
        self._handles[identity] = handle
        self._whose[handle.fileno()] = identity
        self._poll.register(handle, select.EPOLLIN)
        return True

    def _drop(self, identity: ProcessIdentity) -> None:
        handle = self._handles.pop(identity)
        del self._whose[handle.fileno()]
        if identity not in self._over:
            self._poll.unregister(handle)
        handle.close()
