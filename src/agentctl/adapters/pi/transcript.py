"""Read a Pi session file: one JSON line per *complete* message, nothing while text streams.

The last `message` line decides the turn, on any branch of the tree; labels, names and edits after it
change nothing. A failed request is an assistant line with stopReason "error": a failed turn. But Pi may
retry. 1.x then marks the answer with a `context_edit` line that takes it out of the context, and writes
nothing when the user cancels the retry: see `may_be_retried`. Versions before 0.87 retry without a mark:
there any error may be retried, except those that no version retries.
"""

from __future__ import annotations

from agentctl.light_typing import Any, Iterator, NamedTuple
from agentctl.system import clock, files, jsonl
from agentctl.system.files import Piece
from agentctl.system.jsonl import as_text
from agentctl.truth.look import Look
from agentctl.truth.model import PROMPT_CAP, Facts, Message, Tokens, Turn
from agentctl.truth.observe import TORN, mark_torn

HEAD = 8192  # the header, and the first prompt behind a short system message
WIDE_HEAD = 1 << 16  # behind a long one: 1.x writes the project's instructions into it
TAIL = 16384
WIDE_TAIL = 1 << 18  # if labels and edits fill the first window
VERSIONS = (None, 1, 2, 3)  # None: the oldest files have no number

# Roles of `message` lines that do not affect the turn.
NEUTRAL_ROLES = frozenset(
    {"system", "bashExecution", "custom", "hookMessage", "branchSummary", "compactionSummary"}
)
MARKED = "; marked for a retry, which goes on or was cancelled"
UNMARKED = "; this version retries without a mark"
# Errors that no version retries: the request itself is wrong, but not too long, which Pi would shorten.
# Old versions search the error for words and numbers, so do we, for more of them.
FINAL = ("400", "401", "403", "404", "422")
RETRIED = (
    "429", "50", "52", "overload", "rate", "limit", "too ", "exceed", "long", "length", "large", "token",
    "context", "maximum", "time", "connect", "network", "server", "internal", "terminat", "retry",
    "closed", "ended", "fetch", "reset", "socket", "provider", "unavailable", "http2",
)  # fmt: skip
ENDINGS = {"stop": "completed", "length": "completed", "aborted": "interrupted"}


def read_facts(path: str, look: Look) -> Facts:
    """Return the facts of a session file: the head never changes, the tail does. Totals need the whole
    file."""
    tally = jsonl.SkippedLines()
    tail = _read_tail(path, look, tally)
    if not tail.piece.data:
        return Facts()
    header, prompt, name = _read_opening_of(path, tail.piece)
    if header.get("type") != "session":
        look.report_problem("malformed", "does not begin with a session record", path)
    elif header.get("version") not in VERSIONS:
        look.report_drift("session version", header.get("version"), None, path)
        tail.turn = None
    return Facts(
        cwd=as_text(header.get("cwd")),
        model=tail.model or tail.chosen_model,
        title=tail.title or name,
        prompt=prompt,
        started_at=clock.parse_time(header.get("timestamp")),
        last_activity_at=tail.last,
        tokens=tail.tokens(),
        cost_usd=tail.cost if tail.counted else None,
        parent_id=read_session_id(header.get("parentSession")),
        turn=mark_torn(tail.turn, tail.piece),
        garbled=tally.garbled,
    )


def may_be_retried(facts: Facts) -> bool:
    """Return True if the last turn failed and a live process may retry it."""
    return facts.turn is not None and facts.turn.note.removesuffix(TORN).endswith((MARKED, UNMARKED))


def find_last_prompt(path: str, since: float) -> float | None:
    """Return the time of the last prompt; None if there is none since."""
    for _, record in jsonl.read_backwards(path, jsonl.SkippedLines()):
        at = clock.parse_time(record.get("timestamp"))
        if at is not None and at < since:
            return None
        message = record.get("message")
        if isinstance(message, dict) and message.get("role") == "user":
            return at
    return None


def read_header(path: str) -> jsonl.Record | None:
    """Return the first line if it is a session header."""
    for _, raw in jsonl.lines_forwards(files.read_first_lines(path, 1024)):
        record = jsonl.parse_record(raw)
        return record if record is not None and record.get("type") == "session" else None
    return None


