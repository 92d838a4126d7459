"""Read OpenCode's database (since 1.2): one SQLite file for all projects and all processes.

No index shows which sessions changed recently. But `ses_` ids hold their creation time, inverted, so a
range of ids is a span of time, and rows of `message` are in order of insertion. So the cost of a look
depends on what happened since the oldest live process began, not on the length of the history.
"""

# ruff: noqa: S608 - queries consist of our own words and question marks only
from __future__ import annotations

from agentctl.adapters.opencode.log import Last
from agentctl.adapters.opencode.messages import (
    CONTINUING,
    read_model,
    read_prompt,
    read_title,
    read_turn,
    to_messages,
)
from agentctl.light_functools import cache
from agentctl.light_typing import Any, Collection, Iterator, NamedTuple, Sequence
from agentctl.system import clock, jsonl
from agentctl.system.jsonl import Record, as_dict
from agentctl.system.sqlite import Database
from agentctl.truth.look import Look
from agentctl.truth.model import Evidence, Facts, Message, Tokens, Turn

ESSENTIAL = ("id", "parent_id", "directory", "title", "version", "time_created", "time_updated")
# Added one by one since 1.2: absent in an older database.
OPTIONAL = (
    "permission", "model", "cost", "tokens_input", "tokens_output", "tokens_cache_read",
    "tokens_cache_write",
)  # fmt: skip
LAST = "(select rowid from message where session_id = s.id order by time_created desc, id desc limit 1)"
FIRST = "(select id from message where session_id = s.id order by time_created, id limit 1)"
HOUR = 3600.0
RECENT = 512  # messages to read before a scan of all sessions is cheaper
PAGE = 32  # messages read at a time
CHUNK = 500  # parameters of one query
ENDLESS = float("inf")  # SQLite sorts what is not a number behind all numbers
ID_BITS = 36  # of the milliseconds in an id: they wrap around every 2.2 years


class Row(NamedTuple):
    """One session, and its last message."""

    id: str
    parent_id: str | None
    directory: str
    title: str | None
    version: str | None
    created: float
    touched: float  # ms: when this row was written; `read_rows_since` selects by it
    updated: float  # of the session or of its last message, the later one
    is_headless: bool  # created by `opencode run`, which denies itself questions
    message_id: str | None
    message: Record | None  # None: there is none, or it is garbled
    model: str | None  # JSON
    cost: float | None
    tokens: Tokens

    @property
    def is_unfinished(self) -> bool:
        """Whether the last message leaves a turn open."""
        if self.message is None or self.message.get("error"):
            return False
        times = as_dict(self.message.get("time"))
        return not times.get("completed") or self.is_between_steps

    @property
    def last(self) -> Last:
        """The last message, to be searched for in the log."""
        if self.message is None:
            return Last(self.id, self.message_id, self.created, None)
        started_at = clock.parse_ms(as_dict(self.message.get("time")).get("created")) or self.created
        if not _is_answer(self.message):
            return Last(self.id, self.message_id, started_at, None)
        prompted_at = _read_time(self.message.get("parentID"), started_at)
        return Last(
            self.id, self.message_id, started_at if prompted_at is None else prompted_at, started_at
        )

    @property
    def is_between_steps(self) -> bool:
        return self.message is not None and self.message.get("finish") in CONTINUING


class Parts(NamedTuple):
    """Parts of several messages, in their order, by message id."""

    by_message: dict[str, list[tuple[str, Record]]]
    garbled: int

    def of(self, message_id: str | None) -> list[Record]:
        return [part for _, part in self.by_message.get(message_id or "", ())]


