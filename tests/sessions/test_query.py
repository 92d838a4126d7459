"""What a query adds to a survey: notes, cache, deadline."""

import os
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agentctl import paths
from agentctl.errors import Ambiguous, NotFound, UsageError
from agentctl.sessions import query
from agentctl.state import launch_writes
from agentctl.system import clock, sqlite
from agentctl.system.proc import ProcessIdentity
from agentctl.system.sqlite import Database
from agentctl.truth.judge import judge
from agentctl.truth.memory import Memory
from agentctl.truth.model import Launch, Observation, Session
from agentctl.truth.survey import HistoryQuery, Survey
from tests.fakes.demo import DemoStage
from tests.waiting import until

pytestmark = pytest.mark.usefixtures("stage")


def test_labels_come_from_our_notes(stage: DemoStage) -> None:
    puppet = stage.start()
    note = Launch("l1", puppet.identity, puppet.session_id, "mine", "g", created_at=1.0)._replace(
        namespace=os.readlink("/proc/self/ns/pid")
    )
    launch_writes.begin_launch(paths.database_file(stage.environ["AGENTCTL_HOME"]), note)
    (session,) = query.survey_sessions().sessions
    assert session.launch == note


def test_unchanged_notes_are_remembered_and_changed_ones_read(
    stage: DemoStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    puppet, path = stage.start(), paths.database_file(stage.environ["AGENTCTL_HOME"])
    note = Launch("l1", puppet.identity, puppet.session_id, "mine", adapter="demo", created_at=1.0)
    launch_writes.begin_launch(path, note)
    until(lambda: is_settled(path), "the database is old enough")
    memory, opened, connect = Memory(), list[str](), Database._connect

    def note_and_connect(database: Database) -> sqlite3.Connection:
        opened.append(database.path)
        return connect(database)

    monkeypatch.setattr(Database, "_connect", note_and_connect)

    def find_names() -> list[str | None]:
        sessions = query.survey_sessions(memory=memory).sessions
        return [each.launch.name if each.launch is not None else None for each in sessions]

    assert (find_names(), find_names(), opened) == (["mine"], ["mine"], [path])
    launch_writes.begin_launch(path, note._replace(id="l2", name="later", created_at=2.0))
    assert find_names() == ["later"]


def is_settled(path: str) -> bool:
    stamp = sqlite.read_stamp(path)
    return stamp is not None and clock.is_settled(stamp[1])


def test_unreadable_notes_cost_only_labels(stage: DemoStage) -> None:
    stage.start()
    state = Path(stage.environ["AGENTCTL_HOME"])
    state.mkdir()
    Path(paths.database_file(str(state))).write_text("not a database at all, however long it is\n" * 99)
    survey = query.survey_sessions()
    assert len(survey.sessions) == 1
    assert [problem.kind for problem in survey.problems] == ["malformed"]


def test_a_note_alone_is_no_session(stage: DemoStage) -> None:
    note = Launch("l1", ProcessIdentity("b", 1, 2), "some-id", name="ghost")
    launch_writes.begin_launch(paths.database_file(stage.environ["AGENTCTL_HOME"]), note)
    assert query.survey_sessions(HistoryQuery()).sessions == []


def test_the_deadline_is_read_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENTCTL_DEADLINE", "soon")
    with pytest.raises(UsageError, match="AGENTCTL_DEADLINE: not a duration"):
        query.survey_sessions()
    monkeypatch.setenv("AGENTCTL_DEADLINE", "5s")
    query.survey_sessions()


def test_history_is_cached_only_with_a_state_directory(
    stage: DemoStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = stage.home / ".demo-agent" / "sessions" / "old.jsonl"
    path.parent.mkdir(parents=True)
    path.write_text('{"type": "session", "at": 1.0}\n')
    os.utime(path, (1e9, 1e9))
    query.survey_sessions(HistoryQuery())
    cache = Path(paths.cache_file(stage.environ["AGENTCTL_HOME"]))
    assert cache.exists()
    cache.unlink()
    monkeypatch.setattr(paths, "state_directory", lambda *_: None)
    assert len(query.survey_sessions(HistoryQuery()).sessions) == 1
    assert not cache.exists()


def test_a_group_is_picked_by_name_or_prefix() -> None:
    assert query.pick_group("fix", ["fix-2", "fix", "other"]) == "fix"
    assert query.pick_group("o", ["fix-2", "fix", "other"]) == "other"
    with pytest.raises(Ambiguous, match="could be 2 groups"):
        query.pick_group("f", ["fix-2", "fix"])
    with pytest.raises(NotFound) as caught:
        query.pick_group("x", ["fix"])
    assert caught.value.hint == "groups: fix"
    with pytest.raises(NotFound):
        query.pick_group("", ["fix"])


def _write_ended_session(stage: DemoStage, session_id: str) -> None:
    path = stage.home / ".demo-agent" / "sessions" / f"{session_id}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text('{"type": "session", "at": 1.0}\n')


def _record_histories(histories: list[HistoryQuery | None]) -> Callable[..., Survey]:
    def ask(history: HistoryQuery | None, *rest: Any) -> Survey:
        histories.append(history)
        return query.survey_sessions(history, *rest)

    return ask


def test_history_is_not_read_for_a_live_session(stage: DemoStage) -> None:
    session_id = stage.start().session_id or ""
    _write_ended_session(stage, f"{session_id[:8]}-ended")
    for text in (session_id, session_id[:8]):  # the prefix fits the ended one, too
        histories: list[HistoryQuery | None] = []
        survey = query.survey_for(text, ask=_record_histories(histories))
        assert query.pick_session(survey, text).observation.session_id == session_id
        assert histories == [None]


def test_history_is_read_where_no_live_session_matches(stage: DemoStage) -> None:
    stage.start()
    _write_ended_session(stage, "ended")
    histories: list[HistoryQuery | None] = []
    survey = query.survey_for("end", ask=_record_histories(histories))
    assert query.pick_session(survey, "end").verdict.status == "stopped"
    assert histories == [None, HistoryQuery(id_prefix="end")]


def test_a_prefix_of_two_live_sessions_is_ambiguous() -> None:
    observations = [Observation("demo", f"twin-{number}", ()) for number in range(2)]
    live = Survey([Session(each, judge(each.evidence)) for each in observations], [])
    histories: list[HistoryQuery | None] = []

    def ask(history: HistoryQuery | None, *_: Any) -> Survey:
        histories.append(history)
        return live

    with pytest.raises(Ambiguous, match="could be 2 sessions"):
        query.pick_session(query.survey_for("twin", ask=ask), "twin")
    assert histories == [None]
