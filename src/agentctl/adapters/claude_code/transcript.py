"""Read facts and the last turn from a Claude Code transcript (`projects/SLUG/ID.jsonl`).

Three quirks shape this reader. One trivial turn writes 130 KB, most of it bookkeeping, so lines are
skipped by their first bytes. Lines of one flush (up to 100 ms) may be in any order, so the latest
*timestamp* counts, not the last line. A message is one line per content block.
"""

from __future__ import annotations

from agentctl import paths
from agentctl.adapters.claude_code.lines import (
    REQUESTED,
    SYNTHETIC,
    LineClaim,
    read_line,
    read_text,
    read_user_line,
)
from agentctl.light_typing import Iterator, NamedTuple
from agentctl.system import clock, files, jsonl
from agentctl.system.files import Piece
from agentctl.system.jsonl import as_dict, as_text
from agentctl.truth.look import Look
from agentctl.truth.model import PROMPT_CAP, EntryPoint, Facts, Tokens, Turn
from agentctl.truth.observe import mark_torn

ENDED_WINDOW = 1 << 14  # bytes for an ended session: history has thousands
DISORDER = 1.0  # seconds within which lines may be out of order; a flush takes 0.1

# Lines that begin with their type are bookkeeping, except these.
_PLAIN = (b'{"type":"api-request",', b'{"type":"user"', b'{"type":"assistant"', b'{"type":"system"')


class _Dated(NamedTuple):
    stamp: str
    offset: int
    line: LineClaim


class _Recent(NamedTuple):
    turn: Turn | None
    is_decided: bool  # a line states the turn outright
    last: jsonl.Record  # the newest message line
    last_at: float | None
    model: str | None


def read_live(path: str, look: Look) -> Facts:
    return _read(path, look, files.WINDOW)


def read_ended(path: str, look: Look) -> Facts:
    return _read(path, look, ENDED_WINDOW)


def _read(path: str, look: Look, window: int) -> Facts:
    """Head for what never changes, tail for what does."""
    tally = jsonl.SkippedLines()
    piece = files.read_tail(path, window)
    recent = _read_recent(piece, tally, look)
    # 2.1.325 writes a prompt_snapshot between the first reply and the end of its turn: 70 KB, or several
    # hundred with an appended system prompt.
    for wider in (8, 64):
        if not recent.is_decided and piece.offset:
            tally, piece = jsonl.SkippedLines(), files.read_tail(path, window * wider)
            recent = _read_recent(piece, tally, look)
    first, started_at, prompt = _read_opening(piece, tally)
    tokens, cost = _read_usage(piece)
    last = recent.last or first
    return Facts(
        cwd=_choose_directory(first.get("cwd"), last.get("cwd")),
        model=recent.model,
        title=_read_title(piece),
        prompt=prompt,
        started_at=started_at,
        last_activity_at=recent.last_at,
        tokens=tokens,
        cost_usd=cost,
        entry_point=read_entry_point(last.get("sessionKind"), last.get("entrypoint")),
        agent_version=as_text(last.get("version")),
        parent_id=as_text(as_dict(first.get("forkedFrom")).get("sessionId")),
        turn=mark_torn(recent.turn, piece),
        garbled=tally.garbled,
    )


def read_entry_point(kind: object, entrypoint: object) -> EntryPoint | None:
    # `kind` is "interactive" even for `claude -p`: only "bg" is reliable.
    if kind == "bg":
        return "background"
    if entrypoint == "cli":
        return "interactive"
    return "headless" if isinstance(entrypoint, str) and entrypoint.startswith("sdk-") else None


# the last turn


def _read_recent(piece: Piece, tally: jsonl.SkippedLines, look: Look) -> _Recent:
    lines: list[_Dated] = []
    last: jsonl.Record = {}
    latest, floor, model, is_settled = "", "", None, False
    for offset, record in jsonl.records_newest_first(piece, tally, _may_matter):
        stamp = as_text(record.get("timestamp")) or ""
        if floor and stamp > floor and _is_before(floor, stamp):
            break  # the clock was set back in between: trust the order of lines, not their times
        latest = max(stamp, latest)  # all have one format, in UTC: they sort as text
        last = last or (record if "cwd" in record else {})
        model = model or _read_model(record)
        if not is_settled and (line := read_line(record)) is not None:
            lines.append(_Dated(stamp, offset, line))
            floor = floor or (stamp if line != REQUESTED else "")
            is_settled = not line.closes and _is_before(stamp, latest)
        if is_settled and model:
            break
    lines.sort(reverse=True)
    # A request may be recorded after its reply, with 70 KB of its content in between: alone it decides
    # nothing.
    is_decided = any(not each.line.closes and each.line != REQUESTED for each in lines)
    return _Recent(
        _decide_turn(lines, piece.path, last, look), is_decided, last, clock.parse_time(latest), model
    )


def _is_before(stamp: str, latest: str) -> bool:
    """Return True if all lines above this one are earlier than the latest."""
    if stamp[:19] == latest[:19]:  # within a second: no need to parse
        return False
    return (clock.parse_time(stamp) or 0.0) < (clock.parse_time(latest) or 0.0) - DISORDER


def _may_matter(raw: bytes) -> bool:
    """Return True if a line may matter for the turn, judged by its first bytes."""
    if raw.startswith(b'{"type":"'):
        return raw.startswith(_PLAIN)
    start = raw[:200]
    if b'"type":"system"' in start:
        return b'"subtype":"turn_duration"' in start or b'"subtype":"api_error"' in start
    return b'"attachment":{' not in start or b'"max_turns_reached"' in start


