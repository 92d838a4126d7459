"""One database, open for as long as it is the same file."""

from pathlib import Path

import pytest

from agentctl.daemon.held import Held
from agentctl.errors import SourceError
from agentctl.state import db, journal, outbox


def test_the_first_is_made_and_taken_once(tmp_path: Path) -> None:
    held = Held(str(tmp_path / "state.db"))
    assert not held.there
    assert held.take()
    assert held.there
    assert not held.take()
    assert (tmp_path / "state.db-wal").exists()
    journal.record(str(tmp_path / "state.db"), [])
    assert (tmp_path / "state.db-wal").exists()  # nobody else is the last one
    held.drop()
    assert not held.there


def test_it_can_be_read_from_for_as_long_as_it_is_there(tmp_path: Path) -> None:
    held = Held(str(tmp_path / "state.db"))
    assert held.connection is None
    held.take()
    assert held.connection is not None
    assert outbox.waiting(str(tmp_path / "state.db"), 0.0, held.connection) == []
    (tmp_path / "state.db").unlink()
    assert held.connection is None
    held.drop()


def test_what_is_deleted_is_not_made_again(tmp_path: Path) -> None:
    held = Held(str(tmp_path / "state.db"))
    held.take()
    for file in tmp_path.iterdir():
        file.unlink()
    assert not held.there
    assert not held.take()
    assert list(tmp_path.iterdir()) == []
    with db.transaction(str(tmp_path / "state.db")):
        pass
    assert held.take()
    assert held.there
    held.drop()


def test_what_is_no_database_is_told(tmp_path: Path) -> None:
    (tmp_path / "state.db").write_text("no database at all, and much too long to be a short one" * 9)
    held = Held(str(tmp_path / "state.db"))
    with pytest.raises(SourceError):
        held.take()
    assert not held.there
