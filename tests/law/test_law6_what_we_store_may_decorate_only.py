"""Law 6: when what we store is deleted, damaged or lost while agents run, every session is still listed
with the same status, and only its labels are lost. What we store never makes a session."""

import os
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from agentctl.state import cache, db, launch_writes
from agentctl.system.proc import ProcessIdentity, read_boot_id
from agentctl.testing import Puppet, Stage
from agentctl.truth.model import Launch
from tests.fakes.demo import DemoStage
from tests.law.asking import agentctl_json, start_agent
from tests.running import agentctl_of

# Pi erases its arguments: only our note says that it runs headless.
LABELS = ("launch", "entry_point")
VERBS = (("list",), ("list", "-a"))


@pytest.fixture
def demo(tmp_path: Path) -> Iterator[DemoStage]:
    """A stage for what is the same for every agent."""
    stage = DemoStage(tmp_path)
    yield stage
    stage.close()


def state_directory(stage: Stage) -> Path:
    return Path(stage.environ["AGENTCTL_HOME"])


def write_note(stage: Stage, puppet: Puppet, name: str) -> None:
    launch = Launch(f"launch-{name}", puppet.identity, puppet.session_id, name, "a group")
    launch_writes.begin_launch(str(state_directory(stage) / "state.db"), launch)


def make_scene(stage: Stage) -> tuple[str, str]:
    """Launch an agent that works and one that ended a while ago. Return both session ids."""
    ended_agent, ended_id = start_agent(stage, stage.root / "elsewhere")
    write_note(stage, ended_agent, "ended")
    ended_agent.do("rest")
    records = stage.records(ended_agent)
    ended_agent.finish()
    for path in records:
        if path.exists():  # old enough to be remembered
            os.utime(path, (path.stat().st_atime, path.stat().st_mtime - 60))
    puppet, session_id = start_agent(stage)
    write_note(stage, puppet, "alive")
    return session_id, ended_id


def without_labels(row: dict[str, Any]) -> dict[str, Any]:
    """Return the row without labels and without what is computed from a clock. A note may be what binds
    a live process; that the process is bound, and to what, must not depend on it."""
    stripped = {k: v for k, v in row.items() if k not in (*LABELS, "started_at", "evidence")}
    stripped["evidence"] = [
        {k: v for k, v in e.items() if k != "at" and (k, e["claim"]) != ("note", "alive")}
        for e in row["evidence"]
    ]
    return stripped


def list_rows(stage: Stage) -> list[list[dict[str, Any]]]:
    answers = [agentctl_json(stage, *verb)["sessions"] for verb in VERBS]
    return [
        sorted((without_labels(row) for row in sessions), key=lambda row: row["id"] or "")
        for sessions in answers
    ]


def test_without_the_state_directory_only_labels_are_lost(stage: Stage) -> None:
    session_id, ended_id = make_scene(stage)
    before = list_rows(stage)
    names = {row["id"]: row["launch"]["name"] for row in agentctl_json(stage, "list", "-a")["sessions"]}
    assert names == {session_id: "alive", ended_id: "ended"}
    shutil.rmtree(state_directory(stage))
    answer = agentctl_json(stage, "list", "-a")
    assert [row["launch"] for row in answer["sessions"]] == [None, None]
    assert answer["problems"] == []
    assert list_rows(stage) == before


def write_rubbish(path: Path) -> None:
    path.write_bytes(b"this is no database\n" * 500)


def cut_in_half(path: Path) -> None:
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2])


def write_nulls(path: Path) -> None:
    path.write_bytes(b"\0" * 8192)


def make_directory(path: Path) -> None:
    path.unlink()
    path.mkdir()


