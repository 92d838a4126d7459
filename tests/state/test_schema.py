"""The schema: databases of the previous version open, and a new one has the same tables."""

import re
import sqlite3
from pathlib import Path

import pytest

from agentctl.state import db, journal, launches, schema
from agentctl.truth.event import Event

PREVIOUS = Path(__file__).parent / "previous_schema.sql"
NOTE = "insert into launch (id, boot, pid, start, created_at) values ('a1', 'b', 1, 2, 0)"
TARGET = "insert into target values ('webhook', 'ops', '[\"session.*\"]', null, null, null)"


@pytest.fixture
def previous(path: str) -> str:
    """A database as the previous version wrote it, with a launch note and a target."""
    Path(path).parent.mkdir(mode=0o700)
    connection = sqlite3.connect(path)
    connection.executescript(PREVIOUS.read_text())
    connection.execute(NOTE)
    connection.execute(TARGET)
    connection.commit()
    connection.close()
    Path(path).chmod(0o600)
    return path


def _statements(path: str) -> dict[str, str]:
    """The statements of a database by name, without comments and spaces."""
    connection = sqlite3.connect(path)
    rows = connection.execute("select name, sql from sqlite_master where sql is not null").fetchall()
    connection.close()
    return {name: re.sub(r"\s+|--.*", "", sql) for name, sql in rows}


def test_a_database_of_the_previous_version_has_the_tables_of_a_new_one(
    previous: str, tmp_path: Path
) -> None:
    new = str(tmp_path / "new" / "state.db")
    db.open_writable(new).close()
    assert _statements(previous) == _statements(new)


def test_a_database_of_the_previous_version_opens_and_keeps_its_rows(previous: str) -> None:
    connection = db.open_writable(previous)
    assert db.read_version(connection) == len(schema.MIGRATIONS)
    connection.close()
    assert [launch.id for launch in launches.read_launches(previous)] == ["a1"]


def test_an_event_fills_the_outbox_of_a_database_of_the_previous_version(previous: str) -> None:
    [seq] = journal.append_events(previous, [Event("session.idle", 1.0, None, "demo", "s1")])
    connection = sqlite3.connect(previous)
    assert connection.execute("select target, seq from outbox").fetchall() == [("ops", seq)]
    connection.close()


def test_an_event_about_a_delivery_causes_no_delivery(previous: str) -> None:
    with db.transaction(previous) as connection:
        connection.execute("update target set events = '[\"*\"]'")
    journal.append_events(previous, [Event("webhook.delivered", 1.0, None, "demo", "s1")])
    connection = sqlite3.connect(previous)
    assert connection.execute("select count(*) from outbox").fetchone() == (0,)
    connection.close()
