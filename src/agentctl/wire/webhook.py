"""The payload of a webhook: a flat JSON object and a summary for people. See docs/webhooks.md;
docs/reference/json.md is generated from the table here."""

from __future__ import annotations

from agentctl.light_typing import Any, Mapping
from agentctl.system.clock import format_rfc3339, parse_time
from agentctl.truth.event import Event
from agentctl.wire.session import HOST, Fields

VERSION = 1
TEST = "webhook.test"

PAYLOAD_FIELDS: Fields = (
    ("version", "integer", "of this object; fields are added, never renamed or removed within a version"),
    ("hook_type", "string", "the type of the event: session.stopped, fuse.fired, …; or webhook.test"),
    ("delivery_id", "string", "of this delivery, the same for each attempt: ignore one that you already have"),
    ("seq", "integer | null", "the event's number in the journal of its host; null: a test"),
    ("timestamp", "time", "when it happened; if no source says, when it was seen"),
    ("seen_at", "time", "when agentctl saw it"),
    ("summary", "string", "what happened, in one sentence for a person"),
    ("session_id", "string | null", "the agent's own session id"),
    ("adapter", "string | null", "which agent: claude-code, codex, …"),
    ("status", "string | null", "running, waiting, idle, stopped or unknown, at that moment"),
    ("waiting_for", "string | null", "permission, question or startup"),
    ("outcome", "string | null", "completed, failed, interrupted, killed or unknown; null while it lives"),
    ("exit_status", "integer | null", "exit code, or minus the signal; null: not payload, or still alive"),
    ("duration_seconds", "number | null", "from the start of the session to the event"),
    ("cwd", "string | null", "its directory; for a lock or a fuse, the directory that it is on"),
    ("title", "string | null", "of the session, set by the user or the agent"),
    ("model", "string | null", "the model that answered last"),
    ("cost_usd", "number | null", "total, if the agent records it"),
    ("pid", "integer | null", "the process that runs or ran it"),
    ("host", "string", "the machine it is on"),
    ("launch_id", "string | null", "of the launch, if agentctl launched it"),
    ("name", "string | null", "set with --name"),
    ("group", "string | null", "set with --group"),
    ("meta", "object", "set with --meta"),
    ("evidence", "array", "the facts that caused it: claim and address of each, the deciding ones first"),
    ("data", "object", "facts of this type of event: for a fuse its label and results, …"),
)  # fmt: skip


def make_payload(event: Event, delivery_id: str) -> dict[str, Any]:
    """Return the payload. It is the same for each attempt of a delivery."""
    session: Mapping[str, Any] = event.body.get("session") or {}
    launch: Mapping[str, Any] = session.get("launch") or {}
    data: Mapping[str, Any] = event.body.get("data") or {}
    at = event.at if event.at is not None else event.seen_at
    payload = {
        "version": VERSION,
        "hook_type": event.type,
        "delivery_id": delivery_id,
        "seq": event.seq,
        "timestamp": format_rfc3339(at),
        "seen_at": format_rfc3339(event.seen_at),
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
    payload["summary"] = summarize(event.type, payload, data)
    return payload


def test_event(now: float) -> Event:
    return Event(TEST, now, now)


def _id(event: Event, data: Mapping[str, Any]) -> str | None:
    """Return the session id of an event without a session: the subject of a launch, or in its data."""
    if event.type.startswith(("session.", "lock.", "fuse.", "daemon.", "user.", "events.")):
        return data.get("session_id")
    return event.subject


def _first(*values: Any) -> Any:
    return next((value for value in values if value is not None), None)


def _duration(session: Mapping[str, Any], at: float) -> float | None:
    started_at = parse_time(session.get("started_at"))
    return round(max(0.0, at - started_at), 3) if started_at is not None else None


LONGEST = 300  # characters: a summary is read on phones too
_OUTCOMES = {
    "completed": "has finished",
    "failed": "has failed",
    "interrupted": "was interrupted",
    "killed": "was killed",
}
_SESSIONS = {
    "session.started": "has started",
    "session.identified": "has begun a session",
    "session.running": "is working",
    "session.idle": "is idle: its turn is over",
    "session.unknown": "has an unknown status",
    "launch.started": "was launched",
    "launch.identified": "has begun a session",
    "launch.expired": "was stopped: its timeout was due",
    "hook.succeeded": "has run a hook",
}
_WAITS = {
    "permission": "needs your permission",
    "question": "has a question for you",
    "startup": "waits for you at startup",
}
_DIRECTORIES = {
    "lock.acquired": "was locked",
    "lock.released": "was released",
    "lock.expired": "is free: its lock has expired",
}
_FUSES = {
    "fuse.set": "was set",
    "fuse.extended": "was extended",
    "fuse.cancelled": "was cancelled",
    "fuse.fired": "has fired",
    "fuse.failed": "has fired, and an action failed",
}


def summarize(kind: str, payload: Mapping[str, Any], data: Mapping[str, Any]) -> str:
    """Return what happened as one line, for every type of event."""
    text = " ".join(_sentence(kind, payload, data).split())
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"


def _sentence(kind: str, payload: Mapping[str, Any], data: Mapping[str, Any]) -> str:
    who = _name_agent(payload)
    if kind == "session.waiting":
        return f"{who} {_WAITS.get(payload['waiting_for'], 'waits for you')}."
    if kind in ("session.stopped", "launch.ended"):
        return f"{who} {_describe_end(payload)}{_after(payload['duration_seconds'])}."
    if kind == "launch.failed":
        return f"{who} could not be launched{_because(data)}."
    if kind == "hook.failed":
        return f"{who}: its {_hook(data)} failed{_because(data)}."
    if kind in _SESSIONS:
        return f"{who} {_SESSIONS[kind]}."
    if kind in _DIRECTORIES:
        return f"{data.get('directory') or payload['cwd'] or 'A directory'} {_DIRECTORIES[kind]}."
    if kind in _FUSES:
        label, place = data.get("label"), data.get("directory") or payload["cwd"]
        name = f" {label!r}" if label else ""
        return f"The fuse{name}{f' on {place}' if place else ''} {_FUSES[kind]}."
    if kind == "webhook.test":
        return "This is a test: agentctl can reach you."
    return f"{kind}{f': {who}' if payload['adapter'] else ''}."


def _name_agent(payload: Mapping[str, Any]) -> str:
    name = payload["name"] or payload["title"]
    cwd = payload["cwd"]
    place = f" in {cwd.rstrip('/').rpartition('/')[2] or cwd}" if cwd else ""
    return f"{payload['adapter'] or 'An agent'}{place}{f' ({name})' if name else ''}"


def _describe_end(payload: Mapping[str, Any]) -> str:
    code = payload["exit_status"]
    how = _OUTCOMES.get(payload["outcome"] or "", "has ended")
    if code is None or (code == 0 and how == "has finished"):
        return how
    return f"{how} ({f'signal {-code}' if code < 0 else f'exit code {code}'})"


def _after(seconds: float | None) -> str:
    if seconds is None:
        return ""
    from agentctl.durations import format_age

    return f" after {format_age(seconds)}"


def _hook(data: Mapping[str, Any]) -> str:
    return f"hook {data['hook']}" if data.get("hook") else "hook"


def _because(data: Mapping[str, Any]) -> str:
    why = data.get("why")
    return f": {str(why).rstrip('.')}" if why else ""
