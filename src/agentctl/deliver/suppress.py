"""When a notification is dropped: its event is too old, is over, or was sent already. And when it waits:
the user is at the terminal.

Only the kernel and the journal count as proof. Without proof the notification is sent.
"""

from __future__ import annotations

from agentctl.durations import format_age
from agentctl.errors import SourceError
from agentctl.light_typing import Any, Iterable, Mapping
from agentctl.state import outbox
from agentctl.system import proc, tty
from agentctl.system.proc import ProcessIdentity
from agentctl.truth.event import Event

LATE = 600.0  # seconds: a laptop that wakes up sends nothing about the evening before
ABSENT = 60.0  # seconds without a key pressed at the terminal of the session: the user is away
THERE = "you are there"


def drop_reason(path: str, target: str, event: Event, now: float) -> str | None:
    """Return why the notification is not sent; None: send it. Raises SourceError if the journal cannot be
    read."""
    moment = event.seen_at  # a session that waits still waited then
    if event.type == "session.stopped" and event.at is not None:
        moment = event.at
    if now - moment > LATE:
        return f"too late: {format_age(now - moment)} ago"
    if event.type != "session.waiting" or event.seq is None:
        return None
    later = outbox.find_later_type(path, event)
    if later is not None:
        return f"it has gone on: {later}" if later != "session.waiting" else "it waits again"
    return "sent already" if outbox.has_notified(path, target, event) else None


def is_user_present(event: Event, now: float) -> bool:
    """Return True if a key was pressed just now at the terminal of the session."""
    identity = event_owner(event.body)
    if identity is None:
        return False
    try:
        typed = tty.read_typed_at(identity)
    except SourceError:  # the process has ended meanwhile, or is another user's
        return False
    return typed is not None and now - typed < ABSENT


def event_owner(body: Mapping[str, Any]) -> ProcessIdentity | None:
    """Return the process that runs the session, by the kernel's word and with its start time."""
    pieces: Iterable[Mapping[str, Any]] = (
        *(body.get("evidence") or ()),
        *((body.get("session") or {}).get("evidence") or ()),
    )
    for piece in pieces:
        address = str(piece.get("address"))
        pid, _, start = address.removeprefix("proc:").partition("@")
        if piece.get("claim") == "alive" and pid.isdigit() and start.isdigit():
            return ProcessIdentity(proc.read_boot_id(), int(pid), int(start))
    return None
