"""What a request asks, in any protocol: the text that scripts the answer, and how far its turn is."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

# Texts in the user's role that agents write themselves: context, reminders, news about their helpers.
AGENT_MADE = (
    "<task-notification>",
    "[Request interrupted by user",
    "<environment_context",
    "<user_instructions",
    "# AGENTS.md",
    "<permissions",
    "<turn_aborted",
    "<recommended_plugins",
    "<subagent_notification",
    "Continue from where you left off.",  # to a background job of Claude Code that was respawned
)
# Claude Code puts these beside what the user wrote, or alone.
REMINDER = re.compile(r"<system-reminder>.*?</system-reminder>", re.DOTALL)
# Where agents name the conversation in their headers.
CONVERSATION_HEADERS = ("x-claude-code-session-id", "session-id", "session_id", "x-session-affinity")


@dataclass(frozen=True, slots=True)
class Tool:
    name: str
    schema: Mapping[str, Any] = field(default_factory=dict)
    namespace: str = ""  # Codex groups some tools; a call must name the group
    freeform: bool = False  # Codex: takes a text, not JSON


@dataclass(frozen=True, slots=True)
class Item:
    """One piece of the conversation so far."""

    kind: Literal["user", "said", "called", "result"]
    text: str = ""


@dataclass(frozen=True, slots=True)
class Request:
    text: str  # the last real text of the user
    results: int  # tool results since then
    tools: Mapping[str, Tool]
    streaming: bool
    helper: bool  # a title or a summary that the agent wants for itself
    model: str
    conversation: str
    schema: Mapping[str, Any] | None = None  # the answer must be such JSON


def understood(
    items: Iterable[Item],
    tools: Iterable[Tool],
    body: Mapping[str, Any],
    headers: Mapping[str, str],
    *,
    schema: Mapping[str, Any] | None = None,
) -> Request:
    known = list(items)
    text, results = last_text(known)
    offered = {tool.name: tool for tool in tools}
    return Request(
        text=unquoted(text),
        results=results,
        tools=offered,
        streaming=body.get("stream") is True,
        helper=not offered,
        model=str(body.get("model") or ""),
        conversation=_conversation(known, body, headers),
        schema=schema,
    )


def last_text(items: list[Item]) -> tuple[str, int]:
    """The text that opened the turn, and how many tool results came after it.

    A text that an agent made itself opens a turn only when the user said nothing since the last answer:
    news of a sub-agent can arrive in the middle of a turn and must not lose its script.
    """
    turn = items[_turn_start(items) :]
    return _last(turn, real=True) or _last(turn, real=False) or ("", 0)


def agent_made(text: str) -> bool:
    """Not a word of the user's in it?"""
    rest = REMINDER.sub("", text).strip()
    return not rest or rest.startswith(AGENT_MADE)


def unquoted(text: str) -> str:
    """`opencode run` puts a message with blanks between quotes, and a backslash before those within."""
    stripped = text.strip()
    if len(stripped) > 1 and stripped[0] == stripped[-1] == '"':
        return stripped[1:-1].replace('\\"', '"')
    return text


def texts(content: Any) -> list[str]:
    """The texts in a message's content, which is one string or a list of parts."""
    if isinstance(content, str):
        return [content]
    parts = content if isinstance(content, list) else []
    found = (part.get("text") for part in parts if isinstance(part, dict))
    return [text for text in found if isinstance(text, str)]


def _turn_start(items: list[Item]) -> int:
    """After the last answer that called no tool, unless nothing follows it."""
    for at in range(len(items) - 2, -1, -1):
        if items[at].kind == "said" and items[at + 1].kind == "user":
            return at + 1
    return 0


def _last(items: list[Item], *, real: bool) -> tuple[str, int] | None:
    results = 0
    for item in reversed(items):
        if item.kind == "result":
            results += 1
        if item.kind == "user" and item.text.strip() and agent_made(item.text) != real:
            return (REMINDER.sub("", item.text).strip() if real else item.text), results
    return None


def _conversation(items: list[Item], body: Mapping[str, Any], headers: Mapping[str, str]) -> str:
    """Its name, where the agent tells it; or else the words it began with."""
    for header in CONVERSATION_HEADERS:
        if name := headers.get(header):
            return name
    if name := body.get("prompt_cache_key"):
        return str(name)
    return next((item.text for item in items if item.kind == "user" and not agent_made(item.text)), "")
