"""Which events follow from a look at a session, after what was reported of it before.

Pure: no clock, no file, no process. It remembers what was *reported*, to report each change once; what a
session *is* comes from every look.
"""

from __future__ import annotations

from agentctl.light_typing import Iterable, NamedTuple
from agentctl.system.clock import format_rfc3339
from agentctl.system.proc import ProcessIdentity
from agentctl.truth.event import Event
from agentctl.truth.judge import ACTIVITY
from agentctl.truth.model import Evidence, Session
from agentctl.truth.observe import SETTLED_AFTER
from agentctl.watch.schedule import DOUBT
from agentctl.watch.sources import Writes
from agentctl.wire import event as events

Key = tuple[str, str]  # adapter; session id, or the address of a process that has none

STAMPED = 1.0  # seconds, at most, from the time in a record to its write: agents take the time first
NEWCOMER = 1.0  # seconds that a process without a session lives before it is reported
ANOTHER = "another process runs it now; the end of the one before was not seen"


class Report(NamedTuple):
    """What was last reported of a session."""

    status: str
    waiting_for: str | None
    process: ProcessIdentity | None  # its owner
    at: float | None  # since when, as the source says
    note: str = ""  # the word of the source that decided
    activity: str = ""  # running only: `working` or `unknown`, which are two states

    @property
    def state(self) -> tuple[str, str | None, str]:
        """Two reports that differ here are two events."""
        return self.status, self.waiting_for, self.activity


class Story:
    def __init__(self, events: Iterable[Event] = (), since: float | None = None) -> None:
        """`events`: the last event of each session, from a journal. `since`: at the first look, sessions
        that began before this time are not news; None: no session is."""
        self.reports: dict[Key, Report] = {}
        self.live: set[Key] = set()  # sessions whose end was not reported
        for event in events:
            report = _parse_report(event)
            if report is not None and event.adapter and event.subject:
                self._record((event.adapter, event.subject), report)
        self.since = since
        self.is_begun = False  # after the first look, every new session is news

    def update(self, session: Session, now: float, writes: Writes | None = None) -> list[Event]:
        """Return the events of what has changed. `writes`: those of its record since the last look."""
        key = key_of(session)
        report, before = _make_report(session), self.reports.get(key)
        if before is None and self.has_named_session(session):
            return []
        if report.status == "unknown" and before is not None:  # the owner may still run the session
            report = report._replace(process=report.process or before.process)
        self._record(key, report)
        events = self._arrival_events(session, key, before, report, now)
        if before is None or events:
            is_news = True
        else:
            is_news = before.state != report.state or _has_returned(session, before, report, writes)
            events += _unseen_gap(session, before, report, now, writes) if is_news else []
        if is_news:
            events.append(_event(f"session.{report.status}", session, now, report.at, report.process))
        return events

    def _record(self, key: Key, report: Report) -> None:
        self.reports[key] = report
        (self.live.discard if report.status == "stopped" else self.live.add)(key)

    def _arrival_events(
        self, session: Session, key: Key, before: Report | None, report: Report, now: float
    ) -> list[Event]:
        """Return events if the session began, or a process began to run it."""
        owner = report.process
        if owner is not None and self._take_nameless((key[0], owner.address), key):
            unseen = _end_unseen(session, before, owner, now)
            return [*unseen, _event("session.identified", session, now, None, was=owner.address)]
        if before is None:
            began = _began(session) or 0.0
            fresh = self.is_begun or (self.since is not None and began >= self.since)
            return [_started(session, now)] if fresh else []
        if before.status == "stopped":
            return [_started(session, now)] if report.status != "stopped" else []
        unseen = _end_unseen(session, before, owner, now)
        return [*unseen, _started(session, now)] if unseen else []

    def has_named_session(self, session: Session) -> bool:
        """Return True if a process that shows no session was reported with one: some agents hide their
        session a moment after their start, others before their end. That is no news."""
        owner = session.observation.owner
        if session.observation.session_id is not None or owner is None:
            return False
        return any(self.reports[key].process == owner.identity for key in self.live)

    def _take_nameless(self, process: Key, key: Key) -> bool:
        """Return True if this process was reported before it had a session, and remove that report."""
        if process == key or process not in self.reports:
            return False
        del self.reports[process]
        self.live.discard(process)
        return True


def _end_unseen(
    session: Session, before: Report | None, owner: ProcessIdentity | None, now: float
) -> list[Event]:
    if before is None or before.status == "stopped" or owner is None or before.process in (None, owner):
        return []
    return [gap(before.at or now, now, ANOTHER, session)]


def key_of(session: Session) -> Key:
    observation = session.observation
    owner = observation.owner
    address = owner.identity.address if owner is not None else _ended_process(session)
    return observation.adapter, observation.session_id or address


def gap(start: float, end: float, reason: str, session: Session | None = None) -> Event:
    data = {"from": format_rfc3339(start), "to": format_rfc3339(end), "reason": reason}
    if session is None:
        return Event("events.gap", end, start, body={"data": data})
    return _event("events.gap", session, end, start, None, **data)


def _event(
    kind: str,
    session: Session,
    now: float,
    at: float | None,
    last_owner: ProcessIdentity | None = None,  # where it is unknown whether it still runs the session
    **data: object,
) -> Event:
    adapter, subject = key_of(session)
    process = session.observation.owner
    owner = process.identity if process is not None else last_owner
    if owner is not None:
        data = {"process": owner.address, "boot": owner.boot, **data}
    group = session.launch.group if session.launch is not None else None
    return Event(kind, now, at, adapter, subject, group, events.make_session_body(session, **data))


