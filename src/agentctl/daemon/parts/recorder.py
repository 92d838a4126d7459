"""Run the observer in a thread of its own, write what it sees into the journal, and ring the bell.

Events that cannot be written (the disk is full, the database is locked) are kept and written later, in
their order. If they become too many, the oldest go, and a gap is recorded in their place.

The journal may be deleted at any time, and an open connection would go on writing into the deleted file.
So each write first checks that the file is still there. If it is not, the next journal begins with the
last event of each session, as the old one ended.
"""

from __future__ import annotations

import logging
import sqlite3
import threading
import time
from contextlib import closing

from agentctl import __version__
from agentctl.config import settings as config
from agentctl.daemon.bell import Bell
from agentctl.errors import AgentctlError, Exhausted, SourceError, Temporary
from agentctl.light_typing import Any, Mapping
from agentctl.state import db, journal, locks
from agentctl.system import proc
from agentctl.system.proc import ProcessIdentity
from agentctl.truth.event import Event
from agentctl.truth.memory import Memory
from agentctl.truth.model import Problem
from agentctl.watch.observer import Observer
from agentctl.watch.story import Story, gap

log = logging.getLogger("agentctl.daemon.observer")  # the name in `daemon status`

MOST = 20_000  # events kept while none can be written
RETRY = 1.0  # seconds to the next try of a write
REST = 5.0  # seconds after an unexpected error
HOUR = 3600.0  # seconds between two prunings of the journal
PRUNE_AFTER = 2000  # events, a few megabytes: prune earlier, in case the journal is too large
PATIENCE = 2.0  # seconds to wait for another writer, before the write is tried again later
SHOWN = 5  # places that cannot be watched, in `daemon status`
LOST = "more happened than could be kept while the journal could not be written"
DELETED = "it was deleted; a new one is begun"


