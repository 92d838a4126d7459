"""When a person need not be told: it is too long ago, not so any more, or told already; and when not
yet, because they are there.

Only what the kernel or the journal says counts; where neither does, the person is told.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from agentctl.durations import age
from agentctl.errors import SourceError
from agentctl.state import waits
from agentctl.system import proc, tty
from agentctl.system.identity import ProcessIdentity
from agentctl.truth.event import Event

LATE = 600.0  # seconds: after a night's sleep, nobody wants to be told of the evening
ABSENT = 60.0  # seconds without a key pressed at its terminal, and nobody is there
THERE = "you are there"


def reason(path: str, target: str, event: Event, now: float) -> str | None:
    """None: tell them. Raises SourceError where the journal cannot be read."""
    moment = event.seen_at
    if event.type == "session.stopped" and event.at is not None:
        moment = event.at  # one that waits still did when it was seen; when it ended is what counts
    if now - moment > LATE:
        return f"too late: {age(now - moment)} ago"
    if event.type != "session.waiting" or event.seq is None:
        return None
    later = waits.since(path, event)
    if later is not None:
        return f"it has gone on: {later}" if later != "session.waiting" else "it waits anew"
    return "told already" if waits.told(path, target, event) else None


def there(event: Event, now: float) -> bool:
    """Whether somebody sits before it, as its terminal tells."""
    identity = owner(event.body)
    if identity is None:
        return False
    try:
        typed = tty.typed_at(identity)
    except SourceError:  # it has ended meanwhile, or is another user's
        return False
    return typed is not None and now - typed < ABSENT


def owner(body: Mapping[str, Any]) -> ProcessIdentity | None:
    """The process that the kernel said runs it; by its address, never by its pid alone."""
    pieces: Iterable[Mapping[str, Any]] = (
        *(body.get("evidence") or ()),
        *((body.get("session") or {}).get("evidence") or ()),
    )
    for piece in pieces:
        address = str(piece.get("address"))
        pid, _, start = address.removeprefix("proc:").partition("@")
        if piece.get("claim") == "alive" and pid.isdigit() and start.isdigit():
            return ProcessIdentity(proc.boot_id(), int(pid), int(start))
    return None
