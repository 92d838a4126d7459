"""The JSON of events. docs/reference/json.md is generated from the tables here."""

from __future__ import annotations

from agentctl.light_typing import Any, Iterable
from agentctl.system.clock import format_rfc3339
from agentctl.truth.event import TYPES as EVENT_TYPES
from agentctl.truth.event import Event
from agentctl.truth.model import Session
from agentctl.wire import session as shapes
from agentctl.wire.session import Fields

VERSION = 1
PROMPT = 200  # characters of the prompt, which is the same in each event of a session
EVENT_FIELDS: Fields = (
    ("version", "integer", "of this shape"),
    ("seq", "integer | null", "its number in the journal, rising and unique; null: no daemon records it"),
    ("type", "string", "what happened, see below"),
    ("at", "time | null", "when it became true at the source; null: no source says"),
    ("seen_at", "time", "when agentctl saw it"),
    ("adapter", "string | null", "which agent"),
    ("subject", "string | null", "the session id; the address of a process without a session; the directory of a lock or a fuse"),
    ("group", "string | null", "of the launch"),
    ("session", "object | null", "the session as in list, at that moment, with the first 200 characters of its prompt; null: not about a session, or not looked at"),
    ("evidence", "array", "the facts that caused it, as in list"),
    ("data", "object", "more facts, by type"),
)  # fmt: skip
TYPES = tuple(EVENT_TYPES.items())


def dump_event(source: Event) -> dict[str, Any]:
    return {
        "version": VERSION,
        "seq": source.seq,
        "type": source.type,
        "at": format_rfc3339(source.at),
        "seen_at": format_rfc3339(source.seen_at),
        "adapter": source.adapter,
        "subject": source.subject,
        "group": source.group,
        "session": source.body.get("session"),
        "evidence": source.body.get("evidence", []),
        "data": source.body.get("data", {}),
    }


def dump_events(events: Iterable[Event]) -> dict[str, Any]:
    return {"version": VERSION, "events": [dump_event(each) for each in events]}


def make_session_body(session: Session, **data: Any) -> dict[str, Any]:
    """Return the body of an event about a session: the session as in list, and the evidence that decided
    its status."""
    row = shapes.dump_session(shapes.wire_session(session))
    row["prompt"] = row["prompt"] and row["prompt"][:PROMPT]
    return {
        "session": row,
        "evidence": [shapes.dump_evidence(piece, decided=True) for piece in session.verdict.used],
        "data": data,
    }