def read_session_id(path: object) -> str | None:
    """Return the id in `…/2026-11-15T05-39-52-166Z_ID.jsonl`."""
    if not isinstance(path, str):
        return None
    stem = path.rpartition("/")[2].removesuffix(".jsonl")
    stamp, underscore, id_ = stem.partition("_")
    return id_ if underscore and stamp[10:11] == "T" else None


def to_messages(offset: int, record: jsonl.Record) -> Iterator[Message]:
    """Yield the messages of one line, last first."""
    message = record.get("message")
    if record.get("type") != "message" or not isinstance(message, dict):
        return
    at, role = clock.parse_time(record.get("timestamp")), message.get("role")
    if role == "bashExecution":  # a command that the user ran with "!"
        text = f"{message.get('command')}\n{message.get('output')}"
        yield Message(str(offset), "tool", text, at, "bash")
    elif role == "toolResult":
        text, tool = read_text(message.get("content")), str(message.get("toolName"))
        yield Message(str(offset), "tool", text, at, tool)
    elif role == "user":
        yield Message(str(offset), "user", read_text(message.get("content")), at)
    elif role == "assistant":
        yield from _read_answer(offset, message, at)


def read_text(content: Any) -> str:
    """Return the text of a content, which is a text or a list of blocks."""
    if isinstance(content, str):
        return content
    blocks = content if isinstance(content, list) else []
    return "\n".join(
        str(b.get("text")) for b in blocks if isinstance(b, dict) and b.get("type") == "text"
    )


def _read_answer(offset: int, message: jsonl.Record, at: float | None) -> Iterator[Message]:
    content = message.get("content")
    calls = [b for b in content if isinstance(b, dict)] if isinstance(content, list) else []
    for number, block in reversed(list(enumerate(calls))):
        if block.get("type") == "toolCall":
            text = _arguments_text(block.get("arguments"))
            yield Message(f"{offset}.{number}", "tool", text, at, str(block.get("name")))
    text = read_text(content) or str(message.get("errorMessage") or "")
    if text:
        yield Message(str(offset), "assistant", text, at)


def _arguments_text(arguments: Any) -> str:
    if not isinstance(arguments, dict):
        return ""
    if len(arguments) == 1 or "command" in arguments:
        return str(arguments.get("command") or next(iter(arguments.values())))
    return ", ".join(f"{name}={value}" for name, value in arguments.items())


class _Tail:
    """The end of a file, collected from its last line backwards."""

    def __init__(self, piece: Piece, look: Look) -> None:
        self.piece = piece
        self.look = look
        self.is_settled = False  # the message that decides the turn was found
        self.turn: Turn | None = None
        self.last: float | None = None
        self.model: str | None = None  # of the last answer
        self.chosen_model: str | None = None  # the last choice
        self.title: str | None = None
        self.counted = 0
        self.cost = 0.0
        self._sums = [0, 0, 0, 0]
        self._omitted: set[str] = set()

    def wants_line(self, raw: bytes) -> bool:
        """Return True for lines up to the one that decides the turn, and for later needed ones."""
        if not self.is_settled:
            return True
        if b'"role":"assistant"' in raw:
            return self.model is None or self.piece.is_whole
        if b'"session_info"' in raw:
            return self.title is None
        return (self.chosen_model is None and b'"model_change"' in raw) or (
            self.piece.is_whole and b'"usage"' in raw
        )

    def add(self, offset: int, record: jsonl.Record) -> None:
        kind = record.get("type")
        if self.last is None:
            self.last = clock.parse_time(record.get("timestamp"))
        if kind == "message":
            message = record.get("message")
            self._message(offset, record, message if isinstance(message, dict) else {})
        elif kind == "context_edit" and record.get("replacement") is None:
            self._omitted.add(str(record.get("targetId")))
        elif kind == "session_info":
            self.title = self.title or as_text(record.get("name"))
        elif kind == "model_change":
            self.chosen_model = self.chosen_model or as_text(record.get("modelId"))
        self._count(record.get("usage"))

    def tokens(self) -> Tokens | None:
        return Tokens(*self._sums) if self.counted else None

    def _message(self, offset: int, record: jsonl.Record, message: jsonl.Record) -> None:
        role = str(message.get("role"))
        if role == "assistant":
            self.model = self.model or as_text(message.get("model"))
            self._count(message.get("usage"))
        if not self.is_settled and role not in NEUTRAL_ROLES:
            self.is_settled = True
            self.turn = self._turn(offset, record, message)

    def _turn(self, offset: int, record: jsonl.Record, message: jsonl.Record) -> Turn | None:
        role, reason = str(message.get("role")), str(message.get("stopReason"))
        at = clock.parse_time(record.get("timestamp"))
        if role in ("user", "toolResult"):
            return Turn("working", at=at, offset=offset, note=f"last message: {role}")
        source = f"{self.piece.path}@{offset}"
        if role != "assistant":
            self.look.report_drift("message role", role, None, source)
            return None
        if reason == "toolUse":
            return Turn("working", at=at, offset=offset, note="stopReason toolUse")
        if reason in ENDINGS:
            return Turn("idle", ENDINGS[reason], at, offset, f"stopReason {reason}")
        if reason == "error":
            return _failed_turn(offset, at, message, is_marked=str(record.get("id")) in self._omitted)
        self.look.report_drift("stopReason", reason, None, source)
        return None

    def _count(self, usage: Any) -> None:
        """Add the usage of an answer, a summary or cache warming: a total needs the whole file."""
        if not self.piece.is_whole or not isinstance(usage, dict):
            return
        self.counted += 1
        for index, key in enumerate(("input", "output", "cacheRead", "cacheWrite")):
            self._sums[index] += int(_to_number(usage.get(key)))
        cost = usage.get("cost")
        self.cost += _to_number(cost.get("total")) if isinstance(cost, dict) else 0.0


