"""What one line of a Claude Code transcript says: of the turn it belongs to, and to people.

A "tool_use" without its result is a tool at work or a question to a person: the transcript cannot
tell these apart, the process's record can.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, NamedTuple

from agentctl.system import clock, jsonl
from agentctl.system.jsonl import as_dict, as_text
from agentctl.truth.look import Look
from agentctl.truth.model import Message, Observation
from agentctl.truth.observe import transcript

TEXT_CAP = 200  # of a tool call's arguments
INTERRUPTED = "[Request interrupted by user"
SYNTHETIC = "<synthetic>"  # the model's name on lines that the CLI made up
# What the CLI itself writes as a user: slash commands, their output, `!` shell lines, reminders.
NOT_A_PROMPT = ("<command-", "<local-command-", "<bash-", "<task-notification>", "<system-reminder>")
_OVER = {"end_turn": "completed", "stop_sequence": "completed", "refusal": "failed"}
# max_tokens is no end: the CLI asks the model to go on.
_OPEN = ("tool_use", "max_tokens", "pause_turn")


class Said(NamedTuple):
    """What one line says of the turn."""

    claim: Literal["working", "idle", "silent", "drift"]
    detail: str = ""
    note: str = ""
    closes: bool = False  # ends an open turn, but how it went stands in the line before


REQUESTED = Said("working", note="api-request")  # most often written before the reply: one is in flight


def said_by(record: jsonl.Record) -> Said | None:
    """None: the line says nothing of the main turn."""
    if record.get("isSidechain"):  # older versions keep sub-agents in the same file
        return None
    kind = record.get("type")
    if kind == "assistant":
        return _assistant(record)
    if kind == "user":
        return user_line(record)
    if kind == "system":
        return _system(record)
    if kind == "api-request":
        source = str(record.get("querySource"))
        return REQUESTED if source.startswith(("repl_main_thread", "sdk")) else None
    if kind == "attachment":  # only max_turns_reached gets here
        return Said("idle", "failed", "max_turns_reached")
    return None


def _assistant(record: jsonl.Record) -> Said:
    message = as_dict(record.get("message"))
    reason = message.get("stop_reason")
    word = str(reason)
    if record.get("isApiErrorMessage"):
        return Said("idle", "failed", f"API error: {record.get('error')}")
    if record.get("isAbortedMidStream"):
        return Said("idle", "interrupted", "aborted mid-stream")
    if message.get("model") == SYNTHETIC:  # put in at a resume, after whatever stood last
        return Said("idle", "interrupted", "closed by the next resume", closes=True)
    if word in _OPEN:
        return Said("working", note=f"stop_reason {word}")
    if word in _OVER:
        return Said("idle", _OVER[word], f"stop_reason {word}")
    if reason is None:  # older versions leave it out: then a tool call alone tells something
        called = any(block.get("type") == "tool_use" for block in blocks(record))
        return Said("working", note="tool_use") if called else Said("silent")
    return Said("drift", note=word)


def user_line(record: jsonl.Record) -> Said | None:
    if made_by_cli(record):
        return None
    if any(block.get("type") == "tool_result" for block in blocks(record)):
        return Said("working", note="tool_result")
    text = words(record)
    if text.startswith(INTERRUPTED):
        return Said("idle", "interrupted", text)
    if text.startswith("<task-notification>"):  # starts a turn by itself
        return Said("working", note="task notification")
    return None if text.startswith(NOT_A_PROMPT) else Said("working", note="prompt")


def _system(record: jsonl.Record) -> Said | None:
    subtype = record.get("subtype")
    if subtype == "api_error":
        attempt, most = record.get("retryAttempt"), record.get("maxRetries")
        return Said("working", note=f"api_error, retry {attempt} of {most}")
    if subtype == "turn_duration":
        pending = record.get("pendingBackgroundAgentCount")
        if pending:  # their end starts a new turn
            return Said("working", note=f"turn_duration, {pending} background agents pending")
        return Said("idle", note="turn_duration", closes=True)
    return None


def made_by_cli(record: jsonl.Record) -> bool:
    return any(record.get(k) for k in ("isMeta", "isCompactSummary", "isVisibleInTranscriptOnly"))


# messages


def messages(seen: Observation, look: Look) -> Iterator[Message]:
    for offset, record in transcript(seen, look):
        if record.get("isSidechain") or made_by_cli(record):
            continue
        at = clock.parse(record.get("timestamp"))
        if record.get("type") == "assistant":
            yield from _replied(record, offset, at)
        elif record.get("type") == "user" and (text := words(record)):
            if text.startswith(INTERRUPTED):
                yield Message(str(offset), "system", text, at)
            elif not text.startswith(NOT_A_PROMPT):
                yield Message(str(offset), "user", text, at)


def _replied(record: jsonl.Record, offset: int, at: float | None) -> Iterator[Message]:
    failed = bool(record.get("isApiErrorMessage"))
    if as_dict(record.get("message")).get("model") == SYNTHETIC and not failed:
        return
    for index, block in reversed(list(enumerate(blocks(record)))):
        key = f"{offset}.{index}"
        if block.get("type") == "text" and (text := as_text(block.get("text"))):
            yield Message(key, "system" if failed else "assistant", text, at)
        elif block.get("type") == "tool_use":
            yield Message(key, "tool", _arguments(block), at, str(block.get("name")))


def _arguments(block: jsonl.Record) -> str:
    given = as_dict(block.get("input")).items()
    if len(given) == 1:
        return str(next(iter(given))[1])[:TEXT_CAP]
    return ", ".join(f"{key}: {value}" for key, value in given)[:TEXT_CAP]


def blocks(record: jsonl.Record) -> list[jsonl.Record]:
    content = as_dict(record.get("message")).get("content")
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return [block for block in content if isinstance(block, dict)] if isinstance(content, list) else []


def words(record: jsonl.Record) -> str:
    """Its text without what an editor or the CLI put beside it."""
    texts = [str(block.get("text")) for block in blocks(record) if block.get("type") == "text"]
    own = [text for text in texts if not text.startswith(("<system-reminder>", "<ide_"))]
    return "\n".join(own or texts)
