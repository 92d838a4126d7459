"""A watcher that also reads the daemon's journal: every state that the driver declares must be in it.

- Every declared status becomes the last event of its session, so all were written, in order.
- No `session.stopped` of a session whose process lives; started and stopped alternate.
- `session.waiting` comes no more often than the driver has declared it.
- `unknown` comes only at a beginning; a gap only for each time that the daemon was away and for what the
  driver did that was over before a daemon could look.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from agentctl.daemon_client.start import LOG
from agentctl.errors import Gone
from agentctl.state import journal
from agentctl.system import clock
from agentctl.system.pidfd import Handle
from agentctl.system.proc import ProcessIdentity
from agentctl.truth.event import Event
from agentctl.watch.observer import AWAY
from agentctl.watch.story import ANOTHER
from tests.real.book import State, Watcher, Who
from tests.waiting import until

PATIENCE = 15.0  # seconds, as in `asserting`
SLACK = 0.5  # seconds between what is done and what comes of it
STATUSES = ("running", "waiting", "idle", "stopped", "unknown")


class Listening:
    """It passes every call to another watcher first."""

    def __init__(self, first: Watcher, notes: str, watches: Callable[[], bool]) -> None:
        """`notes`: the database with the journal; `watches`: whether a daemon runs now."""
        self._first, self._notes, self._watches = first, notes, watches
        self._journal = _inode(notes)
        self._book: list[tuple[float, str]] = []
        self._acts: list[tuple[float, Who]] = []  # when something was done, and to which actor
        self._declared: dict[str | None, float] = {}  # since when the driver knows of a session
        self._waits: list[Who] = []  # one for each declared wait

    def unsettled(self, who: Who, at: float) -> None:
        self._first.unsettled(who, at)
        self._acts.append((at, who))

    def record_end(self, who: Who, at: float) -> None:
        self._first.record_end(who, at)
        self._book.append((at, f"{who.name}: its process has ended"))

    def declare(self, who: Who, now: State, since: float) -> None:
        self._first.declare(who, now, since)
        self._book.append((since, f"{who.name} ({who.session_id}): {now}"))
        if now.status == "waiting":
            self._waits.append(who)
        if self.deaf:
            return
        if now.status != "stopped":
            self._no_lie(who)
        if not now.blind and self._watches():
            self._wait_for_event(who, now)
        self._declared.setdefault(who.session_id, time.time())

    def check_journal(self) -> None:
        """At the end of a play: check all events together."""
        if self.deaf:
            return
        events = self.events()
        wrong = [*_find_repeats(events), *_find_oddities(e for e in events if not self._is_brief(e))]
        wrong += _find_false_waits(events, self._waits)
        assert not wrong, "\n".join([*wrong, self.script()])

    @property
    def deaf(self) -> bool:
        """The journal was deleted, and the events with it."""
        return _inode(self._notes) != self._journal

    def events(self) -> list[Event]:
        return journal.read_after(self._notes, 0, 1_000_000)

    def script(self) -> str:
        """The driver's book and the journal, ordered by time, and the daemon's log: for a failure."""
        events = [(event.seen_at, f"    {_line(event)}") for event in self.events()]
        rows = sorted([*self._book, *events], key=lambda row: row[0])
        lines = [f"{datetime.fromtimestamp(at, UTC):%M:%S.%f} {line}" for at, line in rows]
        return "\n".join([*lines, *_log_beside(self._notes)])

    def _is_brief(self, event: Event) -> bool:
        """Whether it is the gap for a turn that was over before a daemon could look, or belongs to a
        beginning: Claude Code writes its record several times before its prompt is there; and while two
        OpenCodes start in one directory on a busy machine, it is unknown for seconds which session
        belongs to which process."""
        data = event.body.get("data", {})
        if event.type not in ("events.gap", "session.unknown") or event.subject is None:
            return False
        if event.seen_at <= self._declared.get(event.subject, 0.0):
            return True
        if event.type == "session.unknown":
            return False
        start, end = (clock.parse_time(data[key]) or 0.0 for key in ("from", "to"))
        mine = [at for at, who in self._acts if event.subject == who.session_id or _is_of(event, who)]
        return any(start - SLACK <= at <= end + SLACK for at in mine)

    def _wait_for_event(self, who: Who, now: State) -> None:
        def is_written() -> bool:
            return self.deaf or _says(last_word(self.events(), who), now)

        try:
            until(is_written, f"the journal shows {who.name} as {now}", PATIENCE)
        except TimeoutError as error:
            raise AssertionError(f"{error}\n{self.script()}") from None

    def _no_lie(self, who: Who) -> None:
        """Read the journal first, then ask whether it lives: so no end can come in between."""
        process = _ended_process(self.events(), who.session_id)
        if who.process is not None and process == who.process.address and _lives(who.process):
            raise AssertionError(f"{who.name} is reported as stopped, and lives\n{self.script()}")


def last_word(events: Iterable[Event], who: Who) -> dict[str, Any] | None:
    """The session in its last event: by its id; without an event of that id, by its process alone."""
    states = [event for event in events if event.type.removeprefix("session.") in STATUSES]
    mine = [event for event in states if event.subject == who.session_id]
    if not mine and who.process is not None:
        mine = [event for event in states if _is_of(event, who)]
    session: dict[str, Any] | None = mine[-1].body.get("session") if mine else None
    return session


def _is_of(event: Event, who: Who) -> bool:
    return who.process is not None and process_of(event) == who.process.address


def _says(session: dict[str, Any] | None, now: State) -> bool:
    if session is None or session["status"] != now.status:
        return False
    has_id = session["id"] is not None  # without an id, how it ended cannot be known
    return now.waiting_for in (None, session["waiting_for"]) and (
        not has_id or now.outcome in (None, session["outcome"])
    )


def process_of(event: Event) -> str | None:
    """The process that the event is about. If that has ended, only the event's data name it."""
    subject = event.subject or ""
    process: str | None = event.body.get("data", {}).get("process")
    return process or (subject if subject.startswith("proc:") else None)


