"""Law 6: delete, damage or lose what we remember while agents run: every session is still there with
the same status, and only its labels are gone. What we remember never makes a session."""

import os
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from agentctl.state import cache, db, launch_writes
from agentctl.system.identity import ProcessIdentity
from agentctl.system.proc import boot_id
from agentctl.testing import Puppet, Stage
from agentctl.truth.model import Launch
from tests.fakes.demo import DemoStage
from tests.law.asking import agentctl_json, working
from tests.running import agentctl_of

# Pi erases its arguments: that it runs headless is known by our having started it so.
LABELS = ("launch", "entry_point")
VERBS = (("list",), ("list", "-a"))


@pytest.fixture
def demo(tmp_path: Path) -> Iterator[DemoStage]:
    """For what is the same whichever agent it is."""
    made = DemoStage(tmp_path)
    yield made
    made.close()


def state(stage: Stage) -> Path:
    return Path(stage.environ["AGENTCTL_HOME"])


def note(stage: Stage, puppet: Puppet, name: str) -> None:
    launch = Launch(f"launch-{name}", puppet.identity, puppet.session_id, name, "a group")
    launch_writes.begin(str(state(stage) / "state.db"), launch)


def scene(stage: Stage) -> tuple[str, str]:
    """One at work, one that ended a while ago; both launched by us."""
    ended, ended_id = working(stage, stage.root / "elsewhere")
    note(stage, ended, "ended")
    ended.do("rest")
    records = stage.records(ended)
    ended.finish()
    for path in records:
        if path.exists():  # old enough to be remembered
            os.utime(path, (path.stat().st_atime, path.stat().st_mtime - 60))
    puppet, session_id = working(stage)
    note(stage, puppet, "alive")
    return session_id, ended_id


def bare(row: dict[str, Any]) -> dict[str, Any]:
    """Without labels, and without what a clock reading is part of. How a live process was bound may be
    by our note, while there is one; that it is bound, and to what, must not depend on it."""
    kept = {k: v for k, v in row.items() if k not in (*LABELS, "started_at", "evidence")}
    kept["evidence"] = [
        {k: v for k, v in e.items() if k != "at" and (k, e["claim"]) != ("note", "alive")}
        for e in row["evidence"]
    ]
    return kept


def rows(stage: Stage) -> list[list[dict[str, Any]]]:
    answers = [agentctl_json(stage, *verb)["sessions"] for verb in VERBS]
    return [sorted((bare(row) for row in found), key=lambda row: row["id"] or "") for found in answers]


def test_without_the_state_directory_only_labels_are_gone(stage: Stage) -> None:
    session_id, ended_id = scene(stage)
    before = rows(stage)
    named = {row["id"]: row["launch"]["name"] for row in agentctl_json(stage, "list", "-a")["sessions"]}
    assert named == {session_id: "alive", ended_id: "ended"}
    shutil.rmtree(state(stage))
    answer = agentctl_json(stage, "list", "-a")
    assert [row["launch"] for row in answer["sessions"]] == [None, None]
    assert answer["problems"] == []
    assert rows(stage) == before


def rubbish(path: Path) -> None:
    path.write_bytes(b"this is no database\n" * 500)


def torn(path: Path) -> None:
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2])


def nulls(path: Path) -> None:
    path.write_bytes(b"\0" * 8192)


def directory(path: Path) -> None:
    path.unlink()
    path.mkdir()


