"""What the driver did, and when. The soak's events, exits and deliveries are compared with this.

All moments are of the monotonic clock, which a step of the wall clock does not move.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from typing import Any


@dataclass
class State:
    """A status that an agent was put into, and kept in."""

    status: str
    since: float
    until: float


@dataclass
class Run:
    """One process that runs a session."""

    adapter: str
    began: float
    session: str | None = None
    process: str | None = None  # its address; None: the driver did not start it itself
    ready: float | None = None
    ending: float | None = None  # it surely lived until then
    gone_by: float | None = None  # it surely had ended by then
    code: int | None = None  # minus the signal; None: not known to the driver
    outcomes: frozenset[str] = frozenset()  # any of these is right
    launch: str | None = None
    states: list[State] = field(default_factory=list)

    def lives(self, since: float) -> bool:
        """Whether it lives now, and was ready before that moment."""
        was_ready = self.ready is not None and self.ready < since
        return was_ready and (self.ending is None or now() < self.ending)


@dataclass
class Launch:
    cwd: str
    called: float
    returned: float = 0.0
    id: str | None = None  # None: agentctl made no launch
    exit: int | None = None  # of the verb
    message: str = ""
    run: Run | None = None
    expires: bool = False
    expected: str = "started"  # failed: the agent dies at once; refused: the directory is locked


@dataclass
class Fuse:
    directory: str
    id: str
    does: str  # run, emit, cancel, launch (which cancels it)
    settled: bool = False


@dataclass
class Lock:
    directory: str
    how: str  # released, expired


@dataclass
class Watch:
    """The life of one daemon."""

    pid: int
    began: float
    ready: float | None = None
    killed: float | None = None


@dataclass
class Book:
    runs: list[Run] = field(default_factory=list)
    launches: list[Launch] = field(default_factory=list)
    fuses: list[Fuse] = field(default_factory=list)
    locks: list[Lock] = field(default_factory=list)
    watches: list[Watch] = field(default_factory=list)
    full: list[tuple[float, float]] = field(default_factory=list)  # when the disk was full
    steps: list[tuple[float, float]] = field(default_factory=list)  # of the clock: when, to what
    refused: list[str] = field(default_factory=list)  # verbs that failed for one of the troubles
    wrong: list[str] = field(
        default_factory=list
    )  # complaints of the driver itself, made while it plays
    mutex: threading.Lock = field(default_factory=threading.Lock)

    def note(self, kind: str, entry: Any) -> Any:
        with self.mutex:
            getattr(self, kind).append(entry)
        return entry

    def runs_of(self, session: str) -> list[Run]:
        with self.mutex:
            return [run for run in self.runs if run.session == session]

    def disk_was_full(self, since: float, until: float, margin: float = 0.0) -> bool:
        with self.mutex:
            return any(a - margin < until and b + margin > since for a, b in self.full)

    def was_watched(self, since: float, until: float) -> bool:
        """Whether one daemon watched through all of that, on a disk that was not full."""
        with self.mutex:
            has_daemon = any(
                w.ready is not None and w.ready <= since and (w.killed is None or w.killed >= until)
                for w in self.watches
            )
        return has_daemon and not self.disk_was_full(since, until, margin=3.0)

    def was_clock_set(self, since: float, until: float = float("inf")) -> bool:
        """Whether the clock was set meanwhile."""
        with self.mutex:
            return any(since <= at <= until for at, _ in self.steps)

    def can_look(self, since: float, until: float, *, surely: bool) -> bool:
        """Whether a daemon was there for some of that time; surely, if it was ready."""
        with self.mutex:
            return any(
                (w.ready or until if surely else w.began) < until
                and (w.killed is None or w.killed > since)
                for w in self.watches
            )


def now() -> float:
    return time.monotonic()
