"""Read OpenCode's message and part records: the same JSON in the database and in the files of versions
before 1.2."""

from __future__ import annotations

from agentctl.light_typing import Callable, Iterable, Iterator, NamedTuple, Sequence
from agentctl.system import clock
from agentctl.system.jsonl import Record, as_dict
from agentctl.truth.look import Look
from agentctl.truth.model import PROMPT_CAP, Message, Role, Turn, WaitingFor

# Finish reasons after which the loop takes another step, within 5 to 100 ms.
CONTINUING = ("tool-calls", "unknown")
ENDINGS = {"stop": "completed", "length": "completed", "content-filter": "completed",
        "other": "completed", "error": "failed"}  # fmt: skip
# A tool call that failed with one of these errors ends the turn; any other error goes back to the model.
# The message still says finish=tool-calls, and OpenCode writes nothing more.
REFUSALS = (
    "The user rejected permission to use this specific tool call.",
    "The user dismissed this question",
)
# These tools write metadata as soon as they run, or take no time. One that runs without metadata waits
# for permission, unless the log shows that OpenCode did not ask for one.
ASKING_TOOLS = frozenset({"bash", "edit", "write", "patch", "apply_patch", "multiedit", "task"})
# These tools are usually quick, but can be slow on a big tree. Only the log shows that one waits.
QUICK_TOOLS = frozenset({"read", "glob", "grep", "list", "lsp", "skill", "todowrite"})
# Seconds after which the log shows a question for permission: 0.9 measured on a busy machine.
LOG_DELAY = 2.0
LOG_LEAD = 0.5  # seconds: OpenCode asks some 20 ms before it records the call as running


def read_turn(
    message: Record,
    parts: Sequence[Record],
    look: Look,
    where: str,
    version: str | None,
    *,
    is_gone: bool,
) -> Turn | None:
    """Return the turn that a session's last message describes; None for unknown words.

    is_gone: no live process can be between two steps of the turn.
    """
    times = as_dict(message.get("time"))
    role, created = message.get("role"), clock.parse_ms(times.get("created"))
    if role == "user":
        return Turn("working", at=created, note="a prompt, and no answer begun")
    if role != "assistant":
        look.report_drift("message role", role, version, where)
        return None
    completed = clock.parse_ms(times.get("completed"))
    error = message.get("error")
    if error:
        name = str(as_dict(error).get("name"))
        outcome = "interrupted" if name == "MessageAbortedError" else "failed"
        return Turn("idle", outcome, completed or created, note=f"answer ended with {name}")
    if completed is None:
        return Turn("working", at=created, note="answer without time.completed")
    return _read_finished_turn(message, parts, look, where, version, is_gone=is_gone)


def _read_finished_turn(
    message: Record,
    parts: Sequence[Record],
    look: Look,
    where: str,
    version: str | None,
    *,
    is_gone: bool,
) -> Turn | None:
    at, finish = clock.parse_ms(as_dict(message.get("time")).get("completed")), message.get("finish")
    if finish is None:
        # Happens if a turn is aborted while it waits to retry.
        return Turn("idle", "interrupted", at, note="answer completed without a finish reason")
    if finish in ENDINGS:
        return Turn("idle", ENDINGS[finish], at, note=f"finish {finish}")
    if finish not in CONTINUING:
        look.report_drift("finish", finish, version, where)
        return None
    errors = [str(_state(part).get("error")) for part in parts if _state(part).get("status") == "error"]
    if any(error in REFUSALS for error in errors):
        return Turn("idle", "interrupted", at, note=f"finish {finish}, tool call refused")
    if errors and is_gone:
        # Refused in other words, or killed before the next step: the outcome is unknown.
        return Turn("idle", "", at, note=f"finish {finish}, tool call failed: {errors[-1][:80]}")
    return Turn("working", at=at, note=f"finish {finish}: between two steps")


class Wait(NamedTuple):
    """A tool call that seems to wait for the user."""

    what: WaitingFor
    since: float | None
    note: str
    is_certain: bool = True  # False: the call may run by now


