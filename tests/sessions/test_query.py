"""How anyone asks: notes, cache, deadline."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentctl import paths
from agentctl.errors import Ambiguous, NotFound, UsageError
from agentctl.sessions import query
from agentctl.state import launch_writes
from agentctl.system.identity import ProcessIdentity
from agentctl.truth.model import Launch
from agentctl.truth.survey import Wanted
from tests.ending import play_on
from tests.fakes.demo import DemoStage


@pytest.fixture(autouse=True)
def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[DemoStage]:
    """Ask in this very process, with the stage's environment and nothing else."""
    made = DemoStage(tmp_path)
    play_on(made, monkeypatch)
    yield made
    made.close()


def test_labels_come_from_our_notes(stage: DemoStage) -> None:
    puppet = stage.start()
    note = Launch("l1", puppet.identity, puppet.session_id, "mine", "g", created_at=1.0)._replace(
        namespace=os.readlink("/proc/self/ns/pid")
    )
    launch_writes.begin(paths.notes_file(stage.environ["AGENTCTL_HOME"]), note)
    (session,) = query.everything().sessions
    assert session.launch == note


def test_notes_that_make_no_sense_cost_labels_only(stage: DemoStage) -> None:
    stage.start()
    state = Path(stage.environ["AGENTCTL_HOME"])
    state.mkdir()
    Path(paths.notes_file(str(state))).write_text("not a database at all, however long it is\n" * 99)
    found = query.everything()
    assert len(found.sessions) == 1
    assert [problem.kind for problem in found.problems] == ["malformed"]


def test_a_note_alone_makes_no_session(stage: DemoStage) -> None:
    note = Launch("l1", ProcessIdentity("b", 1, 2), "some-id", name="ghost")
    launch_writes.begin(paths.notes_file(stage.environ["AGENTCTL_HOME"]), note)
    assert query.everything(Wanted()).sessions == []


def test_the_deadline_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENTCTL_DEADLINE", "soon")
    with pytest.raises(UsageError, match="AGENTCTL_DEADLINE: not a length of time"):
        query.everything()
    monkeypatch.setenv("AGENTCTL_DEADLINE", "5s")
    query.everything()


def test_history_is_remembered_only_where_there_is_a_state_directory(
    stage: DemoStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = stage.home / ".demo-agent" / "sessions" / "old.jsonl"
    path.parent.mkdir(parents=True)
    path.write_text('{"type": "session", "at": 1.0}\n')
    os.utime(path, (1e9, 1e9))
    query.everything(Wanted())
    cache = Path(paths.cache_file(stage.environ["AGENTCTL_HOME"]))
    assert cache.exists()
    cache.unlink()
    monkeypatch.setattr(paths, "state_directory", lambda *_: None)
    assert len(query.everything(Wanted()).sessions) == 1
    assert not cache.exists()


def test_the_name_of_a_group() -> None:
    assert query.group_named("fix", ["fix-2", "fix", "other"]) == "fix"
    assert query.group_named("o", ["fix-2", "fix", "other"]) == "other"
    with pytest.raises(Ambiguous, match="could be 2 groups"):
        query.group_named("f", ["fix-2", "fix"])
    with pytest.raises(NotFound) as told:
        query.group_named("x", ["fix"])
    assert told.value.hint == "known: fix"
    with pytest.raises(NotFound):
        query.group_named("", ["fix"])
