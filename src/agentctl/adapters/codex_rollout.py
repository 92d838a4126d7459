"""What a Codex rollout says of its thread, read from its two ends.

Invariant: lines are told apart by their bytes and only the few that matter are parsed. That is safe
because an unescaped quote never occurs inside a JSON string: `"type":"task_started"` is structure,
whatever a prompt or a tool's output contains.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from agentctl.truth import clock, files, jsonl
from agentctl.truth.look import Look
from agentctl.truth.model import PROMPT_CAP, EntryPoint, Facts, Message, Tokens, Turn

COLD = 1 << 14  # tail of a rollout in history: its turn's end is in the last lines
HEAD = 3 << 14  # session_meta carries 20 KB of instructions; the first prompt stands at about 32 KB
HEAD_CAP = HEAD * 8  # and further back when AGENTS.md or the prompt itself is long

RECORDS = frozenset(
    (b"session_meta", b"turn_context", b"world_state", b"response_item", b"event_msg",
     b"token_usage_record", b"compacted", b"retained_context")
)  # fmt: skip
# Written only while a turn is open. (A background terminal's item_completed may follow its end.)
WITHIN_A_TURN = frozenset(
    (b"function_call", b"function_call_output", b"custom_tool_call", b"custom_tool_call_output",
     b"reasoning")
)  # fmt: skip
OUTPUTS = frozenset((b"function_call_output", b"custom_tool_call_output"))
STARTED = frozenset((b"task_started", b"turn_started"))
COMPLETE = frozenset((b"task_complete", b"turn_complete"))


class Call(NamedTuple):
    """A tool call that has no output yet and asks to leave the sandbox."""

    id: str
    offset: int
    at: float | None
    what: str


class Rollout(NamedTuple):
    facts: Facts = Facts()
    escalation: Call | None = None  # None: no such call, or approvals are switched off
    blank: bool = False  # the whole file was read and nobody has ever prompted it


def thread_id(name: str) -> str | None:
    """The thread in a file name `rollout-2026-11-15T04-53-22-<uuid>.jsonl`; None: no rollout."""
    stem, dot, end = name.partition(".jsonl")
    found = stem[28:]
    return (
        found if dot and end in ("", ".zst") and name.startswith("rollout-") and is_id(found) else None
    )


def is_id(text: str) -> bool:
    return len(text) == 36 and text[8:24:5] == "----" and text.replace("-", "").isalnum()


def created_at(session_id: str) -> float | None:
    """A UUIDv7 begins with its milliseconds; None for the random ids of old versions."""
    try:
        return int(session_id[:8] + session_id[9:13], 16) / 1000 if session_id[14] == "7" else None
    except ValueError:
        return None


def read(path: str, look: Look) -> Facts:
    return examine(path, look, COLD).facts


def examine(path: str, look: Look, window: int = files.WINDOW) -> Rollout:
    piece = files.tail(path, window)
    first = _First(piece) if piece.whole else _first(path)
    meta = first.meta
    version = _text(meta.get("cli_version"))
    if not meta and first.begun:
        look.drift("first record", first.kind.decode("utf-8", "replace"), None, path)
    last = _Last(path, look, version)
    for offset, raw in jsonl.lines_backwards(piece):
        last.take(offset, raw)
        if last.enough:
            break
    context = last.context or (first.context() if first.turn_id == last.turn_id else {})
    facts = Facts(
        cwd=_text(context.get("cwd")) or _text(meta.get("cwd")),
        model=_text(context.get("model")),
        prompt=first.prompt,
        started_at=clock.parse(meta.get("timestamp")),
        last_activity_at=last.at,
        tokens=last.tokens,
        entry_point=_entry_point(meta),
        agent_version=version,
        parent_id=_text(meta.get("parent_thread_id")) or _text(meta.get("forked_from_id")),
        turn=last.verdict(whole=piece.whole),
        garbled=last.garbled,
    )
    blank = piece.whole and not (
        last.turn or last.within or first.prompt or last.unknown or last.garbled
    )
    asks = context.get("approval_policy") != "never"
    return Rollout(facts, last.escalation if asks and facts.turn else None, blank)


def message(offset: int, record: jsonl.Record) -> Message | None:
    """What a record says, if it is something said: the response items, which every version has."""
    payload = _dict(record.get("payload"))
    if record.get("type") != "response_item":
        return None
    kind, at = payload.get("type"), clock.parse(record.get("timestamp"))
    if kind in ("function_call", "custom_tool_call"):
        given = _text(payload.get("arguments")) or _text(payload.get("input")) or ""
        return Message(str(offset), "tool", given, at, _text(payload.get("name")))
    text = _joined(payload.get("content"))
    if kind != "message" or not text:
        return None
    if payload.get("role") == "assistant":
        return Message(str(offset), "assistant", text, at)
    if payload.get("role") == "user" and _typed(payload, text):
        return Message(str(offset), "user", text, at)
    return None


class _First:
    """The beginning: what never changes, and the first prompt."""

    def __init__(self, piece: files.Piece) -> None:
        lines = jsonl.lines_forwards(piece)
        opening = next(lines, jsonl.Line(0, b"")).raw
        self.begun = bool(opening)
        self.kind = _words(opening)[0]
        self.meta = _meta(opening) if self.kind == b"session_meta" else {}
        self._context = b""
        self.prompt = self._prompt(lines)

    @property
    def turn_id(self) -> bytes | None:
        return _field(self._context, b'"turn_id":"')

    def context(self) -> dict[str, Any]:
        return _payload(self._context)

    def _prompt(self, lines: Iterator[jsonl.Line]) -> str | None:
        """The first that a person typed; a response item only where no event repeats it."""
        second_best = None
        for _, raw in lines:
            kind, word = _words(raw)
            if kind == b"turn_context" and not self._context:
                self._context = raw
            elif word == b"user_message" or (
                word == b"item_completed" and b'"type":"UserMessage"' in raw
            ):
                if text := _said(_payload(raw)):
                    return text[:PROMPT_CAP]
            elif word == b"message" and second_best is None and b'"role":"user"' in raw:
                payload = _payload(raw)
                text = _joined(payload.get("content"))
                second_best = text[:PROMPT_CAP] if text and _typed(payload, text) else None
        return second_best


def _first(path: str) -> _First:
    piece = files.first_lines(path, HEAD)
    first = _First(piece)
    if first.prompt is None and len(piece.data) < min(piece.size, HEAD_CAP):
        first = _First(files.head(path, HEAD_CAP))
    return first


class _Last:
    """The end, taken line by line from the last: the last turn event, its context, the totals."""

    def __init__(self, path: str, look: Look, version: str | None) -> None:
        self._path, self._look, self._version = path, look, version
        self._answered: set[bytes | None] = set()
        self.at: float | None = None
        self.turn: Turn | None = None
        self.turn_id: bytes | None = None
        self.unknown = False  # a turn event that we do not understand stands last
        self.within: Turn | None = None  # the newest record that only an open turn writes
        self.question: Turn | None = None
        self.escalation: Call | None = None
        self.context: dict[str, Any] = {}
        self.tokens: Tokens | None = None
        self.garbled = 0

    @property
    def enough(self) -> bool:
        return (self.turn is not None or self.unknown) and bool(self.context) and self.tokens is not None

    def take(self, offset: int, raw: bytes) -> None:
        kind, word = _words(raw)
        if kind not in RECORDS:
            self._strange(kind, raw)
            return
        if self.at is None:
            self.at = _at(raw)
        if self.turn is None and not self.unknown:
            self._before_the_turn_event(offset, raw, kind, word)
        if kind == b"turn_context" and not self.context:
            self.context = _payload(raw)
        elif word == b"token_count" and self.tokens is None:
            self.tokens = _tokens(_payload(raw))

    def verdict(self, *, whole: bool) -> Turn | None:
        """The last turn. When it began before the bytes we read, a record of it proves it open."""
        if self.turn is not None and self.turn.claim == "idle":
            return self.turn
        opened = self.turn or (None if whole or self.unknown else self.within)
        return self.question if opened is not None and self.question is not None else opened

    def _before_the_turn_event(self, offset: int, raw: bytes, kind: bytes, word: bytes) -> None:
        if kind == b"event_msg" and word[:5] in (b"task_", b"turn_"):
            self.turn_id = _field(raw, b'"turn_id":"') or self.turn_id
            self._turn_event(offset, raw, word)
        elif kind == b"token_usage_record" or word in WITHIN_A_TURN or _spoken(raw, word):
            self.turn_id = self.turn_id or _field(raw, b'"turn_id":"')
            if self.within is None:
                note = f"{(word or kind).decode()}: of a turn that began further back"
                self.within = Turn("working", at=_at(raw), offset=offset, note=note)
            if word in OUTPUTS:
                self._answered.add(_field(raw, b'"call_id":"'))
            elif word == b"function_call":
                self._call(offset, raw)

    def _turn_event(self, offset: int, raw: bytes, word: bytes) -> None:
        at, name = _at(raw), word.decode("utf-8", "replace")
        if word in STARTED:
            self.turn = Turn("working", at=at, offset=offset, note=name)
        elif word in COMPLETE:
            error = _payload(raw).get("error")  # a failed turn has no event of its own
            note = f"{name}: {_dict(error).get('message') or error}" if error else name
            self.turn = Turn("idle", "failed" if error else "completed", at, offset, note)
        elif word == b"turn_aborted":
            note = f"{name}: {_payload(raw).get('reason')}"
            self.turn = Turn("idle", "interrupted", at, offset, note)
        else:
            self.unknown = True
            self._look.drift("turn event", name, self._version, f"{self._path}@{offset}")

    def _call(self, offset: int, raw: bytes) -> None:
        """Keeps the newest unanswered call that a person may have to answer."""
        if b'"name":"request_user_input"' not in raw and b"require_escalated" not in raw:
            return
        if self.question or self.escalation or _field(raw, b'"call_id":"') in self._answered:
            return
        payload = _payload(raw)
        given = jsonl.parse(str(payload.get("arguments")).encode()) or {}
        if payload.get("name") == "request_user_input":
            note = "request_user_input has no output"
            self.question = Turn("waiting", "question", _at(raw), offset, note)
        elif given.get("sandbox_permissions") == "require_escalated":
            what = str(given.get("cmd") or given.get("command") or payload.get("name"))
            self.escalation = Call(str(payload.get("call_id")), offset, _at(raw), what[:200])

    def _strange(self, kind: bytes, raw: bytes) -> None:
        if jsonl.parse(raw) is None:
            self.garbled += 1
        else:
            self._look.drift("record type", kind.decode("utf-8", "replace"), self._version, self._path)


def _words(raw: bytes) -> tuple[bytes, bytes]:
    """The record's type and, where it directly follows, its payload's."""
    start = raw.find(b'"type":"') + 8
    if start < 8:
        return b"", b""
    end = raw.find(b'"', start)
    inner = end + 21
    if raw[end + 1 : inner] != b',"payload":{"type":"':
        return raw[start:end], b""
    return raw[start:end], raw[inner : raw.find(b'"', inner)]


def _spoken(raw: bytes, word: bytes) -> bool:
    """Something said, as an item: unlike a background terminal's, it is never late."""
    return word == b"item_completed" and (
        b'"item":{"type":"UserMessage"' in raw or b'"item":{"type":"AgentMessage"' in raw
    )


