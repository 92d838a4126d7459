"""What a Pi session file says: one JSON line per *complete* message, nothing while text streams.

The last `message` line tells the turn, whatever branch of the tree it is on; labels, names and edits
after it change nothing. A failed request is an assistant line with stopReason "error": a failed turn.
But Pi may try again. 1.x then marks the answer with a `context_edit` line that takes it out of the
context, and writes nothing when a person cancels the retry: `retry_or_not` tells such a turn. Versions
before 0.87 retry without a mark: there every error counts as such, but those that nobody retries.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from agentctl.system import clock, files, jsonl
from agentctl.system.files import Piece
from agentctl.system.jsonl import as_text
from agentctl.truth.look import Look
from agentctl.truth.model import PROMPT_CAP, Facts, Message, Tokens, Turn
from agentctl.truth.observe import TORN, torn

HEAD = 8192  # the header, and the first prompt behind a short system message
WIDE_HEAD = 1 << 16  # behind a long one: 1.x writes the project's instructions into it
TAIL = 16384
WIDE_TAIL = 1 << 18  # when labels and edits fill the first window
VERSIONS = (None, 1, 2, 3)  # None: before there was a number

# Lines of type "message" that say nothing about the turn.
SILENT = frozenset(
    {"system", "bashExecution", "custom", "hookMessage", "branchSummary", "compactionSummary"}
)
MARKED = "; marked for a retry, which goes on or was cancelled"
PENDING = "; this version retries without a mark"
# Errors that no version tries again: the request itself is at fault, and not by its length, which makes
# Pi shorten it and go on. Old versions look for words and numbers anywhere in it; so do we, for more.
FINAL = ("400", "401", "403", "404", "422")
RETRIED = (
    "429", "50", "52", "overload", "rate", "limit", "too ", "exceed", "long", "length", "large", "token",
    "context", "maximum", "time", "connect", "network", "server", "internal", "terminat", "retry",
    "closed", "ended", "fetch", "reset", "socket", "provider", "unavailable", "http2",
)  # fmt: skip
ENDINGS = {"stop": "completed", "length": "completed", "aborted": "interrupted"}


def read(path: str, look: Look) -> Facts:
    """Head for what never changes, tail for what does; totals only of a file read whole."""
    tally = jsonl.Tally()
    end = _end(path, look, tally)
    if not end.piece.data:
        return Facts()
    header, prompt, name = _start(path, end.piece)
    if header.get("type") != "session":
        look.problem("malformed", "does not begin with a session record", path)
    elif header.get("version") not in VERSIONS:
        look.drift("session version", header.get("version"), None, path)
        end.turn = None
    return Facts(
        cwd=as_text(header.get("cwd")),
        model=end.model or end.chosen,
        title=end.title or name,
        prompt=prompt,
        started_at=clock.parse(header.get("timestamp")),
        last_activity_at=end.last,
        tokens=end.tokens(),
        cost_usd=end.cost if end.counted else None,
        parent_id=session_id(header.get("parentSession")),
        turn=torn(end.turn, end.piece),
        garbled=tally.garbled,
    )


def retry_or_not(facts: Facts) -> bool:
    """Whether the last turn failed and a live process may be at it again."""
    return facts.turn is not None and facts.turn.note.removesuffix(TORN).endswith((MARKED, PENDING))


def last_prompt(path: str, since: float) -> float | None:
    """When it came; None: not since then."""
    for _, record in jsonl.backwards(path, jsonl.Tally()):
        at = clock.parse(record.get("timestamp"))
        if at is not None and at < since:
            return None
        message = record.get("message")
        if isinstance(message, dict) and message.get("role") == "user":
            return at
    return None


def header_of(path: str) -> jsonl.Record | None:
    """The first line, if it is a session header."""
    for _, raw in jsonl.lines_forwards(files.first_lines(path, 1024)):
        record = jsonl.parse(raw)
        return record if record is not None and record.get("type") == "session" else None
    return None


def session_id(path: object) -> str | None:
    """The id part of `…/2026-11-15T05-39-52-166Z_ID.jsonl`."""
    if not isinstance(path, str):
        return None
    stem = path.rpartition("/")[2].removesuffix(".jsonl")
    moment, mark, found = stem.partition("_")
    return found if mark and moment[10:11] == "T" else None


def said(offset: int, record: jsonl.Record) -> Iterator[Message]:
    """The things said in one line, last first."""
    message = record.get("message")
    if record.get("type") != "message" or not isinstance(message, dict):
        return
    at, role = clock.parse(record.get("timestamp")), message.get("role")
    if role == "bashExecution":  # a command that the person ran with "!"
        text = f"{message.get('command')}\n{message.get('output')}"
        yield Message(str(offset), "tool", text, at, "bash")
    elif role == "toolResult":
        text, tool = text_of(message.get("content")), str(message.get("toolName"))
        yield Message(str(offset), "tool", text, at, tool)
    elif role == "user":
        yield Message(str(offset), "user", text_of(message.get("content")), at)
    elif role == "assistant":
        yield from _answer(offset, message, at)


def text_of(content: Any) -> str:
    """Content is a text, or blocks of which some are text."""
    if isinstance(content, str):
        return content
    blocks = content if isinstance(content, list) else []
    return "\n".join(
        str(b.get("text")) for b in blocks if isinstance(b, dict) and b.get("type") == "text"
    )


def _answer(offset: int, message: jsonl.Record, at: float | None) -> Iterator[Message]:
    content = message.get("content")
    calls = [b for b in content if isinstance(b, dict)] if isinstance(content, list) else []
    for number, block in reversed(list(enumerate(calls))):
        if block.get("type") == "toolCall":
            text = _arguments(block.get("arguments"))
            yield Message(f"{offset}.{number}", "tool", text, at, str(block.get("name")))
    text = text_of(content) or str(message.get("errorMessage") or "")
    if text:
        yield Message(str(offset), "assistant", text, at)


def _arguments(given: Any) -> str:
    if not isinstance(given, dict):
        return ""
    if len(given) == 1 or "command" in given:
        return str(given.get("command") or next(iter(given.values())))
    return ", ".join(f"{name}={value}" for name, value in given.items())


class _End:
    """What the end of a file tells, gathered from its last line backwards."""

    def __init__(self, piece: Piece, look: Look) -> None:
        self.piece = piece
        self.look = look
        self.settled = False  # the telling message was found
        self.turn: Turn | None = None
        self.last: float | None = None
        self.model: str | None = None  # that answered last
        self.chosen: str | None = None  # that was chosen last
        self.title: str | None = None
        self.counted = 0
        self.cost = 0.0
        self._sums = [0, 0, 0, 0]
        self._omitted: set[str] = set()

    def wants(self, raw: bytes) -> bool:
        """Every line up to the telling one; of the rest only what can still add something."""
        if not self.settled:
            return True
        if b'"role":"assistant"' in raw:
            return self.model is None or self.piece.whole
        if b'"session_info"' in raw:
            return self.title is None
        return (self.chosen is None and b'"model_change"' in raw) or (
            self.piece.whole and b'"usage"' in raw
        )

    def take(self, offset: int, record: jsonl.Record) -> None:
        kind = record.get("type")
        if self.last is None:
            self.last = clock.parse(record.get("timestamp"))
        if kind == "message":
            message = record.get("message")
            self._message(offset, record, message if isinstance(message, dict) else {})
        elif kind == "context_edit" and record.get("replacement") is None:
            self._omitted.add(str(record.get("targetId")))
        elif kind == "session_info":
            self.title = self.title or as_text(record.get("name"))
        elif kind == "model_change":
            self.chosen = self.chosen or as_text(record.get("modelId"))
        self._count(record.get("usage"))

    def tokens(self) -> Tokens | None:
        return Tokens(*self._sums) if self.counted else None

    def _message(self, offset: int, record: jsonl.Record, message: jsonl.Record) -> None:
        role = str(message.get("role"))
        if role == "assistant":
            self.model = self.model or as_text(message.get("model"))
            self._count(message.get("usage"))
        if not self.settled and role not in SILENT:
            self.settled = True
            self.turn = self._turn(offset, record, message)

    def _turn(self, offset: int, record: jsonl.Record, message: jsonl.Record) -> Turn | None:
        role, reason = str(message.get("role")), str(message.get("stopReason"))
        at = clock.parse(record.get("timestamp"))
        if role in ("user", "toolResult"):
            return Turn("working", at=at, offset=offset, note=f"last message: {role}")
        source = f"{self.piece.path}@{offset}"
        if role != "assistant":
            self.look.drift("message role", role, None, source)
            return None
        if reason == "toolUse":
            return Turn("working", at=at, offset=offset, note="stopReason toolUse")
        if reason in ENDINGS:
            return Turn("idle", ENDINGS[reason], at, offset, f"stopReason {reason}")
        if reason == "error":
            return _failed(offset, at, message, marked=str(record.get("id")) in self._omitted)
        self.look.drift("stopReason", reason, None, source)
        return None

    def _count(self, usage: Any) -> None:
        """Answers, and what summaries and cache warming cost: a total only over a whole file."""
        if not self.piece.whole or not isinstance(usage, dict):
            return
        self.counted += 1
        for index, key in enumerate(("input", "output", "cacheRead", "cacheWrite")):
            self._sums[index] += int(_number(usage.get(key)))
        cost = usage.get("cost")
        self.cost += _number(cost.get("total")) if isinstance(cost, dict) else 0.0


def _failed(offset: int, at: float | None, message: jsonl.Record, *, marked: bool) -> Turn:
    why = str(message.get("errorMessage"))
    later = MARKED if marked else "" if _is_final(why, message) else PENDING
    return Turn("idle", "failed", at, offset, f"stopReason error: {why[:100]}{later}")


def _is_final(why: str, message: jsonl.Record) -> bool:
    """Whether an error without a mark will not be tried again."""
    if "durationMs" in message:  # 1.x: it would have a mark
        return True
    text = why.lower()
    return text.startswith(FINAL) and not any(word in text for word in RETRIED)


def _end(path: str, look: Look, tally: jsonl.Tally) -> _End:
    end = _gather(files.tail(path, TAIL), look, tally)
    if not end.settled and not end.piece.whole:
        end = _gather(files.tail(path, WIDE_TAIL), look, tally)
    return end


def _gather(piece: Piece, look: Look, tally: jsonl.Tally) -> _End:
    end = _End(piece, look)
    tally.garbled = 0
    for offset, record in jsonl.newest_first(piece, tally, end.wants):
        end.take(offset, record)
    return end


def _start(path: str, piece: Piece) -> _Opening:
    if piece.whole:
        return _opening(piece)
    opening = _opening(files.first_lines(path, HEAD))
    return opening if opening.prompt is not None else _opening(files.first_lines(path, WIDE_HEAD))


class _Opening(NamedTuple):
    header: jsonl.Record
    prompt: str | None
    name: str | None  # given with --name; a later /name is found at the end


def _opening(piece: Piece) -> _Opening:
    header: jsonl.Record | None = None
    name = None
    for _, raw in jsonl.lines_forwards(piece):
        if header is None:
            header = jsonl.parse(raw) or {}
        elif b'"session_info"' in raw and name is None:
            name = as_text((jsonl.parse(raw) or {}).get("name"))
        elif b'"role":"user"' in raw:
            message = (jsonl.parse(raw) or {}).get("message")
            if isinstance(message, dict):
                return _Opening(header, text_of(message.get("content"))[:PROMPT_CAP], name)
    return _Opening(header or {}, None, name)


def _number(value: object) -> float:
    """0 for what is no number, or none that anybody could have meant (NaN, Infinity)."""
    return value if isinstance(value, int | float) and abs(value) < 1e15 else 0
