"""Read a Codex rollout from its two ends; `lines` reads single lines."""

from __future__ import annotations

from agentctl.adapters.codex import lines
from agentctl.errors import Gone, SourceError
from agentctl.light_typing import Any, Iterator, NamedTuple
from agentctl.system import clock, files, jsonl
from agentctl.system.jsonl import as_dict, as_text
from agentctl.truth.look import Look
from agentctl.truth.model import PROMPT_CAP, Facts, Turn
from agentctl.truth.observe import mark_torn, report_torn

ENDED_WINDOW = 1 << 14  # bytes of the tail in history: the last lines have the end of the turn
HEAD = 3 << 14  # session_meta has 20 KB of instructions; the first prompt is at about 32 KB
HEAD_CAP = HEAD * 8  # if AGENTS.md or the prompt itself is long

RECORDS = frozenset(
    (b"session_meta", b"turn_context", b"world_state", b"response_item", b"event_msg",
     b"token_usage_record", b"compacted", b"retained_context")
)  # fmt: skip
TURN_EVENTS = (
    b'"type":"event_msg","payload":{"type":"task_',
    b'"type":"event_msg","payload":{"type":"turn_',
)
# Written only while a turn is open, the most frequent first. (Not all completed items: CommandExecution
# of a background terminal may follow the end of the turn.)
WITHIN_A_TURN = (
    b'"type":"token_usage_record","payload":{', b'"payload":{"type":"function_call',
    b'"item":{"type":"UserMessage"', b'"item":{"type":"AgentMessage"',
    b'"payload":{"type":"custom_tool_call', b'"payload":{"type":"reasoning"',
)  # fmt: skip
CALLS = (b"function_call", b"custom_tool_call")
# Codex's own tools that never need the user's approval. Any other may: tools that run a command or write
# files, those of an MCP server, and unknown ones.
FREE_TOOLS = frozenset(
    (b"write_stdin", b"view_image", b"update_plan", b"list_mcp_resources",
     b"list_mcp_resource_templates", b"read_mcp_resource", b"close_agent", b"resume_agent",
     b"send_input", b"spawn_agent", b"wait_agent", b"get_goal", b"create_goal", b"update_goal",
     b"request_user_input")
)  # fmt: skip
OUTPUTS = frozenset((b"function_call_output", b"custom_tool_call_output"))
STARTED = frozenset((b"task_started", b"turn_started"))
COMPLETE = frozenset((b"task_complete", b"turn_complete"))


class Call(NamedTuple):
    """A call without output, of a tool that may need the user's approval."""

    id: str
    offset: int
    at: float | None
    what: str
    is_escalated: bool  # asks to leave the sandbox


class Rollout(NamedTuple):
    facts: Facts = Facts()
    pending: tuple[Call, ...] = ()  # newest first; empty also if Codex never asks the user
    is_blank: bool = False  # the whole file was read, and it has no prompt


def read_thread_id(name: str) -> str | None:
    """Return the id from `rollout-2026-11-15T04-53-22-<uuid>.jsonl`; None if it is no rollout."""
    id_, end = name[28:64], name[64:]
    is_rollout = end in (".jsonl", ".jsonl.zst")
    return id_ if is_rollout and name.startswith("rollout-") and is_id(id_) else None


def is_id(text: str) -> bool:
    return len(text) == 36 and text[8:24:5] == "----" and text.replace("-", "").isalnum()


def read_creation_time(session_id: str) -> float | None:
    """Return the time in a UUIDv7; None for the random ids of old versions."""
    try:
        return int(session_id[:8] + session_id[9:13], 16) / 1000 if session_id[14] == "7" else None
    except ValueError:
        return None


def read_facts(path: str, look: Look) -> Facts:
    return read_rollout(path, look, ENDED_WINDOW).facts


def read_rollout(path: str, look: Look, window: int = files.WINDOW) -> Rollout:
    piece = files.read_tail(path, window)
    first = _Head(piece) if piece.is_whole else _read_head(path)
    meta = first.meta
    version = as_text(meta.get("cli_version"))
    if not meta and first.has_begun:
        look.report_drift("first record", first.kind.decode("utf-8", "replace"), None, path)
    last = _Tail(piece, path, look)
    context = last.context or (first.context() if first.turn_id == last.turn_id else {})
    facts = Facts(
        cwd=as_text(context.get("cwd")) or as_text(meta.get("cwd")),
        model=as_text(context.get("model")),
        prompt=first.prompt,
        started_at=clock.parse_time(meta.get("timestamp")),
        last_activity_at=last.at,
        tokens=last.tokens,
        entry_point=lines.read_entry_point(meta),
        agent_version=version,
        parent_id=as_text(meta.get("parent_thread_id")) or as_text(meta.get("forked_from_id")),
        turn=mark_torn(last.turn(version, is_whole=piece.is_whole), piece),
        garbled=last.garbled,
    )
    # Codex creates the file with its first record, so an empty file was truncated.
    is_blank = (
        piece.is_whole and first.has_begun and last.is_silent and not first.prompt and not last.garbled
    )
    turn = facts.turn
    may_ask = turn is not None and turn.claim == "working" and _asks_user(context)
    pending = sorted(last.pending(), key=lambda call: -call.offset) if may_ask else ()
    return Rollout(facts, tuple(pending), is_blank)


