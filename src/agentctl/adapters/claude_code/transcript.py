"""What a Claude Code transcript (`projects/SLUG/ID.jsonl`) says: its facts and its last turn.

Quirks that shape this reader: one trivial turn writes 130 KB, most of it bookkeeping, so lines are
skipped by their first bytes; lines of one flush (up to 100 ms) may stand in any order, so the latest
*timestamp* tells, not the last line; a message is one line per content block.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

from agentctl.adapters.claude_code.lines import (
    REQUESTED,
    SYNTHETIC,
    Said,
    said_by,
    user_line,
    words,
)
from agentctl.system import clock, files, jsonl
from agentctl.system.files import Piece
from agentctl.system.jsonl import as_dict, as_text
from agentctl.truth.look import Look
from agentctl.truth.model import PROMPT_CAP, EntryPoint, Facts, Tokens, Turn
from agentctl.truth.observe import torn

ENDED_WINDOW = 1 << 14  # of a session nobody runs: history is read by the thousand
DISORDER = 1.0  # seconds within which lines may stand out of order; a flush takes 0.1

# Lines that begin with their type are bookkeeping, except these.
_PLAIN = (b'{"type":"api-request",', b'{"type":"user"', b'{"type":"assistant"', b'{"type":"system"')


class _Told(NamedTuple):
    stamp: str
    offset: int
    said: Said


class _Recent(NamedTuple):
    turn: Turn | None
    decided: bool  # a line was found that says it outright
    last: jsonl.Record  # the newest message line
    last_at: float | None
    model: str | None


def read_live(path: str, look: Look) -> Facts:
    return _read(path, look, files.WINDOW)


def read_ended(path: str, look: Look) -> Facts:
    return _read(path, look, ENDED_WINDOW)


def _read(path: str, look: Look, window: int) -> Facts:
    """Head for what never changes, tail for what does."""
    tally = jsonl.Tally()
    piece = files.tail(path, window)
    recent = _recent(piece, tally, look)
    # 2.1.325 writes a 70 KB prompt_snapshot between the first reply and the end of its turn, and
    # several hundred if a person has appended to the system prompt
    for wider in (8, 64):
        if not recent.decided and piece.offset:
            tally, piece = jsonl.Tally(), files.tail(path, window * wider)
            recent = _recent(piece, tally, look)
    first, started_at, prompt = _opening(piece, tally)
    tokens, cost = _spent(piece)
    last = recent.last or first
    return Facts(
        cwd=_directory(first.get("cwd"), last.get("cwd")),
        model=recent.model,
        title=_title(piece),
        prompt=prompt,
        started_at=started_at,
        last_activity_at=recent.last_at,
        tokens=tokens,
        cost_usd=cost,
        entry_point=entry_point(last.get("sessionKind"), last.get("entrypoint")),
        agent_version=as_text(last.get("version")),
        parent_id=as_text(as_dict(first.get("forkedFrom")).get("sessionId")),
        turn=torn(recent.turn, piece),
        garbled=tally.garbled,
    )


def entry_point(kind: object, entrypoint: object) -> EntryPoint | None:
    # `kind` is "interactive" even for `claude -p`: only "bg" can be believed.
    if kind == "bg":
        return "background"
    if entrypoint == "cli":
        return "interactive"
    return "headless" if isinstance(entrypoint, str) and entrypoint.startswith("sdk-") else None


# the last turn


def _recent(piece: Piece, tally: jsonl.Tally, look: Look) -> _Recent:
    told: list[_Told] = []
    last: jsonl.Record = {}
    latest, floor, model, settled = "", "", None, False
    for offset, record in jsonl.newest_first(piece, tally, _telling):
        stamp = as_text(record.get("timestamp")) or ""
        if floor and stamp > floor and _before(floor, stamp):
            break  # the clock was set back in between: where a line stands tells, not its time
        latest = max(stamp, latest)  # all of one form, in UTC: they sort as text
        last = last or (record if "cwd" in record else {})
        model = model or _model(record)
        if not settled and (said := said_by(record)) is not None:
            told.append(_Told(stamp, offset, said))
            floor = floor or (stamp if said != REQUESTED else "")
            settled = not said.closes and _before(stamp, latest)
        if settled and model:
            break
    told.sort(reverse=True)
    # a request may be noted after its reply, with 70 KB of what was asked in between: alone it
    # decides nothing
    decided = any(not each.said.closes and each.said != REQUESTED for each in told)
    return _Recent(_turn(told, piece.path, last, look), decided, last, clock.parse(latest), model)


def _before(stamp: str, latest: str) -> bool:
    """Whether what stands further up than this line is earlier than the latest, too."""
    if stamp[:19] == latest[:19]:  # within a second: spares the parsing
        return False
    return (clock.parse(stamp) or 0.0) < (clock.parse(latest) or 0.0) - DISORDER


def _telling(raw: bytes) -> bool:
    """Whether the line may say something of the turn, by its first bytes."""
    if raw.startswith(b'{"type":"'):
        return raw.startswith(_PLAIN)
    start = raw[:200]
    if b'"type":"system"' in start:
        return b'"subtype":"turn_duration"' in start or b'"subtype":"api_error"' in start
    return b'"attachment":{' not in start or b'"max_turns_reached"' in start


def _turn(told: list[_Told], path: str, last: jsonl.Record, look: Look) -> Turn | None:
    """The latest line decides; one that merely closes leaves the ending to the one before it."""
    closing: Turn | None = None
    for stamp, offset, said in told:
        if said.claim == "drift":
            look.drift("stop_reason", said.note, as_text(last.get("version")), f"{path}@{offset}")
            return closing
        if said.claim == "silent" or (closing is not None and said.claim == "working"):
            return closing
        turn = Turn(said.claim, said.detail, clock.parse(stamp), offset, said.note)
        if not said.closes:
            return turn
        closing = closing or turn
    return closing


# head, title, usage


def _opening(piece: Piece, tally: jsonl.Tally) -> tuple[jsonl.Record, float | None, str | None]:
    """The first message line, the first time, the first prompt. Reads further while the prompt is
    longer than the window; after that it stays unknown."""
    length = 4096
    while True:
        first, ours = piece, jsonl.Tally()  # the whole file: its lines were counted already
        if not piece.whole:
            first, ours = files.first_lines(piece.path, length), tally
        message: jsonl.Record = {}
        started = prompt = None
        for _, record in jsonl.oldest_first(first, ours, _opens):
            started = started or clock.parse(record.get("timestamp"))
            if record.get("type") == "user":
                message = message or record
                prompt = prompt or _prompt(record)
            if prompt:
                break
        torn = _opens(first.data[first.data.rfind(b"\n") + 1 :][:400])
        if prompt or first.whole or length >= (files.WINDOW_CAP if torn else 1 << 15):
            return message, started, prompt
        length *= 8


def _opens(raw: bytes) -> bool:
    return b'"type":"user"' in raw[:400] or raw.startswith(b'{"type":"queue-operation"')


def _prompt(record: jsonl.Record) -> str | None:
    said = None if record.get("isSidechain") else user_line(record)
    return words(record)[:PROMPT_CAP] if said is not None and said.note == "prompt" else None


def _last(piece: Piece, kind: bytes) -> tuple[int, jsonl.Record] | None:
    """(where it ends, the last record of this type)."""
    start = piece.data.rfind(b'{"type":"' + kind + b'"', -files.WINDOW)
    end = piece.data.find(b"\n", start)
    if start < 0 or end < 0 or piece.data[start - 1 : start] not in (b"\n", b""):
        return None
    record = jsonl.parse(piece.data[start:end])
    return None if record is None else (end, record)


def _title(piece: Piece) -> str | None:
    for kind, key in ((b"custom-title", "customTitle"), (b"ai-title", "aiTitle")):
        found = _last(piece, kind)
        if found is not None and (title := as_text(found[1].get(key))):
            return title
    return None


def _spent(piece: Piece) -> tuple[Tokens | None, float | None]:
    """Totals, where they are totals: `cost-state` is cumulative but written only at an exit, so one
    that a later reply has overtaken tells nothing."""
    found = _last(piece, b"cost-state")
    if found is None:
        return (_summed(_replies(piece, 0)) if piece.whole else None), None
    end, state = found
    if any(True for _ in _replies(piece, end + 1)):
        return None, None
    usage = [as_dict(used) for used in as_dict(state.get("modelUsage")).values()]
    keys = ("inputTokens", "outputTokens", "cacheReadInputTokens", "cacheCreationInputTokens")
    cost = state.get("totalCostUSD")
    if not isinstance(cost, int | float) or state.get("hasUnknownModelCost"):
        cost = None
    return Tokens(*(_sum(usage, key) for key in keys)), cost


def _replies(piece: Piece, start: int) -> Iterator[jsonl.Record]:
    """The model's own lines from there on. An aborted one is flushed after the cost-state."""
    rest = Piece(piece.path, piece.data[start:], piece.offset + start, piece.size, piece.modified)
    for _, record in jsonl.oldest_first(rest, jsonl.Tally(), _is_reply):
        if not record.get("isAbortedMidStream"):
            yield record