def make_fifo(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def write_another_schema(path: Path) -> None:
    path.unlink()
    connection = sqlite3.connect(path)
    connection.execute("create table launch (id text, colour text)")
    connection.execute("create table facts (colour text)")
    connection.execute(f"pragma user_version = {cache.FORMAT}")
    connection.close()


BROKEN: list[Callable[[Path], None]] = [
    write_rubbish,
    cut_in_half,
    write_nulls,
    make_directory,
    make_fifo,
]
DAMAGES = [*BROKEN, write_another_schema]


def remove_log(path: Path) -> None:
    for suffix in ("-wal", "-shm"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)


@pytest.mark.few(3)
@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
def test_a_damaged_database_is_reported_and_costs_labels_only(
    demo: DemoStage, damage: Callable[[Path], None]
) -> None:
    make_scene(demo)
    before = list_rows(demo)
    path = state_directory(demo) / "state.db"
    remove_log(path)
    damage(path)
    for verb in VERBS:
        answer = agentctl_json(demo, *verb)
        assert [row["launch"] for row in answer["sessions"]] == [None] * len(answer["sessions"])
        assert str(path) in [problem["source"] for problem in answer["problems"]]
    assert list_rows(demo) == before


@pytest.mark.few(2)
@pytest.mark.parametrize("damage", BROKEN, ids=lambda damage: damage.__name__)
def test_a_write_to_a_damaged_database_fails_with_a_hint(
    demo: DemoStage, damage: Callable[[Path], None]
) -> None:
    path = state_directory(demo) / "state.db"
    db.open_writable(str(path)).close()
    remove_log(path)
    damage(path)
    for words in (("lock", "."), ("prune",)):
        ran = agentctl_of(demo, *words)
        assert ran.code == 1, ran
        first, hint = ran.err.splitlines()
        assert first.startswith(f"agentctl: {path}: ")
        assert hint.strip().startswith(("to start again, delete it", "move it away"))


def test_an_unreadable_note_is_reported_and_costs_labels_only(demo: DemoStage) -> None:
    make_scene(demo)
    before = list_rows(demo)
    path = state_directory(demo) / "state.db"
    for meta in ("{", "[]", "7"):
        connection = sqlite3.connect(path)
        connection.execute("update launch set meta = ?", (meta,))
        connection.commit()
        connection.close()
        assert list_rows(demo) == before
        assert str(path) in [p["source"] for p in agentctl_json(demo, "list")["problems"]]


@pytest.mark.few(3)
@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
def test_a_damaged_cache_changes_nothing(demo: DemoStage, damage: Callable[[Path], None]) -> None:
    make_scene(demo)
    before = list_rows(demo)
    path = state_directory(demo) / "cache"
    if not path.exists():
        cache.Cache(str(path)).remember("/x", (1, 2, 3), 0.0, ())
        path.touch()
    damage(path)
    assert list_rows(demo) == before
    assert list_rows(demo) == before  # and after the cache was rewritten


def test_a_cache_with_damaged_facts_changes_nothing(stage: Stage) -> None:
    make_scene(stage)
    before = list_rows(stage)
    path = state_directory(stage) / "cache"
    if not path.exists():
        pytest.skip(f"{stage.adapter} keeps nothing in the cache")
    entries = cache.load_entries(str(path))
    assert entries
    strange: tuple[Any, ...] = (None, 7, "word", (), (1, 2), (1,) * 13)
    for value in strange:
        cache.save_entries(str(path), {name: (entry[0], value) for name, entry in entries.items()})
        assert list_rows(stage) == before


@pytest.mark.few(2)
@pytest.mark.parametrize("home", ["a?b", "a#b", "a%41b", "a b", "ä"])
def test_a_state_directory_of_any_name_is_the_only_one_written(demo: DemoStage, home: str) -> None:
    (demo.root / "odd").mkdir()
    demo.environ["AGENTCTL_HOME"] = str(demo.root / "odd" / home)
    make_scene(demo)
    before = list_rows(demo)
    assert list_rows(demo) == before
    assert os.listdir(demo.root / "odd") == [home]
    launches = [row["launch"] for row in agentctl_json(demo, "list", "-a")["sessions"]]
    assert None not in launches


def test_notes_without_a_process_make_no_row(stage: Stage) -> None:
    puppet, session_id = start_agent(stage)
    path = str(state_directory(stage) / "state.db")
    before = list_rows(stage)
    never = ProcessIdentity(read_boot_id(), 2**22 - 1, 1)
    other_boot = ProcessIdentity("another boot", puppet.pid, puppet.identity.start)
    recycled = puppet.identity._replace(start=puppet.identity.start - 1)
    for number, identity in enumerate((never, other_boot, recycled)):
        launch_writes.begin_launch(path, Launch(f"l{number}", identity, None, f"ghost {number}"))
    launch_writes.begin_launch(path, Launch("l9", never, "no-such-session", "ghost 9"))
    assert list_rows(stage) == before
    for verb in VERBS:
        assert [row["launch"] for row in agentctl_json(stage, *verb)["sessions"]] == [None]
    write_note(stage, puppet, "mine")
    puppet.kill()
    assert agentctl_json(stage, "list")["sessions"] == []
    (row,) = agentctl_json(stage, "list", "-a")["sessions"]
    assert (row["id"], row["status"], row["launch"]["name"]) == (session_id, "stopped", "mine")
