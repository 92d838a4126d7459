"""An event as JSON: one line, versioned. docs/reference/json.md is generated from the tables here."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from agentctl.truth.clock import rfc3339
from agentctl.truth.event import Event
from agentctl.truth.model import Session
from agentctl.wire import shapes

VERSION = 1
EVENT_FIELDS: tuple[tuple[str, str, str], ...] = (
    ("version", "integer", "of this shape"),
    ("seq", "integer | null", "its number in the journal, rising, never used twice; null: there is no journal (no daemon)"),
    ("type", "string", "what happened, see below"),
    ("at", "time | null", "when it became true at the source; null: no source tells"),
    ("seen_at", "time", "when we saw it"),
    ("adapter", "string | null", "which agent"),
    ("subject", "string | null", "the session's id; of a process without a session its address; of a lock or a fuse the directory"),
    ("group", "string | null", "of the launch"),
    ("session", "object | null", "the session as in list, at that moment; null: not about one, or not looked at"),
    ("evidence", "array", "the facts that moved it, as in list"),
    ("data", "object", "what else is to be said, by type"),
)  # fmt: skip
TYPES: tuple[tuple[str, str], ...] = (
    ("session.started", "a process began to run it: a new session, or an old one resumed"),
    ("session.identified", "a process that had no session yet has one; data.was is its address"),
    ("session.running", "its turn is open, or nobody can tell what it is doing"),
    ("session.waiting", "it waits for a person"),
    ("session.idle", "its turn is over"),
    ("session.stopped", "its process is proven gone"),
    ("session.unknown", "nobody can tell, and session.reason says why"),
    ("launch.started", "agentctl started an agent"),
    ("launch.identified", "which session that became"),
    ("launch.ended", "its agent ended; data.exit_code, null where nobody knows"),
    ("launch.failed", "it never came to be a session; data.why"),
    ("launch.expired", "its --timeout was over, and it is being ended for that"),
    ("hook.succeeded", "a hook of a launch ran"),
    ("hook.failed", "a hook of a launch failed, or took too long"),
    ("lock.acquired", "a directory is held"),
    ("lock.released", "it is free again; data.why"),
    ("lock.expired", "it is free again: its time was over"),
    ("fuse.set", "a fuse burns"),
    ("fuse.extended", "it burns for longer"),
    ("fuse.cancelled", "it was put out; data.why"),
    ("fuse.fired", "it has burned down, and its actions are done; data.result"),
    ("fuse.failed", "it has burned down, and an action failed; data.result"),
    ("webhook.delivered", "a delivery was taken"),
    ("webhook.dead", "a delivery was given up"),
    ("notify.delivered", "a notification was handed over"),
    ("notify.failed", "a notification could not be handed over"),
    ("notify.quiet", "a notification was not needed: somebody is there, or it came too late"),
    ("events.gap", "what happened between data.from and data.to may not have been seen; data.reason"),
    ("daemon.started", "somebody watches from here on"),
    ("daemon.stopped", "nobody watches from here on"),
)  # fmt: skip


def event(given: Event) -> dict[str, Any]:
    return {
        "version": VERSION,
        "seq": given.seq,
        "type": given.type,
        "at": rfc3339(given.at),
        "seen_at": rfc3339(given.seen_at),
        "adapter": given.adapter,
        "subject": given.subject,
        "group": given.group,
        "session": given.body.get("session"),
        "evidence": given.body.get("evidence", []),
        "data": given.body.get("data", {}),
    }


def envelope(given: Iterable[Event]) -> dict[str, Any]:
    return {"version": VERSION, "events": [event(each) for each in given]}


def body(session: Session, **data: Any) -> dict[str, Any]:
    """Of an event about a session: as in list, with what its status rests on."""
    return {
        "session": shapes.session(session),
        "evidence": [shapes.evidence(piece, decided=True) for piece in session.verdict.used],
        "data": data,
    }
