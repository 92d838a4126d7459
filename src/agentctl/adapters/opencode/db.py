"""OpenCode's database (since 1.2): one SQLite file for all projects and all processes.

No index tells which sessions were touched lately. Ids do: `ses_` ids hold their creation time,
inverted, so that a range of ids is a span of time, and rows of `message` are in order of insertion. The
cost of a look is that of what happened since the oldest live process began, not that of history.
"""

# ruff: noqa: S608 - queries are put together from our own words and question marks only
from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from functools import cache
from typing import Any, NamedTuple

from agentctl.adapters.opencode.log import Last
from agentctl.adapters.opencode.messages import (
    GOING_ON,
    model_of,
    prompt_of,
    said_in,
    title_of,
)
from agentctl.system import clock, jsonl
from agentctl.system.jsonl import Record, as_dict
from agentctl.system.sqlite import Database
from agentctl.truth.model import Facts, Message, Tokens

ESSENTIAL = ("id", "parent_id", "directory", "title", "version", "time_created", "time_updated")
# Added since 1.2, one by one: absent in an older database.
OPTIONAL = (
    "permission", "model", "cost", "tokens_input", "tokens_output", "tokens_cache_read",
    "tokens_cache_write",
)  # fmt: skip
LAST = "(select rowid from message where session_id = s.id order by time_created desc, id desc limit 1)"
FIRST = "(select id from message where session_id = s.id order by time_created, id limit 1)"
HOUR = 3600.0
RECENT = 512  # messages to look at before a scan of all sessions is cheaper
PAGE = 32  # messages read at a time
CHUNK = 500  # parameters of one query
ENDLESS = float("inf")  # to SQLite, what is no number is greater than any
ID_BITS = 36  # of the milliseconds in an id: they start over every 2.2 years


class Row(NamedTuple):
    """One session, and its last message."""

    id: str
    parent_id: str | None
    directory: str
    title: str | None
    version: str | None
    created: float
    touched: float  # ms: when this row was written, by which `everything` selects
    updated: float  # of the session or its last message, whichever is later
    headless: bool  # born in `opencode run`, which denies itself questions
    message_id: str | None
    message: Record | None  # None: there is none, or it is garbled
    model: str | None  # JSON
    cost: float | None
    tokens: Tokens

    @property
    def unfinished(self) -> bool:
        """Whether its last message leaves a turn open."""
        if self.message is None or self.message.get("error"):
            return False
        times = as_dict(self.message.get("time"))
        return not times.get("completed") or self.between_steps

    @property
    def last(self) -> Last:
        """Its last message, as the log tells of it."""
        if self.message is None:
            return Last(self.id, self.message_id, self.created, None)
        begun = clock.from_ms(as_dict(self.message.get("time")).get("created")) or self.created
        if not _by_agent(self.message):
            return Last(self.id, self.message_id, begun, None)
        asked = _time_in(self.message.get("parentID"), begun)
        return Last(self.id, self.message_id, begun if asked is None else asked, begun)

    @property
    def between_steps(self) -> bool:
        return self.message is not None and self.message.get("finish") in GOING_ON


class Parts(NamedTuple):
    """Parts of several messages, in their order, by message id."""

    by_message: dict[str, list[tuple[str, Record]]]
    garbled: int

    def of(self, message_id: str | None) -> list[Record]:
        return [part for _, part in self.by_message.get(message_id or "", ())]