def _is_reply(raw: bytes) -> bool:
    return b'"role":"assistant"' in raw and b'"model":"<synthetic>"' not in raw and _telling(raw)


def _summed(replies: Iterator[jsonl.Record]) -> Tokens:
    """Each block's line repeats the usage of its whole message."""
    messages = (as_dict(record.get("message")) for record in replies)
    usage = {str(message.get("id")): as_dict(message.get("usage")) for message in messages}
    keys = ("input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
    return Tokens(*(_sum(list(usage.values()), key) for key in keys))


def _sum(usage: list[jsonl.Record], key: str) -> int:
    return sum(n for used in usage if isinstance(n := used.get(key), int))


def _model(record: jsonl.Record) -> str | None:
    if record.get("type") != "assistant" or record.get("isSidechain"):
        return None
    model = as_text(as_dict(record.get("message")).get("model"))
    return None if model == SYNTHETIC else model


def _directory(first: object, last: object) -> str | None:
    """Where it works: `cwd` follows a `cd` inside the project, which is no move; a resume elsewhere
    is one."""
    began, now = as_text(first), as_text(last)
    if began and now and not f"{now}/".startswith(began.rstrip("/") + "/"):
        return now
    return began or now


# where it is


def find(root: str, session_id: str, cwd: str | None, look: Look) -> str | None:
    """By id. A session resumed in another directory goes on in its first one's file."""
    projects, name = f"{root}/projects", f"{session_id}.jsonl"
    near = f"{projects}/{slug(cwd)}/{name}" if cwd else ""
    if near and look.status(near) is not None:
        return near
    paths = (f"{projects}/{project}/{name}" for project in look.names(projects))
    return next((path for path in paths if look.status(path) is not None), None)


@lru_cache(512)  # the same few are asked for again and again
def slug(path: str) -> str:
    """The project directory's name for a working directory; two directories may share one."""
    units = memoryview(path.encode("utf-16-le", "surrogatepass")).cast("H")
    name = "".join(chr(unit) if unit < 128 and chr(unit).isalnum() else "-" for unit in units)
    if len(name) <= 200:
        return name
    number = 0
    for unit in units:  # Java's string hash, as a signed 32-bit number
        number = (number * 31 + unit) & 0xFFFFFFFF
    return f"{name[:200]}-{_base36(abs(number - (1 << 32) if number >> 31 else number))}"


def _base36(number: int) -> str:
    digits = ""
    while number:
        number, digit = divmod(number, 36)
        digits = "0123456789abcdefghijklmnopqrstuvwxyz"[digit] + digits
    return digits or "0"