def _asks_user(context: dict[str, Any]) -> bool:
    """Return True if the user approves calls. With `--approve-for-me` a model does."""
    reviewer = context.get("approvals_reviewer") or "user"
    return context.get("approval_policy") != "never" and reviewer == "user"


def _to_call(line: jsonl.Line) -> Call:
    payload = lines.read_payload(line.raw)
    arguments = jsonl.parse_record(str(payload.get("arguments")).encode()) or {}
    name = ".".join(str(payload[key]) for key in ("namespace", "name") if payload.get(key))
    what = str(arguments.get("cmd") or arguments.get("command") or name)
    is_escalated = arguments.get("sandbox_permissions") == "require_escalated"
    return Call(str(payload.get("call_id")), line.offset, lines.read_time(line.raw), what, is_escalated)


class _Head:
    """The beginning: what never changes, and the first prompt."""

    def __init__(self, piece: files.Piece) -> None:
        rest = jsonl.lines_forwards(piece)
        opening = next(rest, jsonl.Line(0, b"")).raw
        self.has_begun = bool(opening)
        self.kind = lines.read_types(opening)[0]
        self.meta = lines.read_meta(opening) if self.kind == b"session_meta" else {}
        self._context = b""
        self.prompt = self._read_prompt(rest)

    @property
    def turn_id(self) -> bytes | None:
        return lines.read_field(self._context, b'"turn_id":"')

    def context(self) -> dict[str, Any]:
        return lines.read_payload(self._context)

    def _read_prompt(self, rest: Iterator[jsonl.Line]) -> str | None:
        """Return the first typed prompt: of an event, else of a response item."""
        second_best = None
        for _, raw in rest:
            kind, word = lines.read_types(raw)
            if kind == b"turn_context" and not self._context:
                self._context = raw
            elif word == b"user_message" or (
                word == b"item_completed" and b'"type":"UserMessage"' in raw
            ):
                if text := lines.read_event_text(lines.read_payload(raw)):
                    return text[:PROMPT_CAP]
            elif word == b"message" and second_best is None and b'"role":"user"' in raw:
                payload = lines.read_payload(raw)
                text = lines.join_text(payload.get("content"))
                second_best = text[:PROMPT_CAP] if text and lines.is_typed(payload, text) else None
        return second_best


def read_live(path: str, look: Look) -> Rollout:
    """Return the rollout of a live thread, and report what cannot be read."""
    if path.endswith(".zst"):
        look.report_problem("unsupported", "a compressed rollout (.jsonl.zst)", path)
        return Rollout()
    try:
        rollout = look.read_file(path, read_rollout)
    except Gone:
        return Rollout()
    except SourceError as error:
        look.report_unreadable(error)
        return Rollout()
    if rollout.facts.garbled:
        look.report_problem("malformed", f"{rollout.facts.garbled} records not readable", path)
    report_torn(look, rollout.facts, path)
    return rollout


def _read_head(path: str) -> _Head:
    piece = files.read_first_lines(path, HEAD)
    first = _Head(piece)
    if first.prompt is None and len(piece.data) < min(piece.size, HEAD_CAP):
        first = _Head(files.read_head(path, HEAD_CAP))
    return first


