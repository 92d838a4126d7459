"""A request in any protocol: the text that scripts the answer, and how far its turn is."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, Literal

from agentctl.light_typing import Iterable, Mapping

# Texts that agents themselves write in the user's role: context, reminders, news about sub-agents.
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
# Claude Code adds these to the user's text, or sends them alone.
REMINDER = re.compile(r"<system-reminder>.*?</system-reminder>", re.DOTALL)
# The headers in which agents name the conversation.
CONVERSATION_HEADERS = ("x-claude-code-session-id", "session-id", "session_id", "x-session-affinity")


@dataclass(frozen=True, slots=True)
class Tool:
    name: str
    schema: Mapping[str, Any] = field(default_factory=dict)
    namespace: str = ""  # Codex groups some tools; a call must name the group
    freeform: bool = False  # of Codex: its argument is a text, not JSON


@dataclass(frozen=True, slots=True)
class Item:
    """One piece of the conversation."""

    kind: Literal["user", "answer", "call", "result"]
    text: str = ""


@dataclass(frozen=True, slots=True)
class Request:
    text: str  # the last real text of the user
    results: int  # tool results since then
    tools: Mapping[str, Tool]
    streaming: bool
    helper: bool  # the agent asks for a title or a summary, for itself
    model: str
    conversation: str
    schema: Mapping[str, Any] | None = None  # of the JSON that the answer must be


def make_request(
    items: Iterable[Item],
    tools: Iterable[Tool],
    body: Mapping[str, Any],
    headers: Mapping[str, str],
    *,
    schema: Mapping[str, Any] | None = None,
) -> Request:
    """Return the request that these parts make."""
    conversation = list(items)
    text, results = find_turn_text(conversation)
    offered = {tool.name: tool for tool in tools}
    return Request(
        text=unquote(text),
        results=results,
        tools=offered,
        streaming=body.get("stream") is True,
        helper=not offered,
        model=str(body.get("model") or ""),
        conversation=_name_conversation(conversation, body, headers),
        schema=schema,
    )


def find_turn_text(items: list[Item]) -> tuple[str, int]:
    """Return the text that opened the turn, and the number of tool results after it.

    A text that the agent made opens a turn only if there is no user text since the last answer: news of
    a sub-agent may come in the middle of a turn, and must not replace its script.
    """
    turn = items[_find_turn_start(items) :]
    return _find_last(turn, from_user=True) or _find_last(turn, from_user=False) or ("", 0)


def is_agent_made(text: str) -> bool:
    """Return True if no part of the text is from the user."""
    rest = REMINDER.sub("", text).strip()
    return not rest or rest.startswith(AGENT_MADE)


def unquote(text: str) -> str:
    """Undo the quoting of `opencode run`: it quotes a message that has blanks."""
    stripped = text.strip()
    if len(stripped) > 1 and stripped[0] == stripped[-1] == '"':
        return stripped[1:-1].replace('\\"', '"')
    return text


def list_texts(content: Any) -> list[str]:
    """Return the texts of a message's content, which is a string or a list of parts."""
    if isinstance(content, str):
        return [content]
    parts = content if isinstance(content, list) else []
    values = (part.get("text") for part in parts if isinstance(part, dict))
    return [text for text in values if isinstance(text, str)]


def _find_turn_start(items: list[Item]) -> int:
    """Return the index after the last answer that a user text follows; 0 if there is none."""
    for at in range(len(items) - 2, -1, -1):
        if items[at].kind == "answer" and items[at + 1].kind == "user":
            return at + 1
    return 0


def _find_last(items: list[Item], *, from_user: bool) -> tuple[str, int] | None:
    results = 0
    for item in reversed(items):
        if item.kind == "result":
            results += 1
        if item.kind == "user" and item.text.strip() and is_agent_made(item.text) != from_user:
            return (REMINDER.sub("", item.text).strip() if from_user else item.text), results
    return None


def _name_conversation(items: list[Item], body: Mapping[str, Any], headers: Mapping[str, str]) -> str:
    """Return the name that the agent gives it; otherwise its first user text."""
    for header in CONVERSATION_HEADERS:
        if name := headers.get(header):
            return name
    if name := body.get("prompt_cache_key"):
        return str(name)
    return next(
        (item.text for item in items if item.kind == "user" and not is_agent_made(item.text)), ""
    )
