"""What a Codex rollout says of its thread, read from its two ends; `lines` reads single lines."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from agentctl.adapters.codex import lines as record
from agentctl.errors import Gone, SourceError
from agentctl.system import clock, files, jsonl
from agentctl.system.jsonl import as_dict, as_text
from agentctl.truth.look import Look
from agentctl.truth.model import PROMPT_CAP, Facts, Turn
from agentctl.truth.observe import report_torn, torn

COLD = 1 << 14  # tail of a rollout in history: its turn's end is in the last lines
HEAD = 3 << 14  # session_meta carries 20 KB of instructions; the first prompt stands at about 32 KB
HEAD_CAP = HEAD * 8  # and further back when AGENTS.md or the prompt itself is long

RECORDS = frozenset(
    (b"session_meta", b"turn_context", b"world_state", b"response_item", b"event_msg",
     b"token_usage_record", b"compacted", b"retained_context")
)  # fmt: skip
TURN_EVENTS = (
    b'"type":"event_msg","payload":{"type":"task_',
    b'"type":"event_msg","payload":{"type":"turn_',
)
# Written only while a turn is open, the most frequent first. (Of the items completed, a background
# terminal's CommandExecution may follow the turn's end.)
WITHIN_A_TURN = (
    b'"type":"token_usage_record","payload":{', b'"payload":{"type":"function_call',
    b'"item":{"type":"UserMessage"', b'"item":{"type":"AgentMessage"',
    b'"payload":{"type":"custom_tool_call', b'"payload":{"type":"reasoning"',
)  # fmt: skip
CALLS = (b"function_call", b"custom_tool_call")
# Codex's own tools for which no person is ever asked. Any other may be asked about: what runs a command
# or writes files, what an MCP server offers, and what we do not know.
UNASKED = frozenset(
    (b"write_stdin", b"view_image", b"update_plan", b"list_mcp_resources",
     b"list_mcp_resource_templates", b"read_mcp_resource", b"close_agent", b"resume_agent",
     b"send_input", b"spawn_agent", b"wait_agent", b"get_goal", b"create_goal", b"update_goal",
     b"request_user_input")
)  # fmt: skip
OUTPUTS = frozenset((b"function_call_output", b"custom_tool_call_output"))
STARTED = frozenset((b"task_started", b"turn_started"))
COMPLETE = frozenset((b"task_complete", b"turn_complete"))


class Call(NamedTuple):
    """A call that has no output yet, of a tool that a person may be asked about."""

    id: str
    offset: int
    at: float | None
    what: str
    escalated: bool  # asks to leave the sandbox


class Rollout(NamedTuple):
    facts: Facts = Facts()
    pending: tuple[Call, ...] = ()  # newest first; none: no such call, or no person is ever asked
    blank: bool = False  # the whole file was read and nobody has ever prompted it


def thread_id(name: str) -> str | None:
    """The thread in a file name `rollout-2026-11-15T04-53-22-<uuid>.jsonl`; None: no rollout."""
    found, end = name[28:64], name[64:]
    packed_or_not = end in (".jsonl", ".jsonl.zst")
    return found if packed_or_not and name.startswith("rollout-") and is_id(found) else None


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
    version = as_text(meta.get("cli_version"))
    if not meta and first.begun:
        look.drift("first record", first.kind.decode("utf-8", "replace"), None, path)
    last = _Last(piece, path, look)
    context = last.context or (first.context() if first.turn_id == last.turn_id else {})
    facts = Facts(
        cwd=as_text(context.get("cwd")) or as_text(meta.get("cwd")),
        model=as_text(context.get("model")),
        prompt=first.prompt,
        started_at=clock.parse(meta.get("timestamp")),
        last_activity_at=last.at,
        tokens=last.tokens,
        entry_point=record.entry_point_of(meta),
        agent_version=version,
        parent_id=as_text(meta.get("parent_thread_id")) or as_text(meta.get("forked_from_id")),
        turn=torn(last.turn(version, whole=piece.whole), piece),
        garbled=last.garbled,
    )
    # Codex writes the first record when it makes the file, so an empty file was truncated
    blank = piece.whole and first.begun and last.silent and not first.prompt and not last.garbled
    turn = facts.turn
    may_ask = turn is not None and turn.claim == "working" and _asks_a_person(context)
    pending = sorted(last.pending(), key=lambda call: -call.offset) if may_ask else ()
    return Rollout(facts, tuple(pending), blank)


def _asks_a_person(context: dict[str, Any]) -> bool:
    """With `--approve-for-me` a model decides, and nobody is waited for."""
    reviewer = context.get("approvals_reviewer") or "user"
    return context.get("approval_policy") != "never" and reviewer == "user"


def _call(line: jsonl.Line) -> Call:
    payload = record.payload_of(line.raw)
    arguments = jsonl.parse(str(payload.get("arguments")).encode()) or {}
    named = ".".join(str(payload[key]) for key in ("namespace", "name") if payload.get(key))
    what = str(arguments.get("cmd") or arguments.get("command") or named)
    escalated = arguments.get("sandbox_permissions") == "require_escalated"
    return Call(str(payload.get("call_id")), line.offset, record.moment(line.raw), what, escalated)


class _First:
    """The beginning: what never changes, and the first prompt."""

    def __init__(self, piece: files.Piece) -> None:
        lines = jsonl.lines_forwards(piece)
        opening = next(lines, jsonl.Line(0, b"")).raw
        self.begun = bool(opening)
        self.kind = record.words(opening)[0]
        self.meta = record.meta_of(opening) if self.kind == b"session_meta" else {}
        self._context = b""
        self.prompt = self._prompt(lines)

    @property
    def turn_id(self) -> bytes | None:
        return record.field(self._context, b'"turn_id":"')

    def context(self) -> dict[str, Any]:
        return record.payload_of(self._context)

    def _prompt(self, lines: Iterator[jsonl.Line]) -> str | None:
        """The first that a person typed; a response item only where no event repeats it."""
        second_best = None
        for _, raw in lines:
            kind, word = record.words(raw)
            if kind == b"turn_context" and not self._context:
                self._context = raw
            elif word == b"user_message" or (
                word == b"item_completed" and b'"type":"UserMessage"' in raw
            ):
                if text := record.said(record.payload_of(raw)):
                    return text[:PROMPT_CAP]
            elif word == b"message" and second_best is None and b'"role":"user"' in raw:
                payload = record.payload_of(raw)
                text = record.joined(payload.get("content"))
                second_best = text[:PROMPT_CAP] if text and record.typed(payload, text) else None
        return second_best


def examined(path: str, look: Look) -> Rollout:
    """What it says; what cannot be read is told."""
    if path.endswith(".zst"):
        look.problem("unsupported", "a compressed rollout (.jsonl.zst)", path)
        return Rollout()
    try:
        said = look.read(path, examine)
    except Gone:
        return Rollout()
    except SourceError as error:
        look.unreadable(error)
        return Rollout()
    if said.facts.garbled:
        look.problem("malformed", f"{said.facts.garbled} records not readable", path)
    report_torn(look, said.facts, path)
    return said


def _first(path: str) -> _First:
    piece = files.first_lines(path, HEAD)
    first = _First(piece)
    if first.prompt is None and len(piece.data) < min(piece.size, HEAD_CAP):
        first = _First(files.head(path, HEAD_CAP))
    return first


class _Last:
    """The end: the last turn event, its context, the totals. Found by searching backwards for their
    bytes, which costs a fortieth of looking at every line."""

    def __init__(self, piece: files.Piece, path: str, look: Look) -> None:
        self._path, self._look, self._offset = path, look, piece.offset
        self._data = piece.data[: piece.data.rfind(b"\n") + 1]  # a line without its end is being written
        self.at, self.garbled = self._health()
        event = max(filter(None, map(self._last, TURN_EVENTS)), default=None)
        self._rest = 0 if event is None else event.offset - self._offset + len(event.raw)
        proof = event or next(filter(None, map(self._last, WITHIN_A_TURN)), None)
        self.turn_id = record.field(proof.raw, b'"turn_id":"') if proof is not None else None
        self.silent = proof is None
        context = self._last(b'"type":"turn_context","payload":{')
        self.context = record.payload_of(context.raw) if context is not None else {}
        usage = self._last(b'"payload":{"type":"token_count","info":{')
        self.tokens = record.tokens_of(record.payload_of(usage.raw)) if usage is not None else None
        self._event, self._proof = event, proof

    def turn(self, version: str | None, *, whole: bool) -> Turn | None:
        """The last turn. When it began before the bytes we read, a record of it proves it open."""
        if self._event is not None:
            turn = self._told(self._event, version)
        elif whole or self._proof is None:
            return None
        else:
            note = "a record of a turn that began further back"
            turn = Turn(
                "working", at=record.moment(self._proof.raw), offset=self._proof.offset, note=note
            )
        if turn is None or turn.claim == "idle":
            return turn
        asked = next(self._unanswered(b'"name":"request_user_input"'), None)
        if asked is None:
            return turn
        note = "request_user_input has no output"
        return Turn("waiting", "question", record.moment(asked.raw), asked.offset, note)

    def pending(self) -> Iterator[Call]:
        for kind in CALLS:
            for line in self._unanswered(b'"payload":{"type":"%b"' % kind):
                if (record.field(line.raw, b'"name":"') or b"") not in UNASKED:
                    yield _call(line)

    def _told(self, event: jsonl.Line, version: str | None) -> Turn | None:
        word, at, offset = record.words(event.raw)[1], record.moment(event.raw), event.offset
        name = word.decode("utf-8", "replace")
        if word in STARTED:
            return Turn("working", at=at, offset=offset, note=name)
        if word in COMPLETE:
            error = record.payload_of(event.raw).get("error")  # a failed turn has no event of its own
            note = f"{name}: {as_dict(error).get('message') or error}" if error else name
            return Turn("idle", "failed" if error else "completed", at, offset, note)
        if word == b"turn_aborted":
            note = f"{name}: {record.payload_of(event.raw).get('reason')}"
            return Turn("idle", "interrupted", at, offset, note)
        self._look.drift("turn event", name, version, f"{self._path}@{offset}")
        return None

    def _unanswered(self, needle: bytes) -> Iterator[jsonl.Line]:
        """Calls of the open turn with these bytes in them and no output, newest first."""
        line = self._last(needle)
        while line is not None and line.offset - self._offset >= self._rest:
            if record.words(line.raw)[1] in CALLS and not self._answered(line):
                yield line
            line = self._last(needle, line.offset - self._offset)

    def _answered(self, call: jsonl.Line) -> bool:
        mark = b'"call_id":"%b"' % (record.field(call.raw, b'"call_id":"') or b"")
        at = self._data.find(mark, call.offset - self._offset + len(call.raw))
        while at >= 0:
            line = self._line(at)
            if record.words(line.raw)[1] in OUTPUTS:
                return True
            at = self._data.find(mark, line.offset - self._offset + len(line.raw))
        return False

    def _last(self, needle: bytes, end: int | None = None) -> jsonl.Line | None:
        at = self._data.rfind(needle, 0, end)
        return self._line(at) if at >= 0 else None

    def _line(self, at: int) -> jsonl.Line:
        start = self._data.rfind(b"\n", 0, at) + 1
        return jsonl.Line(self._offset + start, self._data[start : self._data.find(b"\n", at)])

    def _health(self) -> tuple[float | None, int]:
        """When the last record was written, and how many are none. A layout that we do not know shows
        in the last line at the latest."""
        data = self._data
        if not data:
            return None, 0
        last = self._line(len(data) - 1).raw
        begun = data.count(b'\n{"timestamp":"') + data.startswith(b'{"timestamp":"')
        if begun == data.count(b"\n") and record.words(last)[0] in RECORDS:
            return record.moment(last), 0
        piece = files.Piece(self._path, data, self._offset, 0, 0.0)
        strange = [raw for _, raw in jsonl.lines_backwards(piece) if record.words(raw)[0] not in RECORDS]
        garbled = [raw for raw in strange if jsonl.parse(raw) is None]
        for word in {record.words(raw)[0] for raw in strange if raw not in garbled}:
            self._look.drift("record type", word.decode("utf-8", "replace"), None, self._path)
        return record.moment(last), len(garbled)
