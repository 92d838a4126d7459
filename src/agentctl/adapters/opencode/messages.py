"""What OpenCode's message and part records say: the same JSON in the database and in the files
of versions before 1.2."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from agentctl.system import clock
from agentctl.system.jsonl import Record, as_dict
from agentctl.truth.look import Look
from agentctl.truth.model import PROMPT_CAP, Message, Role, Turn, WaitingFor

# After these the loop takes another step, within 5 to 100 ms.
GOING_ON = ("tool-calls", "unknown")
OVER = {"stop": "completed", "length": "completed", "content-filter": "completed",
        "other": "completed", "error": "failed"}  # fmt: skip
# A tool call refused in one of these words ends the turn; any other tool error goes back to the model.
# The message still says finish=tool-calls, and nothing more is ever written.
REFUSALS = (
    "The user rejected permission to use this specific tool call.",
    "The user dismissed this question",
)
# These tools write metadata as soon as they run, or take no time. One that runs without metadata waits
# for permission, unless the log shows that none was asked for.
ASKING = frozenset({"bash", "edit", "write", "patch", "apply_patch", "multiedit", "task"})
# These are usually quick, but can be slow on a big tree. Only the log shows that one waits.
SWIFT = frozenset({"read", "glob", "grep", "list", "lsp", "skill", "todowrite"})
# Seconds after which the log has told that a permission is asked for: 0.9 seen on a busy machine.
LOGGED_AFTER = 2.0
LOGGED_BEFORE = 0.5  # seconds: it asks some 20 ms before the call is noted as running


def turn_of(
    message: Record, parts: Sequence[Record], look: Look, where: str, version: str | None, *, gone: bool
) -> Turn | None:
    """What a session's last message says of its turn; None when it uses words we do not know.

    `gone`: no live process can be between two steps of it any more.
    """
    times = as_dict(message.get("time"))
    role, created = message.get("role"), clock.from_ms(times.get("created"))
    if role == "user":
        return Turn("working", at=created, note="a prompt, and no answer begun")
    if role != "assistant":
        look.drift("message role", role, version, where)
        return None
    completed = clock.from_ms(times.get("completed"))
    error = message.get("error")
    if error:
        name = str(as_dict(error).get("name"))
        how = "interrupted" if name == "MessageAbortedError" else "failed"
        return Turn("idle", how, completed or created, note=f"answer ended with {name}")
    if completed is None:
        return Turn("working", at=created, note="answer without time.completed")
    return _finished(message, parts, look, where, version, gone=gone)


def _finished(
    message: Record, parts: Sequence[Record], look: Look, where: str, version: str | None, *, gone: bool
) -> Turn | None:
    at, finish = clock.from_ms(as_dict(message.get("time")).get("completed")), message.get("finish")
    if finish is None:
        # seen when a turn is aborted while it waits to retry
        return Turn("idle", "interrupted", at, note="answer completed without a finish reason")
    if finish in OVER:
        return Turn("idle", OVER[finish], at, note=f"finish {finish}")
    if finish not in GOING_ON:
        look.drift("finish", finish, version, where)
        return None
    errors = [str(_state(part).get("error")) for part in parts if _state(part).get("status") == "error"]
    if any(error in REFUSALS for error in errors):
        return Turn("idle", "interrupted", at, note=f"finish {finish}, tool call refused")
    if errors and gone:
        # refused in other words, or killed before the next step: how it ended is not told
        return Turn("idle", "", at, note=f"finish {finish}, tool call failed: {errors[-1][:80]}")
    return Turn("working", at=at, note=f"finish {finish}: between two steps")


class Asked(NamedTuple):
    """A tool call that seems to wait for a person."""

    what: WaitingFor
    since: float | None
    note: str
    sure: bool = True  # else it may run by now


def asking(parts: Sequence[Record], asked: Callable[[float], bool | None], now: float) -> Asked | None:
    """The database does not say that a person is asked: the call is `running`, and lacks what it would
    have if it ran. `asked`: whether the log says that a permission was asked for since then; None: it
    does not tell. Of several calls the one that asks for sure counts: the others may run beside it."""
    found = [each for part in parts if (each := _asks(part, asked, now)) is not None]
    return next((each for each in found if each.sure), found[0] if found else None)


def _asks(part: Record, asked: Callable[[float], bool | None], now: float) -> Asked | None:
    state, tool = _state(part), part.get("tool")
    if part.get("type") != "tool" or state.get("status") != "running":
        return None
    since = clock.from_ms(as_dict(state.get("time")).get("start"))
    if tool == "question":
        return Asked("question", since, "tool question is running")
    if "metadata" in state:
        return None
    logged = asked(since - LOGGED_BEFORE) if since is not None else None
    if logged:
        note = f"tool {tool} is running without state.metadata, and a permission was asked for"
        return Asked("permission", since, note, tool in ASKING or tool in SWIFT)
    if logged is None and tool in ASKING:
        return Asked("permission", since, f"tool {tool} is running without state.metadata")
    if logged is None or since is None or now - since < LOGGED_AFTER:
        return Asked("permission", since, f"tool {tool} is running, or waits to be allowed", sure=False)
    return None  # the log tells all that this process asks, and this was not


def running_commands(parts: Iterable[Record]) -> int:
    """How many calls of a shell have begun for sure."""
    return sum(
        part.get("tool") == "bash"
        and _state(part).get("status") == "running"
        and "metadata" in _state(part)
        for part in parts
    )


def prompt_of(parts: Iterable[Record]) -> str | None:
    """The text a person typed. Text that OpenCode added (file contents) is marked synthetic."""
    for part in parts:
        if part.get("type") == "text" and not part.get("synthetic"):
            return str(part.get("text"))[:PROMPT_CAP]
    return None


def model_of(message: Record) -> str | None:
    """provider/model of an answer."""
    provider, model = message.get("providerID"), message.get("modelID")
    return f"{provider}/{model}" if provider and model else None


def title_of(title: object) -> str | None:
    """None for the title every session starts with."""
    if (
        not isinstance(title, str)
        or not title
        or title.startswith(("New session - ", "Child session - "))
    ):
        return None
    return title


def said_in(key: str, message: Record, parts: Sequence[tuple[str, Record]]) -> Iterator[Message]:
    """What one message holds, newest first. `parts` come oldest first, each with its id."""
    role: Role = "user" if message.get("role") == "user" else "assistant"
    at = clock.from_ms(as_dict(message.get("time")).get("created"))
    for part_id, part in reversed(parts):
        text, kind = part.get("text"), part.get("type")
        if kind == "text" and text:
            yield Message(f"{key}/{part_id}", "system" if part.get("synthetic") else role, str(text), at)
        elif kind == "tool":
            yield Message(f"{key}/{part_id}", "tool", _tool_text(part), at, str(part.get("tool")))
    error = as_dict(message.get("error"))
    if error:
        told = as_dict(error.get("data")).get("message") or error.get("name")
        yield Message(f"{key}/error", "system", str(told), at)


def _state(part: Record) -> Record:
    return as_dict(part.get("state"))


def _tool_text(part: Record) -> str:
    """What was called, then what came back."""
    state = _state(part)
    given = as_dict(state.get("input"))
    called = (
        given.get("command") or state.get("title") or ", ".join(f"{k}={v}" for k, v in given.items())
    )
    answer = state.get("output") or state.get("error") or ""
    return "\n".join(str(piece) for piece in (called, answer) if piece)
