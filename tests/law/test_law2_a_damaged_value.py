"""Law 2, value by value: a hostile value in one field of one native record costs that record and nothing
else. The live session of the record is never stopped, no other session's verdict changes, and every
answer is one valid JSON document."""

import json
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import pytest

from agentctl.testing import Puppet, Stage
from agentctl.truth.survey import HistoryQuery, Survey
from agentctl.wire import session as shapes
from tests.law.asking import start_agent

# The text in the file: Python's JSON writer cannot make some of these.
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
    write: Callable[[str], None]  # puts a hostile value there
    restore: Callable[[], None]


@pytest.fixture
def scene(stage: Stage) -> tuple[Puppet, str, str]:
    """Start the agent whose records are damaged, and another one. Return it and both session ids."""
    puppet, session_id = start_agent(stage)
    _, other_id = start_agent(stage, stage.root / "elsewhere")
    return puppet, session_id, other_id


def test_a_damaged_value_costs_its_own_record_only(
    stage: Stage, scene: tuple[Puppet, str, str], *, whole: bool
) -> None:
    puppet, session_id, other_id = scene
    intact = verdict_of(stage.survey(HistoryQuery()), other_id)
    spots = list(spots_of(stage, puppet, session_id))
    assert len(spots) >= 5, "too little to damage: the fake writes other records"
    values = list(HOSTILE.items())
    for number, spot in enumerate(spots):  # in the short form one value each, in turn
        for name, value in values if whole else [values[number % len(values)]]:
            spot.write(value)
            survey = stage.survey(HistoryQuery())
            check(survey, puppet, session_id, f"{spot.name} is {name}")
            assert verdict_of(survey, other_id) == intact, f"{spot.name} is {name}"
        spot.restore()
    assert verdict_of(stage.survey(HistoryQuery()), other_id) == intact


def check(survey: Survey, puppet: Puppet, session_id: str, what: str) -> None:
    kinds = {problem.kind for problem in survey.problems}
    assert not kinds & {"broken", "late"}, (what, survey.problems)
    owners = [s.observation.owner.pid for s in survey.sessions if s.observation.owner is not None]
    assert puppet.pid in owners, f"{what}: a live agent is not listed"
    for session in survey.sessions:
        if session.observation.session_id == session_id:
            assert session.verdict.status != "stopped", (what, session.verdict)
    sessions = shapes.wire_sessions(survey.sessions)
    text = ", ".join(shapes.session_text(row) for row in sessions)
    rows = json.loads(f"[{text}]", parse_constant=refuse_constant)
    assert rows == [shapes.dump_session(row) for row in sessions], what
    json.dumps(shapes.dump_sessions(sessions, survey.problems), allow_nan=False)


def refuse_constant(word: str) -> NoReturn:
    raise AssertionError(f"{word} is no JSON")


def verdict_of(survey: Survey, session_id: str) -> tuple[Any, ...]:
    (session,) = (s for s in survey.sessions if s.observation.session_id == session_id)
    return session.verdict[:5]


# every field of every native record, in files and databases


def spots_of(stage: Stage, puppet: Puppet, session_id: str) -> Iterator[Spot]:
    for path in stage.records(puppet):
        if path.suffix == ".db":
            yield from spots_of_database(path, session_id)
        elif path.suffix in (".json", ".jsonl"):
            yield from spots_of_file(path)


def spots_of_file(path: Path) -> Iterator[Spot]:
    whole = path.read_text()
    lines = whole.split("\n")
    for index, line in enumerate(lines):
        if not line.startswith("{"):
            continue
        for where in walk_fields(json.loads(line)):

            def write(value: str, index: int = index, line: str = line, where: Path_ = where) -> None:
                damaged = [*lines[:index], replace_value(line, where, value), *lines[index + 1 :]]
                path.write_text("\n".join(damaged))

            name = f"{path.name}:{index + 1} {'.'.join(map(str, where))}"
            yield Spot(name, write, lambda: discard(path.write_text(whole)))


def spots_of_database(path: Path, session_id: str) -> Iterator[Spot]:
    """Yield the columns, which may hold any type whatever their declaration, and the JSON in columns."""
    with closing(sqlite3.connect(path)) as db:
        for table, mine in (("session", "id"), ("message", "session_id"), ("part", "session_id")):
            columns = [row[1] for row in db.execute(f"pragma table_info({table})")]
            query = f"select rowid, {', '.join(columns)} from {table} where {mine} = ?"
            for rowid, *values in db.execute(query, (session_id,)).fetchall():
                for column, value in zip(columns, values, strict=True):
                    if column not in ("id", "session_id", "message_id"):  # these make it another record
                        yield from spots_of_column(path, table, rowid, column, value)


def spots_of_column(path: Path, table: str, rowid: int, column: str, value: object) -> Iterator[Spot]:
    def put(data: object, expression: str = "?") -> None:
        with closing(sqlite3.connect(path)) as db, db:
            db.execute(f"update {table} set {column} = {expression} where rowid = ?", (data, rowid))

    def put_plain(text: str) -> None:
        if text.startswith('"'):  # the text itself, even if Python cannot encode it as UTF-8
            put(json.loads(text).encode("utf-8", "surrogatepass"), "cast(? as text)")
        else:
            put(text if text.startswith(("[", "{", "N")) else float(text))

    yield Spot(f"{table}.{column}", put_plain, lambda: put(value))
    if isinstance(value, str) and value.startswith("{"):
        for where in walk_fields(json.loads(value)):

            def write(hostile: str, where: Path_ = where) -> None:
                put(replace_value(value, where, hostile))

            yield Spot(f"{table}.{column} {'.'.join(map(str, where))}", write, lambda: put(value))


def walk_fields(record: object, above: Path_ = ()) -> Iterator[Path_]:
    if isinstance(record, dict):
        for key, value in record.items():
            yield (*above, key)
            yield from walk_fields(value, (*above, key))
    elif isinstance(record, list):
        for index, value in enumerate(record[:2]):
            yield (*above, index)
            yield from walk_fields(value, (*above, index))


def replace_value(line: str, where: Path_, value: str) -> str:
    record = json.loads(line)
    inner = record
    for step in where[:-1]:
        inner = inner[step]
    inner[where[-1]] = PLACE
    return json.dumps(record, separators=(",", ":")).replace(f'"{PLACE}"', value)


def discard(_: object) -> None:
    pass
