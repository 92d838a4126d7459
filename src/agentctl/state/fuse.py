"""A fuse, and whether it is due.

Two clocks. The boot clock goes on while the machine sleeps, and nobody can set it: within one boot it
alone decides. It begins anew at each boot; a fuse that was lit before that is due by the time of day.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, NamedTuple

from agentctl.system import proc
from agentctl.system.identity import ProcessIdentity

BURNING, FIRING, FIRED, FAILED, CANCELLED = "burning", "firing", "fired", "failed", "cancelled"
LIT = (BURNING, FIRING)  # not settled


class Moment(NamedTuple):
    """One moment, by both clocks."""

    boot: str
    elapsed: float  # seconds since the boot, sleep included
    at: float  # the time of day


def now() -> Moment:
    return Moment(proc.boot_id(), time.clock_gettime(time.CLOCK_BOOTTIME), time.time())


class Claim(NamedTuple):
    """Who fires a fuse."""

    identity: ProcessIdentity
    namespace: str | None  # of pids, that the identity belongs to

    @property
    def foreign(self) -> bool:
        return proc.elsewhere(self.identity, self.namespace)

    @property
    def may_live(self) -> bool:
        """Unless its process is proven gone: one that we cannot see from here may live."""
        process = proc.current(self.identity)
        return self.foreign or (process is not None and process.alive)


class Action(NamedTuple):
    do: str  # run, stop, emit, webhook
    what: str = ""  # the command, the name, the address or name of a webhook; a stop has none

    @property
    def by_name(self) -> bool:
        """A webhook of the settings, rather than an address: no name has one of these."""
        return ":" not in self.what and "/" not in self.what

    def shown(self) -> dict[str, str]:
        """As it may be told to others: an address may hold a password."""
        if self.do != "webhook":
            return {"do": self.do, **({"what": self.what} if self.what else {})}
        if self.by_name:
            return {"do": self.do, "what": self.what}
        from agentctl.urls import shown

        return {"do": self.do, "what": shown(self.what)}


class Fuse(NamedTuple):
    id: str
    directory: str | None  # one of these is what it is on
    adapter: str | None
    session_id: str | None
    launch_id: str | None  # it is that launch's timeout
    label: str | None
    actions: tuple[Action, ...]
    created_at: float
    boot: str
    due_elapsed: float
    due_at: float
    state: str
    claimed_at: float | None = None
    claim: Claim | None = None
    settled_at: float | None = None
    results: tuple[Mapping[str, Any] | None, ...] = ()  # of each action; None: not confirmed
    reason: str | None = None  # why it was cancelled
    cwd: str | None = None  # where its command runs; None: in a folder of its own
    agent: Claim | None = None  # of a timeout: the process that it ends; None: the launch is forgotten
    group: str | None = None

    def left(self, moment: Moment) -> float:
        """Seconds until it is due; less than none: it is overdue."""
        if self.boot == moment.boot:
            return self.due_elapsed - moment.elapsed
        return self.due_at - moment.at

    @property
    def moot(self) -> bool:
        """A timeout whose agent has ended."""
        return self.launch_id is not None and (self.agent is None or not self.agent.may_live)

    @property
    def abandoned(self) -> bool:
        """Whoever fired it died before all was confirmed."""
        return self.state == FIRING and (self.claim is None or not self.claim.may_live)

    @property
    def on(self) -> str:
        """What it is on, for people."""
        if self.directory is not None:
            return self.directory
        return f"session {self.session_id}" if self.session_id else f"launch {self.launch_id}"
