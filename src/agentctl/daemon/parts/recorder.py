"""The observer, in a thread of its own: what it sees goes into the journal, and the bell rings.

What cannot be written (a full disk, a database that somebody holds) is kept and written later, in its
order. Where that becomes too much, the oldest goes, and a gap is told in its place.

The journal may be deleted at any time, and whoever has it open can go on writing into what nobody will
find. So before each write it is made sure that it is still there; if not, the next one begins with the
last word on each session, as the one before ended.
"""

from __future__ import annotations

import logging
import sqlite3
import threading
import time
from collections.abc import Mapping
from typing import Any

from agentctl import __version__
from agentctl.config import settings as config
from agentctl.daemon.bell import Bell
from agentctl.errors import AgentctlError, Exhausted, Passing, SourceError
from agentctl.state import db, journal, locks
from agentctl.system import proc
from agentctl.system.identity import ProcessIdentity
from agentctl.truth.event import Event
from agentctl.truth.model import Problem
from agentctl.truth.warm import Warm
from agentctl.watch.observer import Observer
from agentctl.watch.story import Story, gap

log = logging.getLogger("agentctl.daemon.observer")  # as `daemon status` names it

MOST = 20_000  # events kept while none can be written
AGAIN = 1.0  # seconds to the next try
REST = 5.0  # seconds after what nobody foresaw
HOUR = 3600.0  # between two prunings of the journal
WEIGHED = 2000  # events, after which it is pruned earlier, should it be too large: a few megabytes
PATIENCE = 2.0  # seconds to wait for another writer, before it is tried again later
SHOWN = 5  # places that cannot be watched, in `daemon status`
LOST = "more happened than could be kept while the journal could not be written"
DELETED = "it was deleted, and is begun anew"