def touched(db: Database, ids: Sequence[str], since: float, now: float) -> list[Row]:
    """Sessions with these ids, and those created or written since."""
    begun = round(since * 1000)
    # up to an hour, so that the same is asked again and again
    first, last = _id_at((now // HOUR + 2) * HOUR), _id_at(since - 0.1)
    latest = f"(select session_id, time_updated from message order by rowid desc limit {RECENT})"
    written = db.rows(f"select distinct session_id from {latest} where time_updated >= ?", (begun,))
    before = db.rows(f"select time_updated from message order by rowid desc limit 1 offset {RECENT}")
    # never empty: SQLite makes a scan of `id in () or …`
    wanted = {"", *ids, *(session for (session,) in written)}
    started_over = first > last
    if started_over or (before and before[0][0] >= begun):
        return _rows(db, f"s.time_updated >= ? or s.id in ({_marks(wanted)})", (begun, *wanted))
    found = _rows(db, f"s.id in ({_marks(wanted)}) or s.id between ? and ?", (*wanted, first, last))
    return [row for row in found if row.id in ids or row.updated >= since]


def everything(db: Database, since: float, prefix: str) -> list[Row]:
    """All sessions written since, whose id starts with `prefix`."""
    where, given = "s.time_updated >= ?", [round(since * 1000)]
    if not prefix:
        return _rows(db, where, given)
    # a range, not `like`: it uses the index, and knows no wildcards
    return _rows(db, f"s.id >= ? and s.id < ? and {where}", (prefix, prefix + "\U0010ffff", *given))


def ids(db: Database) -> frozenset[str]:
    return frozenset(row[0] for row in db.rows("select id from session"))


def _time_in(message_id: object, near: float) -> float | None:
    """When a message was made, by its id: it holds the lower bits of that time."""
    try:
        bits = int(str(message_id)[4:16], 16) >> 12
    except ValueError:
        return None
    milliseconds = round(near * 1000)
    return (milliseconds - ((milliseconds - bits) % (1 << ID_BITS))) / 1000.0


def _id_at(moment: float) -> str:
    """Where in the order of ids the sessions created at this moment stand: later ones before it."""
    bits = ~(round(moment * 1000) << 12) & ((1 << (ID_BITS + 12)) - 1)
    return f"ses_{bits:012x}"


def _rows(db: Database, where: str, given: Sequence[object]) -> list[Row]:
    have = db.columns("session")
    names = [f"s.{name}" for name in ESSENTIAL]
    names += [f"s.{name}" if name in have else "null" for name in OPTIONAL]
    query = (
        f"select {', '.join(names)}, m.id, m.time_updated, m.data "
        f"from session s left join message m on m.rowid = {LAST} where {where}"
    )
    return [_row(values) for values in db.rows(query, given)]


def _row(values: Sequence[Any]) -> Row:
    session_id, parent, directory, title, version, created, updated, *rest = values
    permission, model, cost, read, written, cache_read, cache_write, message_id, answered, data = rest
    return Row(
        str(session_id),
        parent,
        str(directory),
        title_of(title),
        version,
        clock.from_ms(created) or 0.0,
        updated if isinstance(updated, int | float) else ENDLESS,
        max(clock.from_ms(updated) or 0.0, clock.from_ms(answered) or 0.0),
        permission is not None and '"question"' in str(permission) and '"deny"' in str(permission),
        message_id,
        _parsed(data),
        model,
        cost,
        Tokens(read, written, cache_read, cache_write),
    )


def telling_parts(db: Database, rows: Sequence[Row], *, live: bool) -> Parts:
    """Tool calls that run or failed, in last messages that leave open what goes on. Of an ended
    session, only in those between two steps: an answer cut short says enough itself."""
    concerned = [
        row.message_id
        for row in rows
        if row.message_id and row.unfinished and _by_agent(row.message)
        if live or row.between_steps
    ]
    # bare strings in compact JSON: a quoted one inside a tool's output is escaped and cannot match
    telling = """(instr(data, '"status":"running"') or instr(data, '"status":"error"'))"""
    return _parts(db, concerned, telling)


def _by_agent(message: Record | None) -> bool:
    return message is not None and message.get("role") == "assistant"


def prompts(db: Database, rows: Sequence[Row]) -> dict[str, str]:
    """The first prompt of each session."""
    found: dict[str, str] = {}
    for chunk in _chunks([row.id for row in rows]):
        query = (
            f"select s.id, p.data from session s join part p on p.message_id = {FIRST} "
            f'where s.id in ({_marks(chunk)}) and instr(p.data, \'"type":"text"\') order by p.id'
        )
        for session_id, data in db.rows(query, chunk):
            text = prompt_of([_parsed(data) or {}])
            if text is not None:
                found.setdefault(session_id, text)
    return found


def facts_of(row: Row, prompt: str | None) -> Facts:
    # all zero also stands in the rows of a version that did not count yet: not told
    counted = any(row.tokens)
    return Facts(
        cwd=row.directory,
        model=_model_in(row.model) or model_of(row.message or {}),
        title=row.title,
        prompt=prompt,
        started_at=row.created,
        last_activity_at=row.updated,
        tokens=row.tokens if counted else None,
        cost_usd=row.cost if counted else None,
        entry_point="headless" if row.headless else "interactive",
        agent_version=row.version,
        parent_id=row.parent_id,
        garbled=1 if row.message_id is not None and row.message is None else 0,
    )


@cache  # thousands of sessions, a handful of models
def _model_in(column: object) -> str | None:
    told = _parsed(column) or {}
    return f"{told['providerID']}/{told['id']}" if told.get("providerID") and told.get("id") else None


def messages(path: str, session_id: str) -> Iterator[Message]:
    """All that was said, newest first. The database is open only while a page is read."""
    edge: tuple[int, str] | None = None
    while True:
        with Database(path) as db:
            page = _page(db, session_id, edge)
            parts = _parts(db, [message_id for message_id, _, _ in page], "1")
        for message_id, _, data in page:
            yield from said_in(message_id, _parsed(data) or {}, parts.by_message.get(message_id, []))
        if len(page) < PAGE:
            return
        edge = (page[-1][1], page[-1][0])


def _page(db: Database, session_id: str, edge: tuple[int, str] | None) -> list[tuple[Any, ...]]:
    older = "and (time_created, id) < (?, ?)" if edge is not None else ""
    query = (
        f"select id, time_created, data from message where session_id = ? {older} "
        f"order by time_created desc, id desc limit {PAGE}"
    )
    return db.rows(query, (session_id, *(edge or ())))


def _parts(db: Database, message_ids: Sequence[str], where: str) -> Parts:
    found: dict[str, list[tuple[str, Record]]] = {}
    garbled = 0
    for chunk in _chunks(message_ids):
        query = (
            "select message_id, id, data from part "
            f"where message_id in ({_marks(chunk)}) and {where} order by id"
        )
        for message_id, part_id, data in db.rows(query, chunk):
            part = _parsed(data)
            if part is None:
                garbled += 1
            else:
                found.setdefault(message_id, []).append((part_id, part))
    return Parts(found, garbled)


def _marks(values: Collection[str]) -> str:
    return ", ".join("?" * len(values))


def _chunks(values: Sequence[str]) -> Iterator[Sequence[str]]:
    return (values[start : start + CHUNK] for start in range(0, len(values), CHUNK))


def _parsed(data: object) -> Record | None:
    if isinstance(data, str):
        return jsonl.parse_text(data)
    return jsonl.parse(data) if isinstance(data, bytes) else None