def _decide_turn(lines: list[_Dated], path: str, last: jsonl.Record, look: Look) -> Turn | None:
    """Return the turn by the latest line. A line that only closes leaves the outcome to the one
    before."""
    closing: Turn | None = None
    for stamp, offset, line in lines:
        if line.claim == "drift":
            look.report_drift("stop_reason", line.note, as_text(last.get("version")), f"{path}@{offset}")
            return closing
        if line.claim == "silent" or (closing is not None and line.claim == "working"):
            return closing
        turn = Turn(line.claim, line.detail, clock.parse_time(stamp), offset, line.note)
        if not line.closes:
            return turn
        closing = closing or turn
    return closing


# head, title, usage


def _read_opening(
    piece: Piece, tally: jsonl.SkippedLines
) -> tuple[jsonl.Record, float | None, str | None]:
    """Return the first message line, the first time and the first prompt. Read further while the prompt
    is longer than the window; a prompt beyond the cap stays unknown."""
    length = 4096
    while True:
        first, skipped = (
            piece,
            jsonl.SkippedLines(),
        )  # the tail is the whole file: its lines are counted already
        if not piece.is_whole:
            first, skipped = files.read_first_lines(piece.path, length), tally
        message: jsonl.Record = {}
        started = prompt = None
        for _, record in jsonl.records_oldest_first(first, skipped, _may_open):
            started = started or clock.parse_time(record.get("timestamp"))
            if record.get("type") == "user":
                message = message or record
                prompt = prompt or _read_prompt(record)
            if prompt:
                break
        is_cut = _may_open(first.data[first.data.rfind(b"\n") + 1 :][:400])
        if prompt or first.is_whole or length >= (files.WINDOW_CAP if is_cut else 1 << 15):
            return message, started, prompt
        length *= 8


def _may_open(raw: bytes) -> bool:
    return b'"type":"user"' in raw[:400] or raw.startswith(b'{"type":"queue-operation"')


def _read_prompt(record: jsonl.Record) -> str | None:
    line = None if record.get("isSidechain") else read_user_line(record)
    return read_text(record)[:PROMPT_CAP] if line is not None and line.note == "prompt" else None


def _find_last(piece: Piece, kind: bytes) -> tuple[int, jsonl.Record] | None:
    """Return the end offset of the last record of this type, and the record."""
    start = piece.data.rfind(b'{"type":"' + kind + b'"', -files.WINDOW)
    end = piece.data.find(b"\n", start)
    if start < 0 or end < 0 or piece.data[start - 1 : start] not in (b"\n", b""):
        return None
    record = jsonl.parse_record(piece.data[start:end])
    return None if record is None else (end, record)


def _read_title(piece: Piece) -> str | None:
    for kind, key in ((b"custom-title", "customTitle"), (b"ai-title", "aiTitle")):
        match = _find_last(piece, kind)
        if match is not None and (title := as_text(match[1].get(key))):
            return title
    return None


def _read_usage(piece: Piece) -> tuple[Tokens | None, float | None]:
    """Return total tokens and cost, if they are totals. `cost-state` is cumulative but written only at
    an exit: after a later reply it is out of date."""
    match = _find_last(piece, b"cost-state")
    if match is None:
        return (_sum_tokens(_read_replies(piece, 0)) if piece.is_whole else None), None
    end, state = match
    if any(True for _ in _read_replies(piece, end + 1)):
        return None, None
    usage = [as_dict(used) for used in as_dict(state.get("modelUsage")).values()]
    keys = ("inputTokens", "outputTokens", "cacheReadInputTokens", "cacheCreationInputTokens")
    cost = state.get("totalCostUSD")
    if not isinstance(cost, int | float) or state.get("hasUnknownModelCost"):
        cost = None
    return Tokens(*(_sum(usage, key) for key in keys)), cost


def _read_replies(piece: Piece, start: int) -> Iterator[jsonl.Record]:
    """Yield the model's lines from there on. An aborted one is flushed after the cost-state."""
    rest = Piece(piece.path, piece.data[start:], piece.offset + start, piece.size, piece.mtime)
    for _, record in jsonl.records_oldest_first(rest, jsonl.SkippedLines(), _is_reply):
        if not record.get("isAbortedMidStream"):
            yield record


def _is_reply(raw: bytes) -> bool:
    return b'"role":"assistant"' in raw and b'"model":"<synthetic>"' not in raw and _may_matter(raw)


def _sum_tokens(replies: Iterator[jsonl.Record]) -> Tokens:
    """Sum the usage of each message once: every block's line repeats it."""
    messages = (as_dict(record.get("message")) for record in replies)
    usage = {str(message.get("id")): as_dict(message.get("usage")) for message in messages}
    keys = ("input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
    return Tokens(*(_sum(list(usage.values()), key) for key in keys))


def _sum(usage: list[jsonl.Record], key: str) -> int:
    return sum(n for used in usage if isinstance(n := used.get(key), int))


def _read_model(record: jsonl.Record) -> str | None:
    if record.get("type") != "assistant" or record.get("isSidechain"):
        return None
    model = as_text(as_dict(record.get("message")).get("model"))
    return None if model == SYNTHETIC else model


def _choose_directory(first: object, last: object) -> str | None:
    """Return the session's directory. `cwd` follows a `cd` inside the project, which is not a move; a
    resume elsewhere is one."""
    old, new = as_text(first), as_text(last)
    if old and new and not paths.is_inside(new, old):
        return new
    return old or new
