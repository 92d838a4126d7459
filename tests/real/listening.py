"""A watcher that listens to the daemon, too: what the driver declares must be told in the journal.

- Every declared status comes to be the last word on its session, so that all were told, in order.
- `session.stopped` is never told of a session while its process lives; started and stopped come in turn.
- `session.waiting` is told no more often than the driver has declared it.
- Nobody says `unknown`, but of a beginning; and no gap is told but one for each time that the daemon was
  away, and for what the driver did that was over before anybody could look.
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
from agentctl.system.identity import ProcessIdentity
from agentctl.system.pidfd import Handle
from agentctl.truth.event import Event
from agentctl.watch.observer import AWAY
from agentctl.watch.story import ANOTHER
from tests.real.book import Told, Watcher, Who
from tests.waiting import until

PATIENCE = 15.0  # seconds, as of `asserting`
SLACK = 0.5  # seconds between what is done and what comes of it
STATUSES = ("running", "waiting", "idle", "stopped", "unknown")


class Listening:
    """Whatever it hears, another watcher hears first."""

    def __init__(self, first: Watcher, notes: str, watches: Callable[[], bool]) -> None:
        """`notes`: with the journal in it; `watches`: whether a daemon runs now."""
        self._first, self._notes, self._watches = first, notes, watches
        self._journal = _inode(notes)
        self._book: list[tuple[float, str]] = []
        self._done: list[tuple[float, Who]] = []  # when something was done to whom
        self._declared: dict[str | None, float] = {}  # since when the driver knows of a session
        self._waits: list[Who] = []  # who was declared to wait, each time

    def unsettled(self, who: Who, at: float) -> None:
        self._first.unsettled(who, at)
        self._done.append((at, who))

    def ended(self, who: Who, at: float) -> None:
        self._first.ended(who, at)
        self._book.append((at, f"{who.name}: its process has ended"))

    def told(self, who: Who, now: Told, since: float) -> None:
        self._first.told(who, now, since)
        self._book.append((since, f"{who.name} ({who.session_id}): {now}"))
        if now.status == "waiting":
            self._waits.append(who)
        if self.deaf:
            return
        if now.status != "stopped":
            self._no_lie(who)
        if not now.blind and self._watches():
            self._hears(who, now)
        self._declared.setdefault(who.session_id, time.time())

    def is_over(self) -> None:
        """At the end of a play: what was told in all."""
        if self.deaf:
            return
        events = self.events()
        wrong = [*_out_of_turn(events), *_odd(e for e in events if not self._brief(e))]
        wrong += _false_waits(events, self._waits)
        assert not wrong, "\n".join([*wrong, self.script()])

    @property
    def deaf(self) -> bool:
        """Somebody has deleted the journal, and with it what was told."""
        return _inode(self._notes) != self._journal

    def events(self) -> list[Event]:
        return journal.after(self._notes, 0, 1_000_000)

    def script(self) -> str:
        """Both books, by the clock, and the daemon's log, for whoever has to find out."""
        told = [(event.seen_at, f"    {_line(event)}") for event in self.events()]
        rows = sorted([*self._book, *told], key=lambda row: row[0])
        lines = [f"{datetime.fromtimestamp(at, UTC):%M:%S.%f} {line}" for at, line in rows]
        return "\n".join([*lines, *_log_beside(self._notes)])

    def _brief(self, event: Event) -> bool:
        """Whether it is the gap for a turn that was over before anybody could look, or of a beginning:
        Claude Code writes its record several times before its prompt is there, and of two OpenCodes that
        start in one directory on a busy machine nobody can tell for seconds which session is whose."""
        data = event.body.get("data", {})
        if event.type not in ("events.gap", "session.unknown") or event.subject is None:
            return False
        if event.seen_at <= self._declared.get(event.subject, 0.0):
            return True
        if event.type == "session.unknown":
            return False
        began, ended = (clock.parse(data[key]) or 0.0 for key in ("from", "to"))
        mine = [at for at, who in self._done if event.subject == who.session_id or _is_of(event, who)]
        return any(began - SLACK <= at <= ended + SLACK for at in mine)

    def _hears(self, who: Who, now: Told) -> None:
        def is_told() -> bool:
            return self.deaf or _says(last_word(self.events(), who), now)

        try:
            until(is_told, f"the journal tells {who.name} as {now}", PATIENCE)
        except TimeoutError as error:
            raise AssertionError(f"{error}\n{self.script()}") from None

    def _no_lie(self, who: Who) -> None:
        """First what was told, then whether it lives: so no end can come in between."""
        ended_by = _ended_by(self.events(), who.session_id)
        if who.process is not None and ended_by == who.process.address and _lives(who.process):
            raise AssertionError(f"{who.name} was told as stopped, and lives\n{self.script()}")


def last_word(events: Iterable[Event], who: Who) -> dict[str, Any] | None:
    """The session as last told: by its id; where that was never told, by its process alone."""
    told = [event for event in events if event.type.removeprefix("session.") in STATUSES]
    mine = [event for event in told if event.subject == who.session_id]
    if not mine and who.process is not None:
        mine = [event for event in told if _is_of(event, who)]
    session: dict[str, Any] | None = mine[-1].body.get("session") if mine else None
    return session


def _is_of(event: Event, who: Who) -> bool:
    return who.process is not None and process_of(event) == who.process.address


def _says(session: dict[str, Any] | None, now: Told) -> bool:
    if session is None or session["status"] != now.status:
        return False
    known = session["id"] is not None  # one that never showed its session has ended somehow
    return now.waiting_for in (None, session["waiting_for"]) and (
        not known or now.outcome in (None, session["outcome"])
    )


def process_of(event: Event) -> str | None:
    """The one that it is told of: of one that has ended, only the evidence names it."""
    subject = event.subject or ""
    told: str | None = event.body.get("data", {}).get("process")
    return told or (subject if subject.startswith("proc:") else None)


def _ended_by(events: Iterable[Event], session_id: str | None) -> str | None:
    """The process that was last told to run it, if it was told to have ended; None: it was not."""
    process, ended = None, False
    for event in events:
        if session_id is not None and event.subject == session_id and event.type.startswith("session."):
            process, ended = process_of(event) or process, event.type == "session.stopped"
    return process if ended else None


def _out_of_turn(events: Iterable[Event]) -> list[str]:
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
                wrong.append(f"told twice: {_line(event)}")
            living[key] = begins
    return wrong


def _odd(events: Iterable[Event]) -> list[str]:
    """What should not be said here, but for a gap right after a daemon that is not the first."""
    wrong, away, watched = [], 0, False
    for event in events:
        if event.type == "daemon.started":
            away, watched = away + watched, True
        elif event.type == "events.gap" and event.body["data"]["reason"] == AWAY and away:
            away -= 1
        elif event.type in ("session.unknown", "events.gap"):
            wrong.append(f"told without a reason: {_line(event)}")
    return wrong + ["a daemon came back and told no gap"] * away


def _false_waits(events: Iterable[Event], declared: Iterable[Who]) -> list[str]:
    """Those beyond what was declared of that process."""
    left = Counter(who.process.address for who in declared if who.process is not None)
    wrong = []
    for event in events:
        if event.type == "session.waiting":
            process = process_of(event) or ""
            left[process] -= 1
            if left[process] < 0:
                wrong.append(f"told to wait, and did not: {_line(event)}")
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
    said = " ".join(str(session.get(key)) for key in ("pid", "outcome", "reason")) if session else data
    more = data.get("reason") or data.get("was") or ""
    return f"{event.seq} {event.type} {event.subject} {said} {more}".rstrip()
