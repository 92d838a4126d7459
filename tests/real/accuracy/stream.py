"""Holds what the daemon told against the driver's truth. Pure: events and histories in, findings out.

- A declared state is *told* when it is the last word on its session; how long that took counts from the
  moment that the driver knew. It is *untold* if something else was done before.
- *Wrong*: another status, told while the truth was settled; `unknown` apart. *Wrong stopped*: told of a
  session whose process still had a tenth of a second to live, or more.
- What happened while nobody watched (a play kills the daemon) is not counted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from agentctl.control.observer import AWAY
from agentctl.truth import clock
from agentctl.truth.event import Event
from tests.real.accuracy.score import Finding
from tests.real.accuracy.timeline import SETTLED_AFTER, Actor, Entry
from tests.real.book import Who
from tests.real.listening import STATUSES, process_of

HEARD_OF = 0.1  # seconds: when we hear of an end depends on when we get to run again


class Ear:
    """Scores the stream of one play."""

    def __init__(self, play: str, actors: Mapping[str, Actor], events: Sequence[Event]) -> None:
        self._play, self._actors, self._events = play, actors, events
        self._away = [_span(e) for e in events if _is_gap(e) and e.body["data"]["reason"] == AWAY]

    def findings(self) -> list[Finding]:
        found = [finding for actor in self._actors.values() for finding in self._of(actor)]
        for event in self._events:
            if _is_gap(event) and event.subject is not None:
                reason = str(event.body["data"]["reason"])
                found.append(Finding("gap", self._play, event.subject, "", "", 0.0, reason=reason))
        return found

    def _of(self, actor: Actor) -> Iterator[Finding]:
        previous = "start"
        for entry, _, until in actor.spells():
            assert entry.now is not None
            change, previous = f"{previous} → {entry.now.status}", entry.now.status
            words = [(e.seen_at, e.type.removeprefix("session.")) for e in self._about(entry.who)]
            if entry.now.blind or any(began <= entry.at <= ended for began, ended in self._away):
                continue
            if entry.now.status == "stopped" and entry.who.session_id is None:
                continue
            after = _told_after(words, entry, until)
            kind = "untold" if after is None else "told"
            yield Finding(kind, self._play, actor.name, change, "", after or 0.0)
            yield from self._wrong(actor, words, entry, until)

    def _wrong(
        self, actor: Actor, words: Iterable[tuple[float, str]], entry: Entry, until: float
    ) -> Iterator[Finding]:
        assert entry.now is not None
        truth = entry.now.status
        if truth == "stopped" and self._goes_on(actor):
            return
        for seen_at, said in words:
            if not entry.at <= seen_at < until or said == truth:
                continue
            after, alive = seen_at - entry.at, seen_at + HEARD_OF < (actor.died_at or float("inf"))
            if said == "stopped" and alive:
                yield Finding("wrong-stopped", self._play, actor.name, truth, said, after)
            elif after >= SETTLED_AFTER and (alive or truth == "stopped"):
                kind = "unknown" if said == "unknown" else "wrong"
                yield Finding(kind, self._play, actor.name, truth, said, after)

    def _goes_on(self, actor: Actor) -> bool:
        """Whether another has its session later: resumed, or respawned."""
        mine = {entry.who.session_id for entry in actor.entries} - {None}
        others = [other for other in self._actors.values() if other is not actor]
        return any(mine & {entry.who.session_id for entry in other.entries} for other in others)

    def _about(self, who: Who) -> list[Event]:
        """By its id, and by its process while that had none; where the driver knows no id either,
        whatever its process ran."""
        address = who.process.address if who.process is not None else None
        subjects = {who.session_id, address} - {None}
        if who.session_id is None:
            subjects |= {e.subject for e in self._events if process_of(e) == address}
        told = [e for e in self._events if e.type.removeprefix("session.") in STATUSES]
        mine = [e for e in told if e.subject in subjects]
        named = any(e.subject == who.session_id for e in mine)
        ended = {e.seq for e in mine if e.subject == address and e.type == "session.stopped"}
        return [e for e in mine if not (named and e.seq in ended)]


def _told_after(words: Sequence[tuple[float, str]], entry: Entry, until: float) -> float | None:
    """Seconds until it was the last word; none at all, if it was already."""
    assert entry.now is not None
    before = [said for seen_at, said in words if seen_at <= entry.at]
    if before and before[-1] == entry.now.status:
        return 0.0
    later = [at for at, said in words if entry.at < at < until and said == entry.now.status]
    return later[0] - entry.at if later else None


def _is_gap(event: Event) -> bool:
    return event.type == "events.gap"


def _span(event: Event) -> tuple[float, float]:
    data = event.body["data"]
    return clock.parse(data["from"]) or 0.0, clock.parse(data["to"]) or 0.0