def read_recent_rows(db: Database, session_ids: Sequence[str], since: float, now: float) -> list[Row]:
    """Return the sessions with these ids, and those created or written since."""
    since_ms = round(since * 1000)
    # Rounded to the hour, so that looks in a row send the same query.
    first, last = _first_id_at((now // HOUR + 2) * HOUR), _first_id_at(since - 0.1)
    latest = f"(select session_id, time_updated from message order by rowid desc limit {RECENT})"
    recent = db.rows(f"select distinct session_id from {latest} where time_updated >= ?", (since_ms,))
    oldest = db.rows(f"select time_updated from message order by rowid desc limit 1 offset {RECENT}")
    # Never empty: for `id in () or …` SQLite scans the table.
    wanted_ids = {"", *session_ids, *(session for (session,) in recent)}
    wraps_around = first > last
    if wraps_around or (oldest and oldest[0][0] >= since_ms):
        return _read_rows(
            db, f"s.time_updated >= ? or s.id in ({_marks(wanted_ids)})", (since_ms, *wanted_ids)
        )
    rows = _read_rows(
        db, f"s.id in ({_marks(wanted_ids)}) or s.id between ? and ?", (*wanted_ids, first, last)
    )
    return [row for row in rows if row.id in session_ids or row.updated >= since]


def read_rows_since(db: Database, since: float, prefix: str) -> list[Row]:
    """Return all sessions written since, whose id starts with `prefix`."""
    where, parameters = "s.time_updated >= ?", [round(since * 1000)]
    if not prefix:
        return _read_rows(db, where, parameters)
    # A range, not `like`: it uses the index, and has no wildcards.
    return _read_rows(
        db, f"s.id >= ? and s.id < ? and {where}", (prefix, prefix + "\U0010ffff", *parameters)
    )


def read_ids(db: Database) -> frozenset[str]:
    return frozenset(row[0] for row in db.rows("select id from session"))


def _read_time(message_id: object, near: float) -> float | None:
    """Return when a message was created. Its id holds the lower bits of that time."""
    try:
        bits = int(str(message_id)[4:16], 16) >> 12
    except ValueError:
        return None
    milliseconds = round(near * 1000)
    return (milliseconds - ((milliseconds - bits) % (1 << ID_BITS))) / 1000.0


def _first_id_at(moment: float) -> str:
    """Return the id before which the ids of all later sessions sort."""
    bits = ~(round(moment * 1000) << 12) & ((1 << (ID_BITS + 12)) - 1)
    return f"ses_{bits:012x}"


def _read_rows(db: Database, where: str, parameters: Sequence[object]) -> list[Row]:
    columns = db.columns("session")
    names = [f"s.{name}" for name in ESSENTIAL]
    names += [f"s.{name}" if name in columns else "null" for name in OPTIONAL]
    query = (
        f"select {', '.join(names)}, m.id, m.time_updated, m.data "
        f"from session s left join message m on m.rowid = {LAST} where {where}"
    )
    return db.read_rows(_to_row, query, parameters)


def _to_row(values: Sequence[Any]) -> Row:
    session_id, parent, directory, title, version, created, updated, *rest = values
    permission, model, cost, input_, output, cache_read, cache_write, message_id, answered, data = rest
    return Row(
        id=str(session_id),
        parent_id=parent,
        directory=str(directory),
        title=read_title(title),
        version=version,
        created=clock.parse_ms(created) or 0.0,
        touched=updated if isinstance(updated, int | float) else ENDLESS,
        updated=max(clock.parse_ms(updated) or 0.0, clock.parse_ms(answered) or 0.0),
        is_headless='"question"' in str(permission) and '"deny"' in str(permission),
        message_id=message_id,
        message=_parse(data),
        model=model,
        cost=cost,
        tokens=Tokens(input_, output, cache_read, cache_write),
    )


def read_open_parts(db: Database, rows: Sequence[Row], *, is_live: bool) -> Parts:
    """Return the tool calls that run or failed in unfinished last messages. For ended sessions only in
    those between two steps: a cut answer is decided by itself."""
    message_ids = [
        row.message_id
        for row in rows
        if row.message_id and row.is_unfinished and _is_answer(row.message)
        if is_live or row.is_between_steps
    ]
    # Compact JSON: the same text inside a tool's output has escaped quotes and cannot match.
    condition = """(instr(data, '"status":"running"') or instr(data, '"status":"error"'))"""
    return _read_parts(db, message_ids, condition)


def _is_answer(message: Record | None) -> bool:
    return message is not None and message.get("role") == "assistant"


def read_prompts(db: Database, rows: Sequence[Row]) -> dict[str, str]:
    """Return the first prompt of each session."""
    prompts: dict[str, str] = {}
    for chunk in _chunks([row.id for row in rows]):
        query = (
            f"select s.id, p.data from session s join part p on p.message_id = {FIRST} "
            f'where s.id in ({_marks(chunk)}) and instr(p.data, \'"type":"text"\') order by p.id'
        )
        for session_id, text in db.read_rows(_to_prompt, query, chunk):
            if text is not None:
                prompts.setdefault(session_id, text)
    return prompts


def _to_prompt(values: Sequence[Any]) -> tuple[str, str | None]:
    session_id, data = values
    return session_id, read_prompt([_parse(data) or {}])


def to_facts(row: Row, prompt: str | None) -> Facts:
    # All zero may also mean a version that did not count yet: unknown.
    counted = any(row.tokens)
    return Facts(
        cwd=row.directory,
        model=_parse_model(row.model) or read_model(row.message or {}),
        title=row.title,
        prompt=prompt,
        started_at=row.created,
        last_activity_at=row.updated,
        tokens=row.tokens if counted else None,
        cost_usd=row.cost if counted else None,
        entry_point="headless" if row.is_headless else "interactive",
        agent_version=row.version,
        parent_id=row.parent_id,
        garbled=1 if row.message_id is not None and row.message is None else 0,
    )


@cache  # thousands of sessions, a handful of models
def _parse_model(column: object) -> str | None:
    model = _parse(column) or {}
    return (
        f"{model['providerID']}/{model['id']}" if model.get("providerID") and model.get("id") else None
    )


class SessionReader:
    """What a database says about some sessions beyond their rows: prompts, tool calls, turns."""

    def __init__(
        self, path: str, db: Database, rows: Sequence[Row], look: Look, *, is_live: bool
    ) -> None:
        self.path = path
        self.parts: Parts = read_open_parts(db, rows, is_live=is_live)
        self.prompts = read_prompts(db, rows)
        garbled = self.parts.garbled + sum(
            row.message_id is not None and row.message is None for row in rows
        )
        if garbled:
            look.report_problem("malformed", f"{garbled} records not readable", path)

    def facts(self, row: Row) -> Facts:
        return to_facts(row, self.prompts.get(row.id))

    def address(self, row: Row) -> str:
        return address(self.path, row.id, row.message_id)

    def turn(self, look: Look, row: Row, *, is_gone: bool) -> Turn | None:
        """Return the last turn; None if unknown."""
        if row.message is None:
            return None
        where = self.address(row)
        parts = self.parts.of(row.message_id)
        return read_turn(row.message, parts, look, where, row.version, is_gone=is_gone)

    def evidence(self, look: Look, row: Row) -> Iterator[Evidence]:
        """Yield the last turn of a live session as evidence."""
        turn = self.turn(look, row, is_gone=False)
        if turn is not None:
            yield Evidence(turn.claim, self.address(row), "journal", turn.at, turn.detail, turn.note)


def address(path: str, session_id: str, message_id: str | None) -> str:
    return f"{path}#{session_id}/{message_id}" if message_id else f"{path}#{session_id}"


def read_messages(path: str, session_id: str) -> Iterator[Message]:
    """Yield all messages, newest first. The database is open only while a page is read."""
    edge: tuple[int, str] | None = None
    while True:
        with Database(path) as db:
            page = _read_page(db, session_id, edge)
            parts = _read_parts(db, [message_id for message_id, _, _ in page], "1")
        for message_id, _, data in page:
            yield from to_messages(message_id, _parse(data) or {}, parts.by_message.get(message_id, []))
        if len(page) < PAGE:
            return
        edge = (page[-1][1], page[-1][0])


def _read_page(db: Database, session_id: str, edge: tuple[int, str] | None) -> list[tuple[Any, ...]]:
    older = "and (time_created, id) < (?, ?)" if edge is not None else ""
    query = (
        f"select id, time_created, data from message where session_id = ? {older} "
        f"order by time_created desc, id desc limit {PAGE}"
    )
    return db.rows(query, (session_id, *(edge or ())))


def _read_parts(db: Database, message_ids: Sequence[str], where: str) -> Parts:
    parts: dict[str, list[tuple[str, Record]]] = {}
    garbled = 0
    for chunk in _chunks(message_ids):
        query = (
            "select message_id, id, data from part "
            f"where message_id in ({_marks(chunk)}) and {where} order by id"
        )
        for message_id, part_id, part in db.read_rows(_to_part, query, chunk):
            if part is None:
                garbled += 1
            else:
                parts.setdefault(message_id, []).append((part_id, part))
    return Parts(parts, garbled)


def _to_part(values: Sequence[Any]) -> tuple[str, str, Record | None]:
    message_id, part_id, data = values
    return message_id, part_id, _parse(data)


def _marks(values: Collection[str]) -> str:
    return ", ".join("?" * len(values))


def _chunks(values: Sequence[str]) -> Iterator[Sequence[str]]:
    return (values[start : start + CHUNK] for start in range(0, len(values), CHUNK))


def _parse(data: object) -> Record | None:
    if isinstance(data, str):
        return jsonl.parse_record_text(data)
    return jsonl.parse_record(data) if isinstance(data, bytes) else None
