"""A fuse is a row and comes back from it."""

import os
import sqlite3
from pathlib import Path

from agentctl.state import db, fuse_rows, launch_writes
from agentctl.state.fuse import BURNING, Action, Claim, Fuse
from agentctl.system import proc
from agentctl.truth.model import Launch

ME = proc.read_process(os.getpid(), proc.boot_id()).identity
RUN, EMIT = Action("run", "make test"), Action("emit", "late")


def _written(path: str, fuse: Fuse) -> Fuse | None:
    with db.transaction(path) as connection:
        fuse_rows.insert(connection, fuse)
        return fuse_rows.one(connection, fuse.id)


def test_one_on_a_directory_whose_name_is_no_text(tmp_path: Path) -> None:
    made = Fuse(
        "1a", "/w\udcff", None, None, None, "l", (RUN, EMIT), 1.0, "b", 2.0, 3.0, BURNING,
        results=(None, None),
    )  # fmt: skip
    assert _written(str(tmp_path / "state.db"), made) == made
    assert fuse_rows.read(str(tmp_path / "state.db"), "", ()) == [made]


def test_a_timeout_is_told_with_what_its_launch_knows(tmp_path: Path) -> None:
    path = str(tmp_path / "state.db")
    launch_writes.begin(path, Launch("l1", ME, group="g", adapter="demo"))
    launch_writes.learned(path, Launch("l1", ME, "s1"))
    made = Fuse("1a", None, None, None, "l1", None, (), 1.0, "b", 2.0, 3.0, BURNING)
    found = _written(path, made)
    assert found is not None
    assert (found.adapter, found.session_id, found.group) == ("demo", "s1", "g")
    assert found.agent == Claim(ME, proc.namespace())


def test_no_database_and_one_that_knows_no_fuse(tmp_path: Path) -> None:
    path = str(tmp_path / "state.db")
    assert fuse_rows.read(path, "", ()) == []
    sqlite3.connect(path).close()
    assert fuse_rows.read(path, "", ()) == []