def _field(raw: bytes, key: bytes) -> bytes | None:
    start = raw.find(key) + len(key)
    return raw[start : raw.find(b'"', start)] if start >= len(key) else None


def _at(raw: bytes) -> float | None:
    found = _field(raw[:64], b'{"timestamp":"')
    return clock.parse(found.decode("ascii", "replace")) if found else None


def _meta(raw: bytes) -> dict[str, Any]:
    """session_meta without the instructions, which are the bulk of it and of no use here."""
    before, cut, _ = raw.partition(b',"base_instructions":')
    return (_payload(before + b"}}") if cut else {}) or _payload(raw)


def _payload(raw: bytes) -> dict[str, Any]:
    return _dict((jsonl.parse(raw) or {}).get("payload"))


def _said(payload: dict[str, Any]) -> str | None:
    return _text(payload.get("message")) or _joined(_dict(payload.get("item")).get("content"))


def _joined(content: Any) -> str | None:
    parts = content if isinstance(content, list) else ()
    return "\n".join(p["text"] for p in parts if isinstance(p, dict) and _text(p.get("text"))) or None


def _typed(payload: dict[str, Any], text: str) -> bool:
    """Whether a user-role text is a person's. Codex also says there what it wants the model to know."""
    kinds = _dict(payload.get("internal_chat_message_metadata_passthrough")).get("content_item_kinds")
    if isinstance(kinds, list):
        return "user.text" in kinds
    return not text.lstrip().startswith(("<", "# AGENTS.md"))  # older versions do not tell


def _tokens(payload: dict[str, Any]) -> Tokens | None:
    """Totals of the thread; `info` is null after a failed request."""
    total = _dict(_dict(payload.get("info")).get("total_token_usage"))
    if not total:
        return None
    names = ("input_tokens", "output_tokens", "cached_input_tokens", "cache_write_input_tokens")
    return Tokens(*(v if isinstance(v := total.get(name), int) else None for name in names))


def _entry_point(meta: dict[str, Any]) -> EntryPoint | None:
    """How it was first started. `source` is "vscode" for every thread of a daemon: not telling."""
    if meta.get("originator") == "codex_exec" or meta.get("source") == "exec":
        return "headless"
    if meta.get("originator") == "codex-tui" or meta.get("source") == "cli":
        return "interactive"
    return None


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None
