"""What is watched, for whom: files by inotify, processes by pidfd, in one poll that a call from another
thread can end."""

from __future__ import annotations

import os
import select
from collections.abc import Iterable
from typing import NamedTuple

from agentctl.errors import Gone, SourceError
from agentctl.truth.inotify import Inotify, News
from agentctl.truth.model import Problem, ProcessIdentity
from agentctl.truth.pidfd import Handle
from agentctl.truth.watch import nearest

Place = tuple[int, bytes]  # a watch, and a name in its directory


class Happened(NamedTuple):
    changed: frozenset[str]  # for whom a file changed
    ended: frozenset[ProcessIdentity]
    lost: bool  # the kernel had more to tell than it keeps


class Lookout:
    """Each watcher has its own files and processes; two may share one."""

    def __init__(self) -> None:
        self._inotify = Inotify()
        self._wake, self._waker = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._poll = select.poll()
        self._poll.register(self._inotify, select.POLLIN)
        self._poll.register(self._wake, select.POLLIN)
        self._places: dict[str, dict[str, Place]] = {}  # by watcher, by path
        self._owners: dict[str, frozenset[ProcessIdentity]] = {}
        self._handles: dict[ProcessIdentity, Handle] = {}
        self._over: set[ProcessIdentity] = set()  # have ended: told once
        self.problems: dict[str, list[Problem]] = {}  # what could not be watched, by watcher

    def close(self) -> None:
        for handle in self._handles.values():
            handle.close()
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
        ready = [fd for fd, _ in self._poll.poll(max(0.0, timeout) * 1000)]
        if self._wake in ready:
            os.read(self._wake, 4096)
        news = self._inotify.read() if self._inotify.fileno() in ready else []
        ended = {i for i, handle in self._handles.items() if handle.fileno() in ready}
        for identity in ended:
            self._poll.unregister(self._handles[identity])  # an ended process would wake us for ever
        self._over |= ended
        return Happened(self._for_whom(news), frozenset(ended), any(n.lost for n in news))

    def attend(self, watcher: str, paths: Iterable[str], processes: Iterable[ProcessIdentity]) -> bool:
        """Watch these for this watcher, and nothing else. Whether there is anything new among them: then
        it may have changed before it was watched."""
        self.problems[watcher] = []
        news = self._watch_files(watcher, dict.fromkeys(paths))
        self._owners[watcher] = frozenset(processes)
        wanted = frozenset[ProcessIdentity]().union(*self._owners.values())
        for identity in self._handles.keys() - wanted:
            self._drop(identity)
        self._over &= wanted
        opened = [self._open(i, watcher) for i in wanted - self._handles.keys() - self._over]
        return news or any(opened)

    def handle(self, identity: ProcessIdentity) -> Handle | None:
        return self._handles.get(identity)

    def _for_whom(self, news: list[News]) -> frozenset[str]:
        if any(each.of_itself and not each.over for each in news):
            return frozenset(self._places)
        changed = {(each.watch, each.name) for each in news}
        came = {each.watch for each in news if each.came}
        concerned = frozenset(
            watcher
            for watcher, places in self._places.items()
            if not changed.isdisjoint(places.values())
            or any(watch in came for watch, _ in places.values())
        )
        return concerned | self._lost({each.watch for each in news if each.over})

    def _lost(self, over: set[int]) -> set[str]:
        """Directories that are no more: whoever watched there is to look, and to watch anew."""
        concerned = set()
        for watcher, places in self._places.items():
            for path in [path for path, (watch, _) in places.items() if watch in over]:
                del places[path]
                concerned.add(watcher)
        return concerned

    def _watch_files(self, watcher: str, paths: dict[str, None]) -> bool:
        before, now = self._places.get(watcher, {}), {}
        for path in paths:
            known = before.get(path)
            if known is not None and known[1] == os.fsencode(os.path.basename(path)):
                now[path] = known  # not one whose directory was yet to come
                continue
            try:
                now[path] = nearest(self._inotify, path)
            except SourceError as error:  # its directory is closed to us, or there are no more watches
                self.problems[watcher].append(Problem(watcher, error.kind, error.why, error.source))
        self._places[watcher] = now
        used = {watch for places in self._places.values() for watch, _ in places.values()}
        for watch in {watch for watch, _ in before.values()} - used:
            self._inotify.drop(watch)
        return not set(now.values()) <= set(before.values())

    def _open(self, identity: ProcessIdentity, watcher: str) -> bool:
        try:
            handle = Handle(identity)
        except Gone:
            self._over.add(identity)
            return True  # it ended since we looked: look again
        except SourceError as error:  # no more descriptors
            self.problems[watcher].append(Problem(watcher, error.kind, error.why, error.source))
            return False
        self._handles[identity] = handle
        self._poll.register(handle, select.POLLIN)
        return True

    def _drop(self, identity: ProcessIdentity) -> None:
        handle = self._handles.pop(identity)
        if identity not in self._over:
            self._poll.unregister(handle)
        handle.close()