def fifo(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def another_schema(path: Path) -> None:
    path.unlink()
    connection = sqlite3.connect(path)
    connection.execute("create table launch (id text, colour text)")
    connection.execute("create table facts (colour text)")
    connection.execute(f"pragma user_version = {cache.FORMAT}")
    connection.close()


BROKEN: list[Callable[[Path], None]] = [rubbish, torn, nulls, directory, fifo]
DAMAGES = [*BROKEN, another_schema]


def without_log(path: Path) -> None:
    for suffix in ("-wal", "-shm"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
def test_a_damaged_database_is_told_and_costs_labels_only(
    demo: DemoStage, damage: Callable[[Path], None]
) -> None:
    scene(demo)
    before = rows(demo)
    path = state(demo) / "state.db"
    without_log(path)
    damage(path)
    for verb in VERBS:
        answer = agentctl_json(demo, *verb)
        assert [row["launch"] for row in answer["sessions"]] == [None] * len(answer["sessions"])
        assert str(path) in [problem["source"] for problem in answer["problems"]]
    assert rows(demo) == before


@pytest.mark.parametrize("damage", BROKEN, ids=lambda damage: damage.__name__)
def test_whoever_writes_to_a_damaged_database_is_told_what_to_do(
    demo: DemoStage, damage: Callable[[Path], None]
) -> None:
    path = state(demo) / "state.db"
    db.open_writable(str(path)).close()
    without_log(path)
    damage(path)
    for words in (("lock", "."), ("prune",)):
        ran = agentctl_of(demo, *words)
        assert ran.code == 1, ran
        first, hint = ran.err.splitlines()
        assert first.startswith(f"agentctl: {path}: ")
        assert hint.strip().startswith(("to begin anew, delete it", "move it away"))


def test_a_note_we_cannot_read_is_told_and_costs_labels_only(demo: DemoStage) -> None:
    scene(demo)
    before = rows(demo)
    path = state(demo) / "state.db"
    for meta in ("{", "[]", "7"):
        connection = sqlite3.connect(path)
        connection.execute("update launch set meta = ?", (meta,))
        connection.commit()
        connection.close()
        assert rows(demo) == before
        assert str(path) in [p["source"] for p in agentctl_json(demo, "list")["problems"]]


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
def test_a_damaged_cache_changes_nothing(demo: DemoStage, damage: Callable[[Path], None]) -> None:
    scene(demo)
    before = rows(demo)
    path = state(demo) / "cache"
    if not path.exists():
        cache.Cache(str(path)).remember("/x", (1, 2, 3), 0.0, ())
        path.touch()
    damage(path)
    assert rows(demo) == before
    assert rows(demo) == before  # and after it was written anew


def test_a_cache_with_damaged_facts_changes_nothing(stage: Stage) -> None:
    scene(stage)
    before = rows(stage)
    path = state(stage) / "cache"
    if not path.exists():
        pytest.skip(f"{stage.adapter} keeps nothing in the cache")
    known = cache.load(str(path))
    assert known
    strange: tuple[Any, ...] = (None, 7, "word", (), (1, 2), (1,) * 13)
    for said in strange:
        cache.save(str(path), {name: (entry[0], said) for name, entry in known.items()})
        assert rows(stage) == before


@pytest.mark.parametrize("home", ["a?b", "a#b", "a%41b", "a b", "ä"])
def test_a_state_directory_of_any_name_is_the_only_one_written(demo: DemoStage, home: str) -> None:
    (demo.root / "odd").mkdir()
    demo.environ["AGENTCTL_HOME"] = str(demo.root / "odd" / home)
    scene(demo)
    before = rows(demo)
    assert rows(demo) == before
    assert os.listdir(demo.root / "odd") == [home]
    launched = [row["launch"] for row in agentctl_json(demo, "list", "-a")["sessions"]]
    assert None not in launched


def test_notes_of_nobody_make_no_row(stage: Stage) -> None:
    puppet, session_id = working(stage)
    path = str(state(stage) / "state.db")
    before = rows(stage)
    never = ProcessIdentity(boot_id(), 2**22 - 1, 1)
    other_boot = ProcessIdentity("another boot", puppet.pid, puppet.identity.start)
    recycled = puppet.identity._replace(start=puppet.identity.start - 1)
    for number, identity in enumerate((never, other_boot, recycled)):
        launch_writes.begin(path, Launch(f"l{number}", identity, None, f"ghost {number}"))
    launch_writes.begin(path, Launch("l9", never, "no-such-session", "ghost 9"))
    assert rows(stage) == before
    for verb in VERBS:
        assert [row["launch"] for row in agentctl_json(stage, *verb)["sessions"]] == [None]
    note(stage, puppet, "mine")
    puppet.kill()
    assert agentctl_json(stage, "list")["sessions"] == []
    (row,) = agentctl_json(stage, "list", "-a")["sessions"]
    assert (row["id"], row["status"], row["launch"]["name"]) == (session_id, "stopped", "mine")