class Watcher:
    name = "observer"

    def __init__(
        self, notes: str, environ: Mapping[str, str], identity: ProcessIdentity, bell: Bell
    ) -> None:
        self._notes, self._environ, self._identity, self._bell = notes, environ, identity, bell
        self._thread = threading.Thread(target=self._run, name="observer", daemon=True)
        self._observer: Observer | None = None
        self._mutex = threading.Lock()  # one that is closed has no descriptors to be woken by
        self._ending = threading.Event()
        self._pending: list[Event] = []
        self._again = 0.0
        self._connection: sqlite3.Connection | None = None
        self._place: db.Place | None = None  # of what we have written into
        self._words: dict[tuple[str, str], Event] = {}  # the last on each session that has not stopped
        self._reader = journal.Reader(notes, 0)
        self._problem: str | None = None
        self._prune_at = self._expire_at = 0.0
        self._unweighed = 0  # events written since the journal's size was asked for
        self._began = time.time()

    def start(self) -> None:
        self._began = time.time()
        self._thread.start()

    def stop(self) -> None:
        self._ending.set()
        with self._mutex:
            if self._observer is not None:
                self._observer.stop()
        self._thread.join()

    def status(self) -> dict[str, Any]:
        observer = self._observer
        told: dict[str, Any] = {"pending": len(self._pending) or None}
        if observer is not None:
            told |= {"looks": observer.looks, "problems": len(observer.problems) or None}
            told |= _unwatched(observer.unwatched)
        return told if self._problem is None else {**told, "state": "failing", "problem": self._problem}

    def _run(self) -> None:
        while not self._ending.is_set():
            try:
                self._watch()
            except Exception as error:  # the fence: told, and begun anew, with the gap that it makes
                self._problem = f"{type(error).__name__}: {error}"
                log.exception("begins anew")
                self._began = time.time()
                self._ending.wait(REST)

    def _watch(self) -> None:
        told, away = self._told_before()
        began = self._presence("daemon.started", self._began)
        for event in told:
            self._note(event)
        self._tell([began])
        story = Story(told, began.seen_at if away is None else away)
        observer = Observer(story, self._tell, self._environ, Warm())
        self._observer = observer
        observer.watch_ours(self._notes, self._ours_changed)
        try:
            observer.begin(away)
            while not self._ending.is_set():
                observer.step()
                self._due()
        finally:
            with self._mutex:
                self._observer = None
                observer.close()
            self._leave()

    def _leave(self) -> None:
        if db.place(self._notes) is not None:  # else our home may be gone, and is not to come back
            self._again = 0.0
            self._tell([self._presence("daemon.stopped", time.time())])
        self._reader.close()
        self._disconnect()

    def _told_before(self) -> tuple[list[Event], float | None]:
        """What was last told of each session, and until when somebody watched."""
        try:
            self._reader.seq = journal.last(self._notes)
            away, watcher = journal.watched_until(self._notes), journal.last_watcher(self._notes)
            # in another container the same process has another number: that we do not see it, by the
            # number that it has there, proves nothing
            ours = watcher is None or watcher.body["data"].get("namespace") in (None, proc.namespace())
            return journal.last_told(self._notes) if ours else [], away
        except SourceError as error:
            log.warning("what was told before cannot be read: %s", error)
            return [], None

    def _presence(self, what: str, now: float) -> Event:
        data = {"pid": self._identity.pid, "start": self._identity.start, "version": __version__}
        data["namespace"] = proc.namespace()
        return Event(what, now, now, subject=self._identity.address, body={"data": data})

    # the journal

    def _tell(self, events: list[Event]) -> None:
        self._pending += events
        if len(self._pending) > MOST:
            lost = self._pending[: -MOST // 2]
            self._pending = [
                gap(lost[0].seen_at, lost[-1].seen_at, LOST),
                *self._pending[-MOST // 2 :],
            ]
        if self._pending and time.monotonic() >= self._again:
            self._write()

    def _write(self) -> None:
        try:
            written = self._recorded(self._pending)
        except SourceError as error:
            self._disconnect()
            self._again = time.monotonic() + AGAIN
            if self._problem is None:
                log.warning("the journal cannot be written, and is tried again: %s", error)
            self._problem = str(error)
            return
        if self._problem is not None:
            log.info("the journal is written again")
        self._problem = None
        events, self._pending = self._pending, []
        for event in events:
            self._note(event)
        if written[0] == self._reader.seq + 1:  # nobody else has written in between
            self._reader.seq = written[-1]
        self._bell.ring(written[-1])
        if any(event.type == "session.stopped" for event in events):
            self._sweep()
        self._unweighed += len(events)
        if self._unweighed >= WEIGHED:
            self._prune_at = 0.0

    def _recorded(self, events: list[Event]) -> list[int]:
        """By a connection that stays open: to open one takes longer than to write."""
        if self._is_another():
            self._begin_anew()
            # not at once: where our home is being deleted we end, and its log may be the next to go
            raise Passing(self._notes, DELETED)
        if self._connection is None:
            self._connection = db.open_writable(self._notes, PATIENCE)
            self._place = db.place(self._notes)
        with db.step(self._connection, self._notes):
            return [_appended(self._connection, event) for event in events]

    def _note(self, event: Event) -> None:
        key = event.adapter or "", event.subject or ""
        if event.type == "session.identified":
            self._words.pop((key[0], event.body["data"]["was"]), None)
        elif event.type == "session.stopped":
            self._words.pop(key, None)
        elif event.type.startswith("session."):
            self._words[key] = event

    def _is_another(self) -> bool:
        """Whether what we have written into is not there any more."""
        return self._place is not None and db.place(self._notes) != self._place

    def _begin_anew(self) -> None:
        began = self._presence("daemon.started", self._began)
        self._pending = [began, *self._words.values(), *self._pending]
        self._place = None
        self._bell.anew()

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()
        self._connection = None

    def _ours_changed(self) -> None:
        """Others write too: who launches, locks, sets a fuse."""
        if self._is_another() and db.place(self._notes) is not None:
            self._write()  # another has made it anew; what is deleted, we make when there is news
        try:
            events = self._reader.new()
        except SourceError as error:
            log.warning("the journal cannot be read: %s", error)
            return
        if events:
            self._bell.ring(self._reader.seq)
        for event in events:
            if event.type.startswith("launch.") and event.adapter and self._observer is not None:
                self._observer.launched(event.adapter, event.subject)
            if event.type.startswith("lock."):
                self._expire_at = 0.0  # asked anew

    # what is due by the clock

    def _due(self) -> None:
        now = time.time()
        self._tell([])
        if now >= self._expire_at:
            self._sweep()
        if now >= self._prune_at:
            self._prune_at, self._unweighed = now + HOUR, 0
            self._prune(now)

    def _sweep(self) -> None:
        """Locks that hold nothing any more are released when that comes true, not when somebody asks."""
        try:
            locks.sweep(self._notes, patience=PATIENCE)
            ends = [lock.expires_at for lock in locks.written(self._notes) if lock.expires_at]
        except SourceError as error:
            log.warning("locks cannot be read: %s", error)
            ends = []
        self._expire_at = min([*ends, time.time() + HOUR])

    def _prune(self, now: float) -> None:
        if db.place(self._notes) is None:  # just deleted: not to be made again while its log may go, too
            return
        try:
            settings = config.load(self._environ)
            with db.transaction(self._notes, PATIENCE) as connection:
                journal.prune(connection, now - settings.journal_keep.value)
                journal.shrink(connection, settings.journal_max_size.value)
            db.give_back(self._notes, PATIENCE)
        except AgentctlError as error:
            log.warning("the journal is not pruned: %s", error)


def _appended(connection: sqlite3.Connection, event: Event) -> int:
    """Its number. One event that cannot be written must not keep back all that come after it: there is
    a gap in its place. What is wrong with the database is another matter, and raises."""
    try:
        return journal.append(connection, event)
    except (sqlite3.OperationalError, sqlite3.NotSupportedError):
        raise
    except Exception as error:  # the fence
        log.exception("a %s of %s cannot be written", event.type, event.subject)
        why = f"an event could not be written: {type(error).__name__}"
        return journal.append(connection, gap(event.seen_at, event.seen_at, why))


def _unwatched(problems: list[Problem]) -> dict[str, Any]:
    """What is looked at by the clock. Only a limit that can be raised makes the part a degraded one: a
    directory that is closed to us stays so."""
    limits = [problem.message for problem in problems if problem.kind == Exhausted.kind]
    closed = [f"{p.source}: {p.message}" for p in problems if p.kind != Exhausted.kind][:SHOWN]
    told: dict[str, Any] = {"unwatched": closed or None}
    return {**told, "state": "degraded", "problem": limits[0]} if limits else told