def _failed_turn(offset: int, at: float | None, message: jsonl.Record, *, is_marked: bool) -> Turn:
    error = str(message.get("errorMessage"))
    suffix = MARKED if is_marked else "" if _is_final(error, message) else UNMARKED
    return Turn("idle", "failed", at, offset, f"stopReason error: {error[:100]}{suffix}")


def _is_final(error: str, message: jsonl.Record) -> bool:
    """Return True if Pi will not retry an error without a mark."""
    if "durationMs" in message:  # 1.x would have set a mark
        return True
    text = error.lower()
    return text.startswith(FINAL) and not any(word in text for word in RETRIED)


def _read_tail(path: str, look: Look, tally: jsonl.SkippedLines) -> _Tail:
    tail = _collect(files.read_tail(path, TAIL), look, tally)
    if not tail.is_settled and not tail.piece.is_whole:
        tail = _collect(files.read_tail(path, WIDE_TAIL), look, tally)
    return tail


def _collect(piece: Piece, look: Look, tally: jsonl.SkippedLines) -> _Tail:
    tail = _Tail(piece, look)
    tally.garbled = 0
    for offset, record in jsonl.records_newest_first(piece, tally, tail.wants_line):
        tail.add(offset, record)
    return tail


def _read_opening_of(path: str, piece: Piece) -> _Opening:
    if piece.is_whole:
        return _parse_opening(piece)
    opening = _parse_opening(files.read_first_lines(path, HEAD))
    return (
        opening
        if opening.prompt is not None
        else _parse_opening(files.read_first_lines(path, WIDE_HEAD))
    )


class _Opening(NamedTuple):
    header: jsonl.Record
    prompt: str | None
    name: str | None  # of --name; a later /name is at the end of the file


def _parse_opening(piece: Piece) -> _Opening:
    header: jsonl.Record | None = None
    name = None
    for _, raw in jsonl.lines_forwards(piece):
        if header is None:
            header = jsonl.parse_record(raw) or {}
        elif b'"session_info"' in raw and name is None:
            name = as_text((jsonl.parse_record(raw) or {}).get("name"))
        elif b'"role":"user"' in raw:
            message = (jsonl.parse_record(raw) or {}).get("message")
            if isinstance(message, dict):
                return _Opening(header, read_text(message.get("content"))[:PROMPT_CAP], name)
    return _Opening(header or {}, None, name)


def _to_number(value: object) -> float:
    """Return the number, 0 for anything else and for NaN and Infinity."""
    return value if isinstance(value, int | float) and abs(value) < 1e15 else 0
