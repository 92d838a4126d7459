"""The driver's truth as the benchmark keeps it: per actor, what was true from when to when.

A moment is *moving* from something done to an actor until the driver knows what came of it; then what is
true is *settling* for half a second, and *settled* until something is done again.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Literal, NamedTuple

from agentctl.errors import Gone
from agentctl.system.identity import ProcessIdentity
from agentctl.system.pidfd import Handle
from tests.real.book import Told, Who

SETTLED_AFTER = 0.5  # seconds
HOLD = 1.6  # seconds that a declared state is kept up, for the samplers

Phase = Literal["moving", "settling", "settled"]


class Entry(NamedTuple):
    at: float
    who: Who
    now: Told | None  # None: moving


class Moment(NamedTuple):
    """What was true of an actor while a question was asked and answered."""

    phase: Phase
    now: Told | None  # what the driver knows, where it was not moving
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

    def during(self, asked: float, answered: float) -> Moment | None:
        """None: the actor was not there yet when the question was asked."""
        before = [entry for entry in self.entries if entry.at <= asked]
        within = [entry for entry in self.entries if asked < entry.at <= answered]
        if not before:
            return None
        last = before[-1]
        who = (within[-1] if within else last).who
        if within or last.now is None:
            return Moment("moving", None, who)
        settled = asked - last.at >= SETTLED_AFTER
        return Moment("settled" if settled else "settling", last.now, who)

    def has_it(self, moment: float) -> bool:
        """Whether the session is its process's own: not before the driver knew of it (one that resumes
        has to load it first), and not once its process goes on without it (`/clear`)."""
        told = [entry for entry in self.entries if entry.now is not None]
        before = [entry for entry in told if entry.at < moment][-1:]
        coming = [entry for entry in told if entry.at >= moment][:1]
        return bool(before) and not any(
            entry.now is not None
            and entry.now.status == "stopped"
            and (self.died_at is None or entry.at < self.died_at)
            for entry in (*before, *coming)
        )

    def spells(self) -> list[tuple[Entry, float, float]]:
        """Each declared state with the moment its cause was set, and the moment something was done
        again (for ever, for the last). A state declared twice in a row is one."""
        found: list[tuple[Entry, float, float]] = []
        cause, previous = 0.0, ""
        for number, entry in enumerate(self.entries):
            if entry.now is None:
                cause = entry.at if cause == 0.0 else cause
                continue
            after = [later.at for later in self.entries[number + 1 :]]
            if entry.now.status != previous:
                found.append((entry, cause or entry.at, after[0] if after else float("inf")))
            cause, previous = 0.0, entry.now.status
        return found


Census = dict[str, bool]  # by actor, whether the kernel has its process; not in it: not on stage yet


class Timeline:
    """A `Watcher` that believes the driver and keeps each state up for a while."""

    def __init__(self, poke: Callable[[], None] = lambda: None, hold: float = HOLD) -> None:
        self.actors: dict[str, Actor] = {}
        self._poke, self._hold = poke, hold
        self._lock = threading.Lock()

    def unsettled(self, who: Who, at: float) -> None:
        self._add(Entry(at, who, None))

    def told(self, who: Who, now: Told, since: float) -> None:
        self._add(Entry(since, who, now))
        self._poke()
        time.sleep(
            self._hold
        )  # not for a condition: this is how long the state is shown to the samplers

    def ended(self, who: Who, at: float) -> None:
        with self._lock:
            self._actor(who.name).died_at = at
        self._poke()

    def census(self) -> Census:
        """The kernel's word, now. (When we hear of an end depends on when we get to run again.)"""
        with self._lock:
            known = {
                name: actor.entries[-1].who.process
                for name, actor in self.actors.items()
                if actor.entries
            }
        return {name: _lives(process) for name, process in known.items() if process is not None}

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
