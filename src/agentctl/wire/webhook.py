"""What a webhook is sent: flat, so that a receiver needs one look. docs/webhooks.md tells of it;
its table in docs/reference/json.md is generated from the one here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agentctl.system.clock import parse, rfc3339
from agentctl.truth.event import Event
from agentctl.wire.session import HOST
from agentctl.wire.summary import sentence

VERSION = 1
TEST = "webhook.test"

PAYLOAD_FIELDS: tuple[tuple[str, str, str], ...] = (
    ("version", "integer", "of this shape; fields are added, never renamed or removed within one"),
    ("hook_type", "string", "the type of the event: session.stopped, fuse.fired, …; or webhook.test"),
    ("delivery_id", "string", "of this delivery, the same for each try: drop what you have had"),
    ("seq", "integer | null", "the event's number in the journal of its host; null: a test"),
    ("timestamp", "time", "when it happened; where no source tells, when it was seen"),
    ("seen_at", "time", "when agentctl saw it"),
    ("summary", "string", "what happened, in one sentence for a person"),
    ("session_id", "string | null", "the agent's own session id"),
    ("adapter", "string | null", "which agent: claude-code, codex, …"),
    ("status", "string | null", "running, waiting, idle, stopped or unknown, at that moment"),
    ("waiting_for", "string | null", "permission, question or startup"),
    ("outcome", "string | null", "completed, failed, interrupted, killed or unknown; null while it lives"),
    ("exit_status", "integer | null", "exit code, or minus the signal; null: not known, or still alive"),
    ("duration_seconds", "number | null", "from the session's beginning to the event"),
    ("cwd", "string | null", "its directory; of a lock or a fuse, the one that it is on"),
    ("title", "string | null", "of the session, given by the person or the agent"),
    ("model", "string | null", "the model that answered last"),
    ("cost_usd", "number | null", "total, where the agent writes it"),
    ("pid", "integer | null", "the process that runs it, or ran it"),
    ("host", "string", "the machine it is on"),
    ("launch_id", "string | null", "of the launch, if agentctl made it"),
    ("name", "string | null", "given to the launch with --name"),
    ("group", "string | null", "given to the launch with --group"),
    ("meta", "object", "given to the launch with --meta"),
    ("evidence", "array", "what moved it: claim and address of each piece, the deciding ones first"),
    ("data", "object", "what only this type of event has: of a fuse its label and results, …"),
)  # fmt: skip


def webhook(event: Event, delivery_id: str) -> dict[str, Any]:
    """The same for each try of a delivery: nothing in it is of the moment of sending."""
    session: Mapping[str, Any] = event.body.get("session") or {}
    launch: Mapping[str, Any] = session.get("launch") or {}
    data: Mapping[str, Any] = event.body.get("data") or {}
    at = event.at if event.at is not None else event.seen_at
    made = {
        "version": VERSION,
        "hook_type": event.type,
        "delivery_id": delivery_id,
        "seq": event.seq,
        "timestamp": rfc3339(at),
        "seen_at": rfc3339(event.seen_at),
        "summary": "",
        "session_id": session.get("id") or _id(event, data),
        "adapter": event.adapter,
        **{name: session.get(name) for name in ("status", "waiting_for", "outcome")},
        "exit_status": _first(session.get("exit_code"), data.get("exit_code")),
        "duration_seconds": _duration(session, at),
        "cwd": session.get("cwd") or data.get("cwd") or data.get("directory"),
        **{name: session.get(name) for name in ("title", "model", "cost_usd")},
        "pid": _first(session.get("pid"), data.get("pid")),
        "host": session.get("host") or HOST,
        "launch_id": launch.get("id") or data.get("launch"),
        "name": launch.get("name") or data.get("name"),
        "group": event.group or launch.get("group"),
        "meta": launch.get("meta") or {},
        "evidence": [
            {"claim": piece.get("claim"), "address": piece.get("address")}
            for piece in event.body.get("evidence") or session.get("evidence") or ()
        ],
        "data": data,
    }
    made["summary"] = sentence(event.type, made, data)
    return made


def test_event(now: float) -> Event:
    return Event(TEST, now, now)


def _id(event: Event, data: Mapping[str, Any]) -> str | None:
    """Of a launch it is the subject; of a lock or a fuse, what is told of it."""
    if event.type.startswith(("session.", "lock.", "fuse.", "daemon.", "user.", "events.")):
        return data.get("session_id")
    return event.subject


def _first(*values: Any) -> Any:
    return next((value for value in values if value is not None), None)


def _duration(session: Mapping[str, Any], at: float) -> float | None:
    began = parse(session.get("started_at"))
    return round(max(0.0, at - began), 3) if began is not None else None
