"""Law 2, value by value: whatever stands in one field of one native record, it costs that record and
nothing else. The live session that it is about never becomes a stopped one, no other session's verdict
changes, and every answer is one valid JSON document."""

import json
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import pytest

from agentctl.testing import Puppet, Stage
from agentctl.truth.survey import Survey, Wanted
from agentctl.wire import encode
from agentctl.wire import session as shapes
from tests.law.asking import working

# As they stand in a file: no JSON writer of Python's makes some of them.
HOSTILE = {
    "400 digits": "9" * 400,
    "4300 digits": "-" + "9" * 4299,
    "5000 digits": "9" * 5000,
    "endless": "1e999",
    "not a number": "NaN",
    "a list": "[[]]",
    "an object": '{"a": 1e999}',
    "digits as text": f'"{"9" * 5000}"',
    "a NUL": '"\\u0000"',
    "half a surrogate": '"\\ud800"',
    "a path": '"../../x"',
}
PLACE = "@@hostile@@"
Path_ = tuple[str | int, ...]


class Spot(NamedTuple):
    """One field of one record."""

    name: str
    write: Callable[[str], None]  # a hostile value in its place
    restore: Callable[[], None]


@pytest.fixture
def scene(stage: Stage) -> tuple[Puppet, str, str]:
    """The one whose records are damaged, its session, and another session."""
    puppet, session_id = working(stage)
    _, other_id = working(stage, stage.root / "elsewhere")
    return puppet, session_id, other_id


def test_costs_its_own_record_only(stage: Stage, scene: tuple[Puppet, str, str]) -> None:
    puppet, session_id, other_id = scene
    intact = verdict_of(stage.survey(Wanted()), other_id)
    spots = list(spots_of(stage, puppet, session_id))
    assert len(spots) >= 5, "nothing to damage: the fake writes other records"
    for spot in spots:
        for name, value in HOSTILE.items():
            spot.write(value)
            found = stage.survey(Wanted())
            check(found, puppet, session_id, f"{spot.name} is {name}")
            assert verdict_of(found, other_id) == intact, f"{spot.name} is {name}"
        spot.restore()
    assert verdict_of(stage.survey(Wanted()), other_id) == intact


def check(found: Survey, puppet: Puppet, session_id: str, what: str) -> None:
    kinds = {problem.kind for problem in found.problems}
    assert not kinds & {"broken", "late"}, (what, found.problems)
    owners = [s.seen.owner.pid for s in found.sessions if s.seen.owner is not None]
    assert puppet.pid in owners, f"{what}: a live agent is not listed"
    for session in found.sessions:
        if session.seen.session_id == session_id:
            assert session.verdict.status != "stopped", (what, session.verdict)
    text = ", ".join(encode.session(session) for session in found.sessions)
    rows = json.loads(f"[{text}]", parse_constant=refuse)
    assert rows == [shapes.session(session) for session in found.sessions], what
    json.dumps(shapes.envelope(found.sessions, found.problems), allow_nan=False)


def refuse(word: str) -> NoReturn:
    raise AssertionError(f"{word} is no JSON")


def verdict_of(found: Survey, session_id: str) -> tuple[Any, ...]:
    (session,) = (s for s in found.sessions if s.seen.session_id == session_id)
    return session.verdict[:5]


# every field of every native record, whatever the agent keeps them in


def spots_of(stage: Stage, puppet: Puppet, session_id: str) -> Iterator[Spot]:
    for path in stage.records(puppet):
        if path.suffix == ".db":
            yield from of_database(path, session_id)
        elif path.suffix in (".json", ".jsonl"):
            yield from of_file(path)


def of_file(path: Path) -> Iterator[Spot]:
    whole = path.read_text()
    lines = whole.split("\n")
    for index, line in enumerate(lines):
        if not line.startswith("{"):
            continue
        for where in fields(json.loads(line)):

            def write(value: str, index: int = index, line: str = line, where: Path_ = where) -> None:
                damaged = [*lines[:index], replaced(line, where, value), *lines[index + 1 :]]
                path.write_text("\n".join(damaged))

            name = f"{path.name}:{index + 1} {'.'.join(map(str, where))}"
            yield Spot(name, write, lambda: void(path.write_text(whole)))


def of_database(path: Path, session_id: str) -> Iterator[Spot]:
    """Columns, which may hold any type whatever they are declared as, and JSON in columns."""
    with closing(sqlite3.connect(path)) as db:
        for table, mine in (("session", "id"), ("message", "session_id"), ("part", "session_id")):
            columns = [row[1] for row in db.execute(f"pragma table_info({table})")]
            query = f"select rowid, {', '.join(columns)} from {table} where {mine} = ?"
            for rowid, *values in db.execute(query, (session_id,)).fetchall():
                for column, value in zip(columns, values, strict=True):
                    if column not in ("id", "session_id", "message_id"):  # these make it another record
                        yield from of_column(path, table, rowid, column, value)


def of_column(path: Path, table: str, rowid: int, column: str, value: object) -> Iterator[Spot]:
    def put(given: object, expression: str = "?") -> None:
        with closing(sqlite3.connect(path)) as db, db:
            db.execute(f"update {table} set {column} = {expression} where rowid = ?", (given, rowid))

    def put_plain(text: str) -> None:
        if text.startswith('"'):  # the text itself, also one that Python does not write as UTF-8
            put(json.loads(text).encode("utf-8", "surrogatepass"), "cast(? as text)")
        else:
            put(text if text.startswith(("[", "{", "N")) else float(text))

    yield Spot(f"{table}.{column}", put_plain, lambda: put(value))
    if isinstance(value, str) and value.startswith("{"):
        for where in fields(json.loads(value)):

            def write(hostile: str, where: Path_ = where) -> None:
                put(replaced(value, where, hostile))

            yield Spot(f"{table}.{column} {'.'.join(map(str, where))}", write, lambda: put(value))


def fields(record: object, above: Path_ = ()) -> Iterator[Path_]:
    if isinstance(record, dict):
        for key, value in record.items():
            yield (*above, key)
            yield from fields(value, (*above, key))
    elif isinstance(record, list):
        for index, value in enumerate(record[:2]):
            yield (*above, index)
            yield from fields(value, (*above, index))


def replaced(line: str, where: Path_, value: str) -> str:
    record = json.loads(line)
    inner = record
    for step in where[:-1]:
        inner = inner[step]
    inner[where[-1]] = PLACE
    return json.dumps(record, separators=(",", ":")).replace(f'"{PLACE}"', value)


def void(_: object) -> None:
    pass
