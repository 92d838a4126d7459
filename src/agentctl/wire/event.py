"""An event as JSON: one line, versioned. docs/reference/json.md is generated from the tables here."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from agentctl.system.clock import rfc3339
from agentctl.truth import event_types
from agentctl.truth.event import Event
from agentctl.truth.model import Session
from agentctl.wire import session as shapes

VERSION = 1
PROMPT = 200  # characters
EVENT_FIELDS: tuple[tuple[str, str, str], ...] = (
    ("version", "integer", "of this shape"),
    ("seq", "integer | null", "its number in the journal, rising, never used twice; null: there is no journal (no daemon)"),
    ("type", "string", "what happened, see below"),
    ("at", "time | null", "when it became true at the source; null: no source tells"),
    ("seen_at", "time", "when we saw it"),
    ("adapter", "string | null", "which agent"),
    ("subject", "string | null", "the session's id; of a process without a session its address; of a lock or a fuse the directory"),
    ("group", "string | null", "of the launch"),
    ("session", "object | null", "the session as in list, at that moment, of its prompt the first 200 characters; null: not about one, or not looked at"),
    ("evidence", "array", "the facts that moved it, as in list"),
    ("data", "object", "what else is to be said, by type"),
)  # fmt: skip
TYPES = tuple(event_types.TYPES.items())


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
    """Of an event about a session: as in list, with what its status rests on. Of the prompt, which is the
    same each time, only the beginning."""
    told = shapes.session(session)
    told["prompt"] = told["prompt"] and told["prompt"][:PROMPT]
    return {
        "session": told,
        "evidence": [shapes.evidence(piece, decided=True) for piece in session.verdict.used],
        "data": data,
    }
