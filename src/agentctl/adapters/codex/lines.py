"""Read one line of a Codex rollout.

Invariant: lines are distinguished by their bytes, and only the few that matter are parsed. That is safe
because a JSON string never contains an unescaped quote: `"type":"task_started"` is structure, not part
of a prompt or of a tool's output.
"""

from __future__ import annotations

from agentctl.light_typing import Any
from agentctl.system import clock, jsonl
from agentctl.system.jsonl import as_dict, as_text
from agentctl.truth.model import EntryPoint, Message, Tokens


def to_message(offset: int, record: jsonl.Record) -> Message | None:
    """Return the message of a response item, which every version writes; None for other records."""
    payload = as_dict(record.get("payload"))
    if record.get("type") != "response_item":
        return None
    kind, at = payload.get("type"), clock.parse_time(record.get("timestamp"))
    if kind in ("function_call", "custom_tool_call"):
        arguments = as_text(payload.get("arguments")) or as_text(payload.get("input")) or ""
        return Message(str(offset), "tool", arguments, at, as_text(payload.get("name")))
    text = join_text(payload.get("content"))
    if kind != "message" or not text:
        return None
    if payload.get("role") == "assistant":
        return Message(str(offset), "assistant", text, at)
    if payload.get("role") == "user" and is_typed(payload, text):
        return Message(str(offset), "user", text, at)
    return None


def read_types(raw: bytes) -> tuple[bytes, bytes]:
    """Return the record's type and, if it directly follows, that of its payload."""
    start = raw.find(b'"type":"') + 8
    if start < 8:
        return b"", b""
    end = raw.find(b'"', start)
    inner = end + 21
    if raw[end + 1 : inner] != b',"payload":{"type":"':
        return raw[start:end], b""
    return raw[start:end], raw[inner : raw.find(b'"', inner)]


def read_field(raw: bytes, key: bytes) -> bytes | None:
    start = raw.find(key) + len(key)
    return raw[start : raw.find(b'"', start)] if start >= len(key) else None


def read_time(raw: bytes) -> float | None:
    stamp = read_field(raw[:64], b'{"timestamp":"')
    return clock.parse_time(stamp.decode("ascii", "replace")) if stamp else None


def read_meta(raw: bytes) -> dict[str, Any]:
    """Return the session_meta without the instructions, which are most of it and not needed."""
    head, is_cut, _ = raw.partition(b',"base_instructions":')
    return (read_payload(head + b"}}") if is_cut else {}) or read_payload(raw)


def read_payload(raw: bytes) -> dict[str, Any]:
    return as_dict((jsonl.parse_record(raw) or {}).get("payload"))


def read_event_text(payload: dict[str, Any]) -> str | None:
    return as_text(payload.get("message")) or join_text(as_dict(payload.get("item")).get("content"))


def join_text(content: Any) -> str | None:
    parts = content if isinstance(content, list) else ()
    return "\n".join(p["text"] for p in parts if isinstance(p, dict) and as_text(p.get("text"))) or None


def is_typed(payload: dict[str, Any], text: str) -> bool:
    """Return True if the user typed the text. Codex also adds texts for the model in this role."""
    kinds = as_dict(payload.get("internal_chat_message_metadata_passthrough")).get("content_item_kinds")
    if isinstance(kinds, list):
        return "user.text" in kinds
    return not text.lstrip().startswith(("<", "# AGENTS.md"))  # older versions do not say


def read_tokens(payload: dict[str, Any]) -> Tokens | None:
    """Return the totals of the thread; `info` is null after a failed request."""
    total = as_dict(as_dict(payload.get("info")).get("total_token_usage"))
    if not total:
        return None
    names = ("input_tokens", "output_tokens", "cached_input_tokens", "cache_write_input_tokens")
    return Tokens(*(v if isinstance(v := total.get(name), int) else None for name in names))


def read_entry_point(meta: dict[str, Any]) -> EntryPoint | None:
    """Return how the thread was first started. `source` is "vscode" for every thread of a daemon."""
    if meta.get("originator") == "codex_exec" or meta.get("source") == "exec":
        return "headless"
    if meta.get("originator") == "codex-tui" or meta.get("source") == "cli":
        return "interactive"
    return None