def _ended_process(events: Iterable[Event], session_id: str | None) -> str | None:
    """The process that ran the session last, if the last event says that it ended; else None."""
    process, has_ended = None, False
    for event in events:
        if session_id is not None and event.subject == session_id and event.type.startswith("session."):
            process, has_ended = process_of(event) or process, event.type == "session.stopped"
    return process if has_ended else None


def _find_repeats(events: Iterable[Event]) -> list[str]:
    wrong, living = [], dict[tuple[str | None, str | None], bool]()
    for event in events:
        key = event.adapter, event.subject
        if event.type == "session.identified":
            living[event.adapter, event.body["data"]["was"]] = False
            living[key] = True
        elif event.type == "events.gap" and event.body["data"]["reason"] == ANOTHER:
            living[key] = (
                False  # a client is taken for the owner until its daemon is there; see `_brief`
            )
        elif event.type in ("session.started", "session.stopped"):
            begins = event.type == "session.started"
            if living.get(key, False) == begins and (begins or key in living):
                wrong.append(f"repeated: {_line(event)}")
            living[key] = begins
    return wrong


def _find_oddities(events: Iterable[Event]) -> list[str]:
    """Events that should not be here. A gap is right only after a daemon that is not the first."""
    wrong, away, has_daemon = [], 0, False
    for event in events:
        if event.type == "daemon.started":
            away, has_daemon = away + has_daemon, True
        elif event.type == "events.gap" and event.body["data"]["reason"] == AWAY and away:
            away -= 1
        elif event.type in ("session.unknown", "events.gap"):
            wrong.append(f"without a reason: {_line(event)}")
    return wrong + ["a daemon came back and reported no gap"] * away


def _find_false_waits(events: Iterable[Event], declared: Iterable[Who]) -> list[str]:
    """Waits beyond those that were declared of that process."""
    budget = Counter(who.process.address for who in declared if who.process is not None)
    wrong = []
    for event in events:
        if event.type == "session.waiting":
            process = process_of(event) or ""
            budget[process] -= 1
            if budget[process] < 0:
                wrong.append(f"a wait that was not declared: {_line(event)}")
    return wrong


def _lives(process: ProcessIdentity) -> bool:
    try:
        with Handle(process) as handle:
            return not handle.wait(0)
    except Gone:
        return False


def _log_beside(notes: str) -> list[str]:
    log = Path(notes).with_name(LOG)
    return ["its log:", *log.read_text().splitlines()] if log.exists() else []


def _inode(path: str) -> int | None:
    try:
        return os.stat(path).st_ino
    except FileNotFoundError:
        return None


def _line(event: Event) -> str:
    session, data = event.body.get("session") or {}, event.body.get("data", {})
    details = (
        " ".join(str(session.get(key)) for key in ("pid", "outcome", "reason")) if session else data
    )
    more = data.get("reason") or data.get("was") or ""
    return f"{event.seq} {event.type} {event.subject} {details} {more}".rstrip()
