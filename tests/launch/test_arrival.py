"""A launched agent is waited for until its session is one that `list` shows, and no longer."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agentctl import paths
from agentctl.adapters.plans import Command
from agentctl.errors import Malformed, StartFailed, Unreachable
from agentctl.launch import arrival, exit_record
from agentctl.launch.order import Order, Wish, prepared
from agentctl.launch.start import launch
from agentctl.state import launch_writes, launches, locks
from agentctl.truth.model import Session
from tests.ending import play_on
from tests.fakes.demo import DemoStage
from tests.waiting import until


@pytest.fixture
def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[DemoStage]:
    """With this very process as the launcher."""
    made = DemoStage(tmp_path)
    play_on(made, monkeypatch)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, sys.path)))
    yield made
    monkeypatch.delenv("AGENTCTL_STAGE")
    made.close()


def order(stage: DemoStage, prompt: str, *native: str) -> Order:
    return prepared(Wish("demo", prompt, str(stage.work), native=native), os.environ).order


def start(stage: DemoStage, given: Order) -> Session:
    return launch(stage.environ["AGENTCTL_HOME"], given)


def notes(stage: DemoStage) -> str:
    return paths.notes_file(stage.environ["AGENTCTL_HOME"])


def changed(given: Order, **command: Any) -> Order:
    return given._replace(command=given.command._replace(**command))


def test_the_session_that_comes_back_is_listed_and_noted(stage: DemoStage) -> None:
    session = start(stage, order(stage, "work 600"))
    (listed,) = stage.survey().sessions
    assert listed.seen.session_id == session.seen.session_id
    (note,) = launches.recorded(notes(stage))
    assert session.launch == note


def test_late_is_not_never(stage: DemoStage) -> None:
    assert start(stage, order(stage, "work 600", "--late", "0.3")).verdict.status == "running"


def test_not_in_time_it_runs_on_with_its_note_and_its_lock(
    stage: DemoStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(arrival, "PATIENCE", 0.2)
    with pytest.raises(Unreachable, match="no session after") as caught:
        start(stage, order(stage, "work 600", "--late", "600"))
    (note,) = launches.recorded(notes(stage))
    assert f"pid:{note.identity.pid}" in caught.value.hint
    assert [lock.identity for lock in locks.held(notes(stage))] == [note.identity]
    assert note.identity.pid in {process.pid for process in stage.processes()}


def test_another_session_than_the_one_meant(stage: DemoStage) -> None:
    with pytest.raises(StartFailed, match="instead of the-one-we-want"):
        start(stage, changed(order(stage, "work 600"), expected="the-one-we-want"))
    assert launches.recorded(notes(stage)) == []
    until(lambda: stage.processes() == [], "it was ended at once")


def test_why_it_failed_is_told_also_where_the_note_cannot_be_taken_back(
    stage: DemoStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(path: str, *_: object) -> None:
        raise Malformed(path, "database or disk is full")

    monkeypatch.setattr(launch_writes, "forget", full)
    with pytest.raises(StartFailed, match="exit code 3"):
        start(stage, order(stage, "exit 3"))
    until(lambda: stage.processes() == [], "the shim has left")


def test_an_id_of_our_own_choice_counts_when_the_agent_speaks_of_it(stage: DemoStage) -> None:
    first = start(stage, order(stage, "work 600")._replace(force=True))
    session_id = first.seen.session_id
    assert session_id is not None

    def never(_: bytes) -> str | None:
        return None

    given = changed(order(stage, "work 600"), session_id=session_id, announced=never)
    stage.close()
    again = given.command.argv
    resumed = (*again[:4], "--resume", session_id, *again[4:])  # python -P -m MODULE …
    assert start(stage, changed(given, argv=resumed)).verdict.activity == "working"


def test_an_end_before_anything_is_told_with_the_agents_words(stage: DemoStage) -> None:
    with pytest.raises(StartFailed, match="exit code 2") as caught:
        start(stage, order(stage, "dance"))
    assert caught.value.said[-1] == "demo-agent: no such step: dance"


def test_a_signal_is_told_as_one(stage: DemoStage) -> None:
    argv = ("/bin/sh", "-c", "kill -9 $$")
    with pytest.raises(StartFailed, match="signal 9"):
        start(stage, changed(order(stage, "work"), argv=argv))


def test_done_in_no_time_is_a_success(stage: DemoStage) -> None:
    session = start(stage, order(stage, "exit 0"))
    assert session.verdict.outcome in (None, "completed")
    assert session.launch is not None


def test_a_success_that_did_nothing_is_none(stage: DemoStage) -> None:
    session = start(stage, order(stage, "exit 0"))
    until(lambda: stage.processes() == [], "it has ended")
    again = order(stage, "x")
    idle = Command(
        ("/bin/true",),
        str(stage.work),
        session_id=session.seen.session_id,
        expected=session.seen.session_id,
    )
    since = session.seen.facts.last_activity_at
    with pytest.raises(StartFailed, match="exit code 0"):
        start(stage, again._replace(command=idle, before=since))


def test_how_it_ended_where_nobody_can_tell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The launch has failed anyway, and that is what is to be told."""
    monkeypatch.setattr(exit_record, "LAST_WORD", 0.05)
    notes = paths.notes_file(str(tmp_path))
    folder = Path(launches.folder(notes, "1a"))
    assert arrival.how_it_ended(notes, "1a") is None, "deleted"
    folder.mkdir(parents=True)
    assert arrival.how_it_ended(notes, "1a") is None, "nothing written"
    (folder / "exit").write_text('{"code"')
    assert arrival.how_it_ended(notes, "1a") is None, "half a record"
    (folder / "exit").write_text(json.dumps({"code": 3, "at": 1.0}))
    record = arrival.how_it_ended(notes, "1a")
    assert record is not None
    assert record.code == 3
