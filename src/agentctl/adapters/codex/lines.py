"""What one line of a Codex rollout says.

Invariant: lines are told apart by their bytes and only the few that matter are parsed. That is safe
because an unescaped quote never occurs inside a JSON string: `"type":"task_started"` is structure,
whatever a prompt or a tool's output contains.
"""

from __future__ import annotations

from typing import Any

from agentctl.system import clock, jsonl
from agentctl.system.jsonl import as_dict, as_text
from agentctl.truth.model import EntryPoint, Message, Tokens


def message(offset: int, record: jsonl.Record) -> Message | None:
    """What a record says, if it is something said: the response items, which every version has."""
    payload = as_dict(record.get("payload"))
    if record.get("type") != "response_item":
        return None
    kind, at = payload.get("type"), clock.parse(record.get("timestamp"))
    if kind in ("function_call", "custom_tool_call"):
        given = as_text(payload.get("arguments")) or as_text(payload.get("input")) or ""
        return Message(str(offset), "tool", given, at, as_text(payload.get("name")))
    text = joined(payload.get("content"))
    if kind != "message" or not text:
        return None
    if payload.get("role") == "assistant":
        return Message(str(offset), "assistant", text, at)
    if payload.get("role") == "user" and typed(payload, text):
        return Message(str(offset), "user", text, at)
    return None


def words(raw: bytes) -> tuple[bytes, bytes]:
    """The record's type and, where it directly follows, its payload's."""
    start = raw.find(b'"type":"') + 8
    if start < 8:
        return b"", b""
    end = raw.find(b'"', start)
    inner = end + 21
    if raw[end + 1 : inner] != b',"payload":{"type":"':
        return raw[start:end], b""
    return raw[start:end], raw[inner : raw.find(b'"', inner)]


def field(raw: bytes, key: bytes) -> bytes | None:
    start = raw.find(key) + len(key)
    return raw[start : raw.find(b'"', start)] if start >= len(key) else None


def moment(raw: bytes) -> float | None:
    found = field(raw[:64], b'{"timestamp":"')
    return clock.parse(found.decode("ascii", "replace")) if found else None


def meta_of(raw: bytes) -> dict[str, Any]:
    """session_meta without the instructions, which are the bulk of it and of no use here."""
    before, cut, _ = raw.partition(b',"base_instructions":')
    return (payload_of(before + b"}}") if cut else {}) or payload_of(raw)


def payload_of(raw: bytes) -> dict[str, Any]:
    return as_dict((jsonl.parse(raw) or {}).get("payload"))


def said(payload: dict[str, Any]) -> str | None:
    return as_text(payload.get("message")) or joined(as_dict(payload.get("item")).get("content"))


def joined(content: Any) -> str | None:
    parts = content if isinstance(content, list) else ()
    return "\n".join(p["text"] for p in parts if isinstance(p, dict) and as_text(p.get("text"))) or None


def typed(payload: dict[str, Any], text: str) -> bool:
    """Whether a user-role text is a person's. Codex also says there what it wants the model to know."""
    kinds = as_dict(payload.get("internal_chat_message_metadata_passthrough")).get("content_item_kinds")
    if isinstance(kinds, list):
        return "user.text" in kinds
    return not text.lstrip().startswith(("<", "# AGENTS.md"))  # older versions do not tell


def tokens_of(payload: dict[str, Any]) -> Tokens | None:
    """Totals of the thread; `info` is null after a failed request."""
    total = as_dict(as_dict(payload.get("info")).get("total_token_usage"))
    if not total:
        return None
    names = ("input_tokens", "output_tokens", "cached_input_tokens", "cache_write_input_tokens")
    return Tokens(*(v if isinstance(v := total.get(name), int) else None for name in names))


def entry_point_of(meta: dict[str, Any]) -> EntryPoint | None:
    """How it was first started. `source` is "vscode" for every thread of a daemon: not telling."""
    if meta.get("originator") == "codex_exec" or meta.get("source") == "exec":
        return "headless"
    if meta.get("originator") == "codex-tui" or meta.get("source") == "cli":
        return "interactive"
    return None