def _started(session: Session, now: float) -> Event:
    return _event("session.started", session, now, _began(session))


def _parse_report(event: Event) -> Report | None:
    """Return what an event reported; None: it is of another version, or not about a status."""
    session, data = event.body.get("session"), event.body.get("data", {})
    if not isinstance(session, dict) or not isinstance(data, dict):
        return None
    try:
        pid, start = str(data["process"]).removeprefix("proc:").split("@")
        process = ProcessIdentity(str(data["boot"]), int(pid), int(start))
    except (KeyError, ValueError):  # the session had no process
        process = None
    pieces = event.body.get("evidence") or ()
    note = next((str(p.get("note") or "") for p in pieces if p.get("claim") in ACTIVITY), "")
    status = str(session.get("status"))
    return Report(
        status=status,
        waiting_for=session.get("waiting_for"),
        process=process,
        at=event.at,
        note=note,
        activity=_activity(status, session.get("activity")),
    )


def _make_report(session: Session) -> Report:
    verdict, owner = session.verdict, session.observation.owner
    piece = _deciding_piece(session)
    return Report(
        status=verdict.status,
        waiting_for=verdict.waiting_for,
        process=owner.identity if owner is not None else None,
        at=piece.at if piece is not None else None,
        note=piece.note if piece is not None else "",
        activity=_activity(verdict.status, verdict.activity),
    )


def _activity(status: str, activity: object) -> str:
    """Return the activity where it says more than the status."""
    return str(activity) if status == "running" else ""


def is_derived(session: Session) -> bool:
    """Return True if the activity was derived: no source states it."""
    piece = _deciding_piece(session)
    return piece is not None and piece.authority == "derived"


def _deciding_piece(session: Session) -> Evidence | None:
    """Return the evidence of what the session does; for a stopped one, of how it ended."""
    claims = ("exited",) if session.verdict.status == "stopped" else ACTIVITY
    return next((e for e in session.verdict.used if e.claim in claims), None)


def _has_returned(session: Session, before: Report, report: Report, writes: Writes | None) -> bool:
    """Return True if the session has left its status since the last look, and is back.

    The time of the source shows it, with three exceptions. In a transcript, the time of an open turn is
    that of the last line and moves all the time. A record with another note that was written once has
    changed within what is one status for us. A derived time is ours, and varies by a millisecond.
    """
    piece = _deciding_piece(session)
    if piece is None or None in (before.at, report.at) or report.status in ("stopped", "unknown"):
        return False
    if before.at == report.at or piece.authority == "derived":
        return False
    if piece.authority == "record":
        return before.note == report.note or _has_unread_write(writes)
    return piece.claim != "working"


def _unseen_gap(
    session: Session, before: Report, report: Report, now: float, writes: Writes | None
) -> list[Event]:
    """Return a gap if there was a state between the two that no look has seen."""
    began = max(before.at or 0.0, writes.since - STAMPED if writes is not None else 0.0)
    if before.state == report.state:
        reason = f"it was something else in between, and is {report.status} again"
        return [gap(min(began or now, report.at or now), report.at or now, reason, session)]
    piece = _deciding_piece(session)
    if piece is None or piece.authority != "record" or piece.at is None or not _has_unread_write(writes):
        return []
    reason = "its record was written more than once between two looks"
    return [gap(min(began or now, piece.at), piece.at, reason, session)]


def _has_unread_write(writes: Writes | None) -> bool:
    """Return True if a write may not have been read. A single write is what the record says now."""
    return writes is not None and (writes.most is None or writes.most > 1)


def _began(session: Session) -> float | None:
    alive = next((e.at for e in session.observation.evidence if e.claim == "alive"), None)
    return alive if alive is not None else session.observation.facts.started_at


def _ended_process(session: Session) -> str:
    """Return the address of an ended process without a session: only its evidence has it."""
    addresses = (e.address for e in session.observation.evidence if e.address.startswith("proc:"))
    return next(addresses, "").partition("/")[0]


def hold_seconds(
    session: Session, before: Report | None, *, begun: bool, launching: bool = False
) -> float:
    """Return for how many seconds a change is held back until it is reported. `before`: the last report;
    `begun`: the first look is over; `launching`: a launcher has yet to record which session its agent
    runs, which may be this one."""
    status, is_later = session.verdict.status, before is not None or begun
    is_unsure = status == "running" and session.verdict.activity == "unknown"
    if before is None and begun and session.observation.session_id is None:
        return NEWCOMER
    if (
        before is not None
        and before.status == status
        and not (is_unsure and before.activity == "working")
    ):
        return 0.0
    if status == "unknown":
        return DOUBT if is_later else 0.0
    if is_unsure:
        return _hold_unsure(before)
    if status == "waiting":
        is_at_start = session.verdict.waiting_for == "startup"
        return SETTLED_AFTER if is_later and is_derived(session) and not is_at_start else 0.0
    is_ending = launching if session.launch is None else session.launch.exit is None
    return DOUBT if status == "stopped" and is_ending else 0.0


def _hold_unsure(before: Report | None) -> float:
    if before is None:
        return 0.0
    if before.status == "running":
        return SETTLED_AFTER
    return DOUBT if before.status in ("idle", "waiting") else 0.0