def find_wait(
    parts: Sequence[Record], has_asked: Callable[[float], bool | None], now: float
) -> Wait | None:
    """Return the tool call that waits for the user. The database does not show this: the call is
    `running`, but lacks the metadata of one that runs. `has_asked` says whether the log has a question
    for permission since then; None: unknown. A certain wait counts first: other calls may run beside
    it."""
    waits = [each for part in parts if (each := _read_wait(part, has_asked, now)) is not None]
    return next((each for each in waits if each.is_certain), waits[0] if waits else None)


def _read_wait(part: Record, has_asked: Callable[[float], bool | None], now: float) -> Wait | None:
    state, tool = _state(part), part.get("tool")
    if part.get("type") != "tool" or state.get("status") != "running":
        return None
    since = clock.parse_ms(as_dict(state.get("time")).get("start"))
    if tool == "question":
        return Wait("question", since, "tool question is running")
    if "metadata" in state:
        return None
    is_logged = has_asked(since - LOG_LEAD) if since is not None else None
    if is_logged:
        note = f"tool {tool} is running without state.metadata, and a permission was asked for"
        return Wait("permission", since, note, tool in ASKING_TOOLS or tool in QUICK_TOOLS)
    if is_logged is None and tool in ASKING_TOOLS:
        return Wait("permission", since, f"tool {tool} is running without state.metadata")
    if is_logged is None or since is None or now - since < LOG_DELAY:
        return Wait(
            "permission", since, f"tool {tool} is running, or waits to be allowed", is_certain=False
        )
    return None  # the log shows every question of this process, and has none for this call


def count_running_commands(parts: Iterable[Record]) -> int:
    """Return how many shell calls have certainly begun."""
    return sum(
        part.get("tool") == "bash"
        and _state(part).get("status") == "running"
        and "metadata" in _state(part)
        for part in parts
    )


def read_prompt(parts: Iterable[Record]) -> str | None:
    """Return the text that the user typed. Text that OpenCode added (file contents) is synthetic."""
    for part in parts:
        if part.get("type") == "text" and not part.get("synthetic"):
            return str(part.get("text"))[:PROMPT_CAP]
    return None


def read_model(message: Record) -> str | None:
    """Return provider/model of an answer."""
    provider, model = message.get("providerID"), message.get("modelID")
    return f"{provider}/{model}" if provider and model else None


def read_title(title: object) -> str | None:
    """Return the title; None for the one with which every session starts."""
    if (
        not isinstance(title, str)
        or not title
        or title.startswith(("New session - ", "Child session - "))
    ):
        return None
    return title


def to_messages(key: str, message: Record, parts: Sequence[tuple[str, Record]]) -> Iterator[Message]:
    """Yield what one message holds, newest first. `parts` are in order, each with its id."""
    role: Role = "user" if message.get("role") == "user" else "assistant"
    at = clock.parse_ms(as_dict(message.get("time")).get("created"))
    for part_id, part in reversed(parts):
        text, kind = part.get("text"), part.get("type")
        if kind == "text" and text:
            yield Message(f"{key}/{part_id}", "system" if part.get("synthetic") else role, str(text), at)
        elif kind == "tool":
            yield Message(f"{key}/{part_id}", "tool", _tool_text(part), at, str(part.get("tool")))
    error = as_dict(message.get("error"))
    if error:
        text = as_dict(error.get("data")).get("message") or error.get("name")
        yield Message(f"{key}/error", "system", str(text), at)


def _state(part: Record) -> Record:
    return as_dict(part.get("state"))


def _tool_text(part: Record) -> str:
    """Return the call, then its result."""
    state = _state(part)
    arguments = as_dict(state.get("input"))
    call = (
        arguments.get("command")
        or state.get("title")
        or ", ".join(f"{k}={v}" for k, v in arguments.items())
    )
    answer = state.get("output") or state.get("error") or ""
    return "\n".join(str(piece) for piece in (call, answer) if piece)