class _Tail:
    """The end: the last turn event, its context, the totals. Searching backwards for their bytes takes a
    fortieth of the time of parsing every line."""

    def __init__(self, piece: files.Piece, path: str, look: Look) -> None:
        self._path, self._look, self._offset = path, look, piece.offset
        self._data = piece.data[: piece.data.rfind(b"\n") + 1]  # a line without its end is being written
        self.at, self.garbled = self._check_lines()
        event = max(filter(None, map(self._find_last, TURN_EVENTS)), default=None)
        self._rest = 0 if event is None else event.offset - self._offset + len(event.raw)
        proof = event or next(filter(None, map(self._find_last, WITHIN_A_TURN)), None)
        self.turn_id = lines.read_field(proof.raw, b'"turn_id":"') if proof is not None else None
        self.is_silent = proof is None
        context = self._find_last(b'"type":"turn_context","payload":{')
        self.context = lines.read_payload(context.raw) if context is not None else {}
        usage = self._find_last(b'"payload":{"type":"token_count","info":{')
        self.tokens = lines.read_tokens(lines.read_payload(usage.raw)) if usage is not None else None
        self._event, self._proof = event, proof

    def turn(self, version: str | None, *, is_whole: bool) -> Turn | None:
        """Return the last turn. If it began before the bytes that we read, any of its records proves it
        open."""
        if self._event is not None:
            turn = self._read_event(self._event, version)
        elif is_whole or self._proof is None:
            return None
        else:
            note = "a record of a turn that began further back"
            turn = Turn(
                "working", at=lines.read_time(self._proof.raw), offset=self._proof.offset, note=note
            )
        if turn is None or turn.claim == "idle":
            return turn
        question = next(self._find_unanswered(b'"name":"request_user_input"'), None)
        if question is None:
            return turn
        note = "request_user_input has no output"
        return Turn("waiting", "question", lines.read_time(question.raw), question.offset, note)

    def pending(self) -> Iterator[Call]:
        for kind in CALLS:
            for line in self._find_unanswered(b'"payload":{"type":"%b"' % kind):
                if (lines.read_field(line.raw, b'"name":"') or b"") not in FREE_TOOLS:
                    yield _to_call(line)

    def _read_event(self, event: jsonl.Line, version: str | None) -> Turn | None:
        word, at, offset = lines.read_types(event.raw)[1], lines.read_time(event.raw), event.offset
        name = word.decode("utf-8", "replace")
        if word in STARTED:
            return Turn("working", at=at, offset=offset, note=name)
        if word in COMPLETE:
            error = lines.read_payload(event.raw).get("error")  # a failed turn has no event of its own
            note = f"{name}: {as_dict(error).get('message') or error}" if error else name
            return Turn("idle", "failed" if error else "completed", at, offset, note)
        if word == b"turn_aborted":
            note = f"{name}: {lines.read_payload(event.raw).get('reason')}"
            return Turn("idle", "interrupted", at, offset, note)
        self._look.report_drift("turn event", name, version, f"{self._path}@{offset}")
        return None

    def _find_unanswered(self, needle: bytes) -> Iterator[jsonl.Line]:
        """Yield calls of the open turn that contain these bytes and have no output, newest first."""
        line = self._find_last(needle)
        while line is not None and line.offset - self._offset >= self._rest:
            if lines.read_types(line.raw)[1] in CALLS and not self._is_answered(line):
                yield line
            line = self._find_last(needle, line.offset - self._offset)

    def _is_answered(self, call: jsonl.Line) -> bool:
        mark = b'"call_id":"%b"' % (lines.read_field(call.raw, b'"call_id":"') or b"")
        at = self._data.find(mark, call.offset - self._offset + len(call.raw))
        while at >= 0:
            line = self._line(at)
            if lines.read_types(line.raw)[1] in OUTPUTS:
                return True
            at = self._data.find(mark, line.offset - self._offset + len(line.raw))
        return False

    def _find_last(self, needle: bytes, end: int | None = None) -> jsonl.Line | None:
        at = self._data.rfind(needle, 0, end)
        return self._line(at) if at >= 0 else None

    def _line(self, at: int) -> jsonl.Line:
        start = self._data.rfind(b"\n", 0, at) + 1
        return jsonl.Line(self._offset + start, self._data[start : self._data.find(b"\n", at)])

    def _check_lines(self) -> tuple[float | None, int]:
        """Return when the last record was written, and how many lines are garbled. An unknown layout
        shows at the latest in the last line."""
        data = self._data
        if not data:
            return None, 0
        last = self._line(len(data) - 1).raw
        starts = data.count(b'\n{"timestamp":"') + data.startswith(b'{"timestamp":"')
        if starts == data.count(b"\n") and lines.read_types(last)[0] in RECORDS:
            return lines.read_time(last), 0
        piece = files.Piece(self._path, data, self._offset, 0, 0.0)
        unknown = [
            raw for _, raw in jsonl.lines_backwards(piece) if lines.read_types(raw)[0] not in RECORDS
        ]
        garbled = [raw for raw in unknown if jsonl.parse_record(raw) is None]
        for word in {lines.read_types(raw)[0] for raw in unknown if raw not in garbled}:
            self._look.report_drift("record type", word.decode("utf-8", "replace"), None, self._path)
        return lines.read_time(last), len(garbled)
