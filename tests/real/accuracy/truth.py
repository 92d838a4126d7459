"""What may be true at each moment, as far as the driver knows: events are scored against this.

A *line* is the history of one session, or of one process, as an ordered list of *steps*. A step is a
span of time and the statuses that may be true in it:

- A declared state is one step: from its moment until the driver's next act.
- A change is several steps, from the act until the driver knows the result, in this order: the state
  before; the turns that the requests to the model show; the state after. The driver does not know the
  moment of the change, but it does know that it happens once.
- `stopped` is possible only after the kernel ended the process.
- `waiting` is possible only beside a declared wait: a play that makes an agent ask declares it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from tests.real.accuracy.record import ModelRequest, Record
from tests.real.accuracy.timeline import Actor, Entry
from tests.real.book import State

ALIVE = "alive"  # the claim of an event without an activity: true in any state but stopped
LIVE = frozenset({"running", "waiting", "idle"})
ENDS_A_TURN = ("answered", "refused", "dropped", "left")
EVER = float("inf")


class Step(NamedTuple):
    start: float
    end: float
    may_be: frozenset[str]
    now: State | None = None  # the declaration, if there is one

    def allows(self, claim: str) -> bool:
        return bool(self.may_be & LIVE) if claim == ALIVE else claim in self.may_be


class Line(NamedTuple):
    name: str
    steps: tuple[Step, ...]

    def find(self, claim: str, since: float, until: float, first: int = 0) -> int | None:
        """The first step, from the given one on, that makes the claim true within this time."""
        for number, step in enumerate(self.steps[first:], first):
            if step.allows(claim) and step.start <= until and step.end >= since:
                return number
        return None

    def describe(self, moment: float) -> str:
        """What may be true at that moment, for people."""
        possible = [step for step in self.steps if step.start <= moment < step.end]
        return " → ".join(dict.fromkeys("/".join(sorted(step.may_be)) for step in possible))


class _Mark(NamedTuple):
    """An entry of the book and the actor it is about."""

    entry: Entry
    actor: Actor


class Truth:
    """All lines of one play."""

    def __init__(self, record: Record) -> None:
        self._record = record
        self._sessions: dict[str, Line] = {}
        self._owners: dict[str, set[str]] = {}  # session to the processes that ran it
        self._processes: dict[str, list[Line]] = {}
        for actor in record.actors.values():
            for session_id in _ids(actor):
                self._owners.setdefault(session_id, set())
        for session_id, owners in self._owners.items():
            marks = [m for actor in record.actors.values() for m in _of_session(actor, session_id)]
            owners |= {m.entry.who.process.address for m in marks if m.entry.who.process}
            self._sessions[session_id] = self._line(session_id, marks)
        for actor in record.actors.values():
            if actor.process is not None:
                line = self._line(actor.name, [_Mark(entry, actor) for entry in actor.entries])
                self._processes.setdefault(actor.process.address, []).append(line)

    def lines(self, subject: str | None, process: str | None) -> Sequence[Line]:
        """The lines that an event may be about. Empty: the driver did not start it."""
        if subject in self._sessions:
            return [self._sessions[subject]]
        return self._processes.get(subject or "") or self._processes.get(process or "") or []

    def is_anothers(self, subject: str | None, process: str | None) -> bool:
        """Whether this process is none of those that ran the session."""
        owners = self._owners.get(subject or "")
        return bool(owners) and process is not None and process not in (owners or ())

    def _line(self, name: str, marks: Sequence[_Mark]) -> Line:
        ordered = sorted(marks, key=lambda mark: mark.entry.at)
        actors = [mark.actor.name for mark in ordered]
        mine = {m for one in actors for m in self._record.marks.get(one, ())}
        requests = _Requests(self._record.requests, mine)
        # a client may start with the prompt of a session that its server runs, and makes without one
        declared = [mark.actor.name for mark in ordered if mark.entry.now is not None]
        at_prompt = (declared or actors)[0] not in self._record.headless
        return Line(name, tuple(_steps(ordered, requests, at_prompt=at_prompt)))


class _Requests:
    """The requests to the model that may belong to one line."""

    def __init__(self, requests: Sequence[ModelRequest], marks: set[str]) -> None:
        self._mine = [one for one in requests if marks.intersection(one.marks)]
        self._unmarked = [one for one in requests if not one.marks]

    def find_starts(self, start: float, end: float) -> list[float]:
        """When it asked the model: its own mark is in the request."""
        return [one.at for one in self._mine if one.kind == "asked" and start <= one.at < end]

    def count_unmarked(self, start: float, end: float) -> int:
        """How many requests have no mark, and may be its own: from a sub-agent, or a turn that began
        without a prompt."""
        return sum(1 for one in self._unmarked if one.kind == "asked" and start <= one.at < end)

    def has_end(self, start: float, end: float) -> bool:
        requests = (*self._mine, *self._unmarked)
        return any(one.kind in ENDS_A_TURN and start <= one.at < end for one in requests)


def _ids(actor: Actor) -> set[str]:
    return {entry.who.session_id for entry in actor.entries if entry.who.session_id is not None}


def _of_session(actor: Actor, session_id: str) -> Iterator[_Mark]:
    """The entries about this session; before its id was known, those that led to it."""
    for number, entry in enumerate(actor.entries):
        ids = (later.who.session_id for later in actor.entries[number:] if later.who.session_id)
        if next(ids, None) == session_id:
            yield _Mark(entry, actor)


def _steps(marks: Sequence[_Mark], requests: _Requests, *, at_prompt: bool) -> Iterator[Step]:
    """`at_prompt`: it started without a prompt, so it was idle before its first turn."""
    before: State | None = None
    began: float | None = -EVER  # the first act since the last declaration; None: there was none
    for mark, later in pairwise([*marks, None]):
        assert mark is not None
        entry, until = mark.entry, later.entry.at if later is not None else EVER
        if entry.now is None:
            began = entry.at if began is None else began
            if later is None:
                yield from _trailing(began, before, mark.actor)
            continue
        if began is not None:
            change = _Change(began, entry.at, before, mark, at_prompt)
            yield from change.steps(requests)
        yield Step(entry.at, until, frozenset({entry.now.status}), entry.now)
        if entry.now.status == "idle":
            yield from _early(entry, until, requests)
        before, began = entry.now, None


def _early(entry: Entry, until: float, requests: _Requests) -> Iterator[Step]:
    """It was declared idle and asks the model all the same: its client tries again after an error."""
    for at in requests.find_starts(entry.at, until):
        yield from _one(at, until, "running")
        yield Step(at, until, frozenset({"idle"}), entry.now)


def _trailing(began: float, before: State | None, actor: Actor) -> Iterator[Step]:
    """After an act whose result the driver did not declare."""
    died_at = actor.died_at if actor.died_at is not None else EVER
    if before is not None:
        yield Step(began, EVER, frozenset({before.status}), before)
    if died_at > began:
        yield Step(began, died_at, frozenset({"running", "idle"}))
    if died_at < EVER:
        yield Step(max(began, died_at), EVER, frozenset({"stopped"}))


class _Change(NamedTuple):
    """From an act until the driver knows the result."""

    start: float
    end: float
    before: State | None  # None: it starts with this change
    after: _Mark
    at_prompt: bool

    def steps(self, requests: _Requests) -> Iterator[Step]:
        """Cut at its requests to the model: the state before is possible until the first one, the state
        after only from the last one on."""
        starts = requests.find_starts(self.start, self.end)
        cuts = [self.start, *starts, self.end]
        for number, (start, end) in enumerate(pairwise(cuts)):
            first, last = number == 0, number == len(starts)
            yield from self._before(start, end) if first else _one(start, end, "running")
            for _ in range(requests.count_unmarked(start, end)):
                yield from _one(start, end, "idle")
                yield from _one(start, end, "running")
            if requests.has_end(start, end) or (last and self._ends_after_its_turn(starts)):
                yield from _one(start, end, "idle")
            yield from self._after(start, end) if last else _one(start, end, "running")

    def _before(self, start: float, end: float) -> Iterator[Step]:
        if self.before is None:
            if self.at_prompt:
                yield from _one(start, end, "idle")
            return
        yield Step(start, end, frozenset({self.before.status}), self.before)
        if self.before.status in LIVE:  # a typed command may be work without a request
            yield from _one(start, end, "running")

    def _ends_after_its_turn(self, starts: Sequence[float]) -> bool:
        """Its turn ends a moment before its process."""
        worked = bool(starts) or (self.before is not None and self.before.status in LIVE)
        return self._status == "stopped" and worked

    def _after(self, start: float, end: float) -> Iterator[Step]:
        entry, actor = self.after.entry, self.after.actor
        if self._status == "stopped" and entry.who.process is not None:
            start = max(start, actor.died_at if actor.died_at is not None else EVER)
        if start < end:
            yield Step(start, end, frozenset({self._status}), entry.now)

    @property
    def _status(self) -> str:
        assert self.after.entry.now is not None
        return self.after.entry.now.status


def _one(start: float, end: float, status: str) -> Iterator[Step]:
    yield Step(start, end, frozenset({status}))
