"""What one line of a Claude Code transcript says about the turn, and which messages it holds.

A "tool_use" without its result is a running tool or a question to the user. The transcript does not show
which; the process's record does.
"""

from __future__ import annotations

from agentctl.light_typing import Iterator, Literal, NamedTuple
from agentctl.system import clock, jsonl
from agentctl.system.jsonl import as_dict, as_text
from agentctl.truth.look import Look
from agentctl.truth.model import Message, Observation
from agentctl.truth.observe import read_transcript

TEXT_CAP = 200  # of a tool call's arguments
INTERRUPTED = "[Request interrupted by user"
SYNTHETIC = "<synthetic>"  # the model's name on lines that the CLI inserts
# What the CLI writes in the user's name: slash commands, their output, `!` shell lines, reminders.
NOT_A_PROMPT = ("<command-", "<local-command-", "<bash-", "<task-notification>", "<system-reminder>")
_ENDINGS = {"end_turn": "completed", "stop_sequence": "completed", "refusal": "failed"}
# max_tokens does not end a turn: the CLI asks the model to continue.
_OPEN_REASONS = ("tool_use", "max_tokens", "pause_turn")


class LineClaim(NamedTuple):
    """What one line says about the turn."""

    claim: Literal["working", "idle", "silent", "drift"]
    detail: str = ""
    note: str = ""
    closes: bool = False  # ends an open turn; the line before says how it went


REQUESTED = LineClaim("working", note="api-request")  # usually written before the reply


def read_line(record: jsonl.Record) -> LineClaim | None:
    """Return what a line says about the main turn; None: nothing."""
    if record.get("isSidechain"):  # older versions keep sub-agents in the same file
        return None
    kind = record.get("type")
    if kind == "assistant":
        return _read_assistant_line(record)
    if kind == "user":
        return read_user_line(record)
    if kind == "system":
        return _read_system_line(record)
    if kind == "api-request":
        source = str(record.get("querySource"))
        return REQUESTED if source.startswith(("repl_main_thread", "sdk")) else None
    if kind == "attachment":  # always max_turns_reached: see transcript._may_matter
        return LineClaim("idle", "failed", "max_turns_reached")
    return None


def _read_assistant_line(record: jsonl.Record) -> LineClaim:
    message = as_dict(record.get("message"))
    reason = message.get("stop_reason")
    word = str(reason)
    if record.get("isApiErrorMessage"):
        return LineClaim("idle", "failed", f"API error: {record.get('error')}")
    if record.get("isAbortedMidStream"):
        return LineClaim("idle", "interrupted", "aborted mid-stream")
    if message.get("model") == SYNTHETIC:  # inserted by a resume, after the last line
        return LineClaim("idle", "interrupted", "closed by the next resume", closes=True)
    if word in _OPEN_REASONS:
        return LineClaim("working", note=f"stop_reason {word}")
    if word in _ENDINGS:
        return LineClaim("idle", _ENDINGS[word], f"stop_reason {word}")
    if reason is None:  # older versions omit it; a tool call still shows an open turn
        has_tool_call = any(block.get("type") == "tool_use" for block in read_blocks(record))
        return LineClaim("working", note="tool_use") if has_tool_call else LineClaim("silent")
    return LineClaim("drift", note=word)


def read_user_line(record: jsonl.Record) -> LineClaim | None:
    if is_from_cli(record):
        return None
    if any(block.get("type") == "tool_result" for block in read_blocks(record)):
        return LineClaim("working", note="tool_result")
    text = read_text(record)
    if text.startswith(INTERRUPTED):
        return LineClaim("idle", "interrupted", text)
    if text.startswith("<task-notification>"):  # starts a turn by itself
        return LineClaim("working", note="task notification")
    return None if text.startswith(NOT_A_PROMPT) else LineClaim("working", note="prompt")


def _read_system_line(record: jsonl.Record) -> LineClaim | None:
    subtype = record.get("subtype")
    if subtype == "api_error":
        attempt, most = record.get("retryAttempt"), record.get("maxRetries")
        return LineClaim("working", note=f"api_error, retry {attempt} of {most}")
    if subtype == "turn_duration":
        pending = record.get("pendingBackgroundAgentCount")
        if pending:  # the end of each starts a new turn
            return LineClaim("working", note=f"turn_duration, {pending} background agents pending")
        return LineClaim("idle", note="turn_duration", closes=True)
    return None


def is_from_cli(record: jsonl.Record) -> bool:
    return any(record.get(k) for k in ("isMeta", "isCompactSummary", "isVisibleInTranscriptOnly"))


# messages


def read_messages(observation: Observation, look: Look) -> Iterator[Message]:
    for offset, record in read_transcript(observation, look):
        if record.get("isSidechain") or is_from_cli(record):
            continue
        at = clock.parse_time(record.get("timestamp"))
        if record.get("type") == "assistant":
            yield from _read_reply(record, offset, at)
        elif record.get("type") == "user" and (text := read_text(record)):
            if text.startswith(INTERRUPTED):
                yield Message(str(offset), "system", text, at)
            elif not text.startswith(NOT_A_PROMPT):
                yield Message(str(offset), "user", text, at)


def _read_reply(record: jsonl.Record, offset: int, at: float | None) -> Iterator[Message]:
    is_error = bool(record.get("isApiErrorMessage"))
    if as_dict(record.get("message")).get("model") == SYNTHETIC and not is_error:
        return
    for index, block in reversed(list(enumerate(read_blocks(record)))):
        key = f"{offset}.{index}"
        if block.get("type") == "text" and (text := as_text(block.get("text"))):
            yield Message(key, "system" if is_error else "assistant", text, at)
        elif block.get("type") == "tool_use":
            yield Message(key, "tool", _arguments_text(block), at, str(block.get("name")))


def _arguments_text(block: jsonl.Record) -> str:
    arguments = as_dict(block.get("input")).items()
    if len(arguments) == 1:
        return str(next(iter(arguments))[1])[:TEXT_CAP]
    return ", ".join(f"{key}: {value}" for key, value in arguments)[:TEXT_CAP]


def read_blocks(record: jsonl.Record) -> list[jsonl.Record]:
    content = as_dict(record.get("message")).get("content")
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return [block for block in content if isinstance(block, dict)] if isinstance(content, list) else []


def read_text(record: jsonl.Record) -> str:
    """Return the text of a line without what an editor or the CLI added."""
    texts = [str(block.get("text")) for block in read_blocks(record) if block.get("type") == "text"]
    own = [text for text in texts if not text.startswith(("<system-reminder>", "<ide_"))]
    return "\n".join(own or texts)