class Recorder:
    name = "observer"

    def __init__(
        self, database: str, environ: Mapping[str, str], identity: ProcessIdentity, bell: Bell
    ) -> None:
        self._database, self._environ, self._identity, self._bell = database, environ, identity, bell
        self._thread = threading.Thread(target=self._run, name="observer", daemon=True)
        self._observer: Observer | None = None
        self._mutex = threading.Lock()  # a closed observer has no descriptors to be woken by
        self._stopping = threading.Event()
        self._pending: list[Event] = []  # not written yet
        self._write_at = 0.0  # not before, by the monotonic clock
        self._connection: sqlite3.Connection | None = None
        self._file_id: db.FileId | None = None  # of the database that we have written into
        self._last_events: dict[tuple[str, str], Event] = {}  # of each session that has not stopped
        self._reader = journal.Reader(database, 0)
        self._problem: str | None = None
        self._prune_at = self._sweep_at = 0.0
        self._written = 0  # events since the last pruning
        self._started_at = time.time()

    def start(self) -> None:
        self._started_at = time.time()
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        with self._mutex:
            if self._observer is not None:
                self._observer.stop()
        self._thread.join()

    def status(self) -> dict[str, Any]:
        observer = self._observer
        fields: dict[str, Any] = {"pending": len(self._pending) or None}
        if observer is not None:
            fields |= {"looks": observer.looks, "problems": len(observer.problems) or None}
            fields |= _watch_fields(observer.watch_problems)
        if self._problem is not None:
            fields |= {"state": "failing", "problem": self._problem}
        return fields

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                self._watch()
            except Exception as error:  # the fence: starts again, which records a gap
                self._problem = f"{type(error).__name__}: {error}"
                log.exception("starts again in %g s", REST)
                self._started_at = time.time()
                self._stopping.wait(REST)

    def _watch(self) -> None:
        events, watched_until = self._read_last_events()
        started = self._make_event("daemon.started", self._started_at)
        for event in events:
            self._note(event)
        self._record([started])
        story = Story(events, started.seen_at if watched_until is None else watched_until)
        observer = Observer(story, self._record, self._environ, Memory())
        self._observer = observer
        observer.watch_database(self._database, self._read_others)
        try:
            observer.begin(watched_until)
            while not self._stopping.is_set():
                observer.step()
                self._do_due()
        finally:
            with self._mutex:
                self._observer = None
                observer.close()
            self._record_end()

    def _record_end(self) -> None:
        if db.read_file_id(self._database) is not None:  # a home that was deleted is not made again
            self._write_at = 0.0
            self._record([self._make_event("daemon.stopped", time.time())])
        self._reader.close()
        self._disconnect()

    def _read_last_events(self) -> tuple[list[Event], float | None]:
        """Return the last event of each session, and until when a daemon watched."""
        try:
            self._reader.seq = journal.read_last_seq(self._database)
            watched_until = journal.read_watch_time(self._database)
            start = journal.find_daemon_start(self._database)
            # In another container the same process has another pid: that we do not see a process by the
            # pid that it has there proves nothing.
            namespaces = (None, proc.pid_namespace())
            is_ours = start is None or start.body["data"].get("namespace") in namespaces
            return journal.read_last_events(self._database) if is_ours else [], watched_until
        except SourceError as error:
            log.warning("the last events cannot be read: %s", error)
            return [], None

    def _make_event(self, type_: str, now: float) -> Event:
        data = {"pid": self._identity.pid, "start": self._identity.start, "version": __version__}
        data["namespace"] = proc.pid_namespace()
        return Event(type_, now, now, subject=self._identity.address, body={"data": data})

    # the journal

    def _record(self, events: list[Event]) -> None:
        """Write events, or keep them until they can be written."""
        self._pending += events
        if len(self._pending) > MOST:
            oldest = self._pending[: -MOST // 2]
            self._pending = [
                gap(oldest[0].seen_at, oldest[-1].seen_at, LOST),
                *self._pending[-MOST // 2 :],
            ]
        if self._pending and time.monotonic() >= self._write_at:
            self._write()

    def _write(self) -> None:
        try:
            numbers = self._append(self._pending)
        except SourceError as error:
            self._disconnect()
            self._write_at = time.monotonic() + RETRY
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
        if numbers[0] == self._reader.seq + 1:  # no other process has written in between
            self._reader.seq = numbers[-1]
        self._bell.ring(numbers[-1])
        if any(event.type == "session.stopped" for event in events):
            self._sweep()
        self._written += len(events)
        if self._written >= PRUNE_AFTER:
            self._prune_at = 0.0

    def _append(self, events: list[Event]) -> list[int]:
        """Return the numbers of the events. The connection stays open: to open one takes longer than to
        write."""
        if self._is_replaced():
            self._begin_journal()
            # Not at once: if the home is being deleted, the daemon ends, and the log may be next to go.
            raise Temporary(self._database, DELETED)
        if self._connection is None:
            self._connection = db.open_writable(self._database, PATIENCE)
            self._file_id = db.read_file_id(self._database)
        with db.begin_transaction(self._connection, self._database):
            return [_append_one(self._connection, event) for event in events]

    def _note(self, event: Event) -> None:
        key = event.adapter or "", event.subject or ""
        if event.type == "session.identified":
            self._last_events.pop((key[0], event.body["data"]["was"]), None)
        elif event.type == "session.stopped":
            self._last_events.pop(key, None)
        elif event.type.startswith("session."):
            self._last_events[key] = event

    def _is_replaced(self) -> bool:
        """Return True if the database that we have written into is not at its path any more."""
        return self._file_id is not None and db.read_file_id(self._database) != self._file_id

    def _begin_journal(self) -> None:
        """Put the last event of each session before those that are not written yet."""
        started = self._make_event("daemon.started", self._started_at)
        self._pending = [started, *self._last_events.values(), *self._pending]
        self._file_id = None
        self._bell.reset()

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()
        self._connection = None

    def _read_others(self) -> None:
        """Read the events of other processes, which launch, lock or set fuses."""
        if self._is_replaced() and db.read_file_id(self._database) is not None:
            self._write()  # another process made a new database; we make none until there are events
        try:
            events = self._reader.read_new()
        except SourceError as error:
            log.warning("the journal cannot be read: %s", error)
            return
        if events:
            self._bell.ring(self._reader.seq)
        for event in events:
            if event.type.startswith("launch.") and event.adapter and self._observer is not None:
                self._observer.notice_launch(event.adapter, event.subject)
            if event.type.startswith("lock."):
                self._sweep_at = 0.0

    # what is due by the clock

    def _do_due(self) -> None:
        now = time.time()
        self._record([])
        if now >= self._sweep_at:
            self._sweep()
        if now >= self._prune_at:
            self._prune_at, self._written = now + HOUR, 0
            self._prune(now)

    def _sweep(self) -> None:
        """Release expired locks when they expire, not when a command asks for them."""
        try:
            locks.sweep_locks(self._database, patience=PATIENCE)
            ends = [lock.expires_at for lock in locks.read_locks(self._database) if lock.expires_at]
        except SourceError as error:
            log.warning("locks cannot be read: %s", error)
            ends = []
        self._sweep_at = min([*ends, time.time() + HOUR])

    def _prune(self, now: float) -> None:
        try:
            settings = config.load(self._environ)
            connection = db.open_existing(self._database, PATIENCE)
            if connection is None:  # just deleted, with its home: pruning must not create it again
                return
            with closing(connection), db.begin_transaction(connection, self._database):
                journal.prune_events(connection, now - settings.journal.keep.value)
                journal.shrink_events(connection, settings.journal.max_size.value)
            db.shrink_file(self._database, PATIENCE)
        except AgentctlError as error:
            log.warning("the journal is not pruned: %s", error)


def _append_one(connection: sqlite3.Connection, event: Event) -> int:
    """Return the number of the event. An event that cannot be written is replaced by a gap, so that it
    does not hold up those after it. An error of the database itself is raised."""
    try:
        return journal.append_event(connection, event)
    except (sqlite3.OperationalError, sqlite3.NotSupportedError):
        raise
    except Exception as error:  # the fence
        log.exception("a %s of %s cannot be written", event.type, event.subject)
        why = f"an event could not be written: {type(error).__name__}"
        return journal.append_event(connection, gap(event.seen_at, event.seen_at, why))


def _watch_fields(problems: list[Problem]) -> dict[str, Any]:
    """Return the status fields about what is not watched. Only a limit degrades the part, because it can
    be raised: a directory that is closed to us stays so."""
    limits = [problem.message for problem in problems if problem.kind == Exhausted.kind]
    closed = [f"{p.source}: {p.message}" for p in problems if p.kind != Exhausted.kind][:SHOWN]
    fields: dict[str, Any] = {"unwatched": closed or None}
    return {**fields, "state": "degraded", "problem": limits[0]} if limits else fields
