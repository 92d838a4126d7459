"""Scores the event stream and the notifications of one play against the driver's truth. Pure: a record
in, findings out.

- An event is *false* if its claim was not true at any moment of the two seconds before it (see `truth`),
  or if it goes back behind the event before it: events may be late, but never untrue. An event about a
  session or process that the driver did not start is a *ghost*. Also false: the process of another
  session, and a start or an end that repeats the last one.
- `session.unknown`, and `session.running` with an unknown activity, make no claim about what the agent
  does. They are counted apart.
- A notification is *false* if its event is false, or if the state was over for two seconds when the
  notification arrived.
- A declared change is *reported* by the first event with its status, and *missing* if there is none
  until two seconds after the next change. A change that nothing outside the agent shows is *blind*: it
  need not be reported. It is *unfounded* if the last event claims another state.
- Changes while no daemon ran (a play kills it) are not counted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from agentctl.watch.story import ANOTHER
from tests.real.accuracy.record import Notification, Record, StreamEvent, decode
from tests.real.accuracy.score import Finding
from tests.real.accuracy.timeline import Actor, Entry
from tests.real.accuracy.truth import ALIVE, EVER, Line, Step, Truth
from tests.real.book import State, Who
from tests.real.listening import STATUSES

LATE = 2.0  # seconds after the end of a state in which an event about it is late, not untrue
DRIVER_DELAY = 0.1  # seconds: on a busy machine the daemon may hear of something before the driver does

Fault = tuple[str, str]  # its kind, and what was true instead
ABOUT = frozenset({"session.started", "session.identified", *(f"session.{name}" for name in STATUSES)})


def score(plays: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]] | None:
    """The findings of all recorded plays; None: no play has a record."""
    records = [(play["play"], decode(play["record"])) for play in plays if play.get("record")]
    if not records:
        return None
    return [each._asdict() for title, record in records for each in Scorer(title, record).findings()]


class Scorer:
    """Scores the stream of one play."""

    def __init__(self, play: str, record: Record) -> None:
        self._play, self._record = play, record
        self._truth = Truth(record)
        self._events = [event for event in record.events if event.type in ABOUT]
        self._repeats = set(_repeated(record.events))
        self._processes: dict[str | None, str] = {}  # by subject, the process that an event named last
        self._positions: dict[tuple[str | None, str], int] = {}  # by subject and line, the step so far

    def findings(self) -> list[Finding]:
        faults = {event.seq: fault for event in self._events if (fault := self._find_fault(event))}
        findings = [self._score_event(event, faults) for event in self._events]
        findings += [self._score_notification(one, faults) for one in self._record.notifications]
        for event in self._record.events:
            if event.type == "events.gap" and event.subject is not None:
                findings.append(self._finding("gap", event, "", event.reason))
        for actor in self._record.actors.values():
            findings += self._score_changes(actor)
        return findings

    # events and notifications

    def _score_event(self, event: StreamEvent, faults: Mapping[int, Fault]) -> Finding:
        if event.seq in faults:
            kind, truth = faults[event.seq]
            return self._finding(kind, event, truth, event.reason)
        certain = claim_of(event) not in (None, ALIVE) or event.type in _BEGINNINGS
        return self._finding("event" if certain else "unknown", event, "", event.reason)

    def _find_fault(self, event: StreamEvent) -> Fault | None:
        """The kind of fault, and what was true instead."""
        claim = claim_of(event)
        if event.process is not None:
            self._processes[event.subject] = event.process
        if claim is None:
            return None
        process = event.process or self._processes.get(event.subject)
        lines = self._truth.lines(event.subject, process)
        if not lines:
            return "ghost", "no session of the driver"
        if self._truth.is_anothers(event.subject, event.process):
            return "false", f"{event.process} does not run it"
        if event.seq in self._repeats:
            return "false", "this repeats the last event"
        steps = [step for line in lines if (step := self._reach(event, claim, line)) is not None]
        if not steps:
            possible = {line.describe(event.at) or "nothing" for line in lines}
            return "false", " or ".join(sorted(possible))
        return None if any(_agrees(event, step) for step in steps) else ("false", _detail(steps))

    def _reach(self, event: StreamEvent, claim: str, line: Line) -> Step | None:
        """The step that makes the claim true. The next event about it may not go back behind it."""
        key = event.subject, line.name
        number = line.find(claim, event.at - LATE, event.at + DRIVER_DELAY, self._positions.get(key, 0))
        if number is None:
            return None
        self._positions[key] = number
        return line.steps[number]

    def _score_notification(self, notification: Notification, faults: Mapping[int, Fault]) -> Finding:
        event = next((event for event in self._events if event.seq == notification.seq), None)
        if event is None:
            return Finding("false-notification", self._play, "", "no such event", notification.word, 0.0)
        if event.seq in faults:
            return self._finding("false-notification", event, faults[event.seq][1], notification.word)
        claim = claim_of(event) or ALIVE
        lines = self._truth.lines(event.subject, self._processes.get(event.subject))
        if any(
            line.find(claim, notification.at - LATE, notification.at + DRIVER_DELAY) is not None
            for line in lines
        ):
            return self._finding("notification", event, "", notification.word)
        return self._finding("false-notification", event, "it was over", notification.word)

    def _finding(self, kind: str, event: StreamEvent, truth: str, reason: str) -> Finding:
        began = min((e.at for e in self._record.events), default=event.at)
        word = event.type.removeprefix("session.")
        after = round(event.at - began, 3)
        return Finding(kind, self._play, str(event.subject), truth, word, after, reason=reason)

    # changes

    def _score_changes(self, actor: Actor) -> Iterator[Finding]:
        spells, previous = actor.spells(), "start"
        for number, (entry, _, until) in enumerate(spells):
            status = _state(entry).status
            change, previous = f"{previous} → {status}", status
            if any(start <= entry.at <= end for start, end in self._record.away):
                continue
            if _state(entry).blind or (status == "stopped" and entry.who.session_id is None):
                yield self._score_blind(actor, entry, change, until)
                continue
            again = (cause for later, cause, _ in spells[number + 1 :] if _state(later).status == status)
            began = spells[number - 1][0].at if number else -EVER
            following = spells[number + 1][0].at if number + 1 < len(spells) else EVER
            after = self._delay(entry, began, min(following + LATE, next(again, EVER)))
            kind = "missing" if after is None else "reported"
            yield Finding(kind, self._play, actor.name, change, "", after or 0.0)

    def _score_blind(self, actor: Actor, entry: Entry, change: str, until: float) -> Finding:
        """It need not be reported, but the last event before the driver's next act must not claim
        another state."""
        blind = Finding("blind", self._play, actor.name, change, "", 0.0, _state(entry).blind)
        events = [event for event in self._about(entry.who) if event.at <= until]
        claim = claim_of(events[-1]) if events else None
        if claim in (None, ALIVE, _state(entry).status) or not _state(entry).blind:
            return blind
        return blind._replace(kind="unfounded", said=str(claim), reason=events[-1].reason)

    def _delay(self, entry: Entry, began: float, until: float) -> float | None:
        """Seconds until the last event had this status; 0: it already had. None: it never did.
        `began`: when the state before it began, which may be missing from the stream."""
        status = _state(entry).status
        events = [
            (one.at, one.type.removeprefix("session.") == status) for one in self._about(entry.who)
        ]
        last = [one for one in events if one[0] <= entry.at][-1:]
        already = [at for at, same in last if same]
        later = [at for at, same in events if entry.at < at < until and same]
        if later and not any(at >= began for at in already):
            return later[0] - entry.at
        return 0.0 if already else None

    def _about(self, who: Who) -> Sequence[StreamEvent]:
        """The events about its id, and about its process before that had an id. If the driver does not
        know the id, all events of its process."""
        address = who.process.address if who.process is not None else None
        subjects = {who.session_id, address} - {None}
        if who.session_id is None:
            subjects |= {event.subject for event in self._events if event.process == address}
        states = [event for event in self._events if event.type not in _BEGINNINGS]
        mine = [event for event in states if event.subject in subjects]
        has_id = any(event.subject == who.session_id and event.process == address for event in mine)
        ends = {e.seq for e in mine if e.subject == address and e.type == "session.stopped"}
        return [event for event in mine if not (has_id and event.seq in ends)]


_BEGINNINGS = ("session.started", "session.identified")


def claim_of(event: StreamEvent) -> str | None:
    """The status that it claims. None: it makes no claim."""
    status = event.type.removeprefix("session.")
    if status == "unknown":
        return None
    nameless = status == "running" and event.activity == "unknown"
    return ALIVE if event.type in _BEGINNINGS or nameless else status


def _repeated(events: Iterable[StreamEvent]) -> Iterator[int]:
    """The numbers of the events that repeat a start or an end."""
    living: dict[str | None, bool] = {}
    for event in events:
        if event.type == "session.identified":
            living[event.process] = False
            living[event.subject] = True
        elif event.type == "events.gap" and event.reason == ANOTHER:
            living[event.subject] = False  # the end of its process was not seen
        elif event.type in ("session.started", "session.stopped"):
            begins = event.type == "session.started"
            if living.get(event.subject, not begins) == begins:
                yield event.seq
            living[event.subject] = begins


def _agrees(event: StreamEvent, step: Step) -> bool:
    """Compares also what it waits for and how it ended, where both sides say so."""
    if step.now is None or event.type not in ("session.waiting", "session.stopped"):
        return True
    if event.type == "session.waiting":
        return step.now.waiting_for in (None, event.waiting_for)
    return event.outcome in (None, "unknown") or step.now.outcome in (None, event.outcome)


def _detail(steps: Sequence[Step]) -> str:
    states = [step.now for step in steps if step.now is not None]
    return " or ".join(sorted({f"{now.status}: {now.waiting_for or now.outcome}" for now in states}))


def _state(entry: Entry) -> State:
    assert entry.now is not None
    return entry.now
