"""The driver's truth as the benchmark keeps it: per actor, what was true from when to when.

A moment is *moving* from an act on an actor until the driver knows the result; then the state is
*settling* for half a second, and *settled* until the next act.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Literal, NamedTuple

from agentctl.errors import Gone
from agentctl.system.pidfd import Handle
from agentctl.system.proc import ProcessIdentity
from tests.real.book import State, Who

SETTLED_AFTER = 0.5  # seconds
HOLD = 1.6  # seconds that a declared state is kept up, for the samplers

Phase = Literal["moving", "settling", "settled"]


class Entry(NamedTuple):
    at: float
    who: Who
    now: State | None  # None: moving


class Moment(NamedTuple):
    """What was true of an actor while a question was asked and answered."""

    phase: Phase
    now: State | None  # None: it was moving
    who: Who


class Actor:
    """The history of one."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.entries: list[Entry] = []
        self.died_at: float | None = None

    @property
    def process(self) -> ProcessIdentity | None:
        """As last known."""
        return next((e.who.process for e in reversed(self.entries) if e.who.process), None)

    def during(self, asked_at: float, answered_at: float) -> Moment | None:
        """None: the actor was not there yet when the question was asked."""
        before = [entry for entry in self.entries if entry.at <= asked_at]
        within = [entry for entry in self.entries if asked_at < entry.at <= answered_at]
        if not before:
            return None
        last = before[-1]
        who = (within[-1] if within else last).who
        if within or last.now is None:
            return Moment("moving", None, who)
        settled = asked_at - last.at >= SETTLED_AFTER
        return Moment("settled" if settled else "settling", last.now, who)

    def has_it(self, moment: float) -> bool:
        """Whether the session is its process's own: not before the driver knew of it (one that resumes
        has to load it first), and not once its process goes on without it (`/clear`)."""
        declared = [entry for entry in self.entries if entry.now is not None]
        before = [entry for entry in declared if entry.at < moment][-1:]
        coming = [entry for entry in declared if entry.at >= moment][:1]
        return bool(before) and not any(
            entry.now is not None
            and entry.now.status == "stopped"
            and (self.died_at is None or entry.at < self.died_at)
            for entry in (*before, *coming)
        )

    def spells(self) -> list[tuple[Entry, float, float]]:
        """Each declared state with the moment its cause was set, and the moment of the next act (for
        ever, for the last). A state declared twice in a row is one."""
        spells: list[tuple[Entry, float, float]] = []
        cause, previous = 0.0, ""
        for number, entry in enumerate(self.entries):
            if entry.now is None:
                cause = entry.at if cause == 0.0 else cause
                continue
            after = [later.at for later in self.entries[number + 1 :]]
            if entry.now.status != previous:
                spells.append((entry, cause or entry.at, after[0] if after else float("inf")))
            cause, previous = 0.0, entry.now.status
        return spells


Census = dict[str, bool]  # by actor, whether the kernel has its process; not in it: not begun yet


class Timeline:
    """A `Watcher` that believes the driver and keeps each state up for a while."""

    def __init__(self, poke: Callable[[], None] = lambda: None, hold: float = HOLD) -> None:
        self.actors: dict[str, Actor] = {}
        self._poke, self._hold = poke, hold
        self._lock = threading.Lock()

    def unsettled(self, who: Who, at: float) -> None:
        self._add(Entry(at, who, None))

    def declare(self, who: Who, now: State, since: float) -> None:
        self._add(Entry(since, who, now))
        self._poke()
        time.sleep(self._hold)  # not for a condition: this is how long the samplers see the state

    def record_end(self, who: Who, at: float) -> None:
        with self._lock:
            self._actor(who.name).died_at = at
        self._poke()

    def census(self) -> Census:
        """Ask the kernel now. (When `record_end` is called depends on when our thread runs again.)"""
        with self._lock:
            processes = {
                name: actor.entries[-1].who.process
                for name, actor in self.actors.items()
                if actor.entries
            }
        return {name: _lives(process) for name, process in processes.items() if process is not None}

    def _add(self, entry: Entry) -> None:
        with self._lock:
            history = self._actor(entry.who.name).entries
            history.append(entry)
            history.sort(key=lambda one: one.at)

    def _actor(self, name: str) -> Actor:
        return self.actors.setdefault(name, Actor(name))


def _lives(identity: ProcessIdentity) -> bool:
    """By its handle, which tells when the last of its threads has ended."""
    try:
        with Handle(identity) as handle:
            return not handle.wait(0)
    except Gone:
        return False
