"""A launched agent is waited for until its session is one that `list` shows, and no longer."""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agentctl import paths
from agentctl.adapters.plans import Command
from agentctl.errors import Malformed, StartFailed, Unreachable
from agentctl.launch import arrival, exit_record
from agentctl.launch.order import Order, StartRequest, prepare_order
from agentctl.launch.start import launch_agent
from agentctl.state import launch_writes, launches, locks
from agentctl.system import proc
from agentctl.system.pidfd import Handle
from agentctl.truth.model import Session
from tests.ending import play_on
from tests.fakes.demo import DemoStage
from tests.fakes.stranger import Stranger
from tests.waiting import until


@pytest.fixture
def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[DemoStage]:
    """With this very process as the launcher."""
    demo_stage = DemoStage(tmp_path)
    play_on(demo_stage, monkeypatch)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, sys.path)))
    yield demo_stage
    monkeypatch.delenv("AGENTCTL_STAGE")
    demo_stage.close()


def order(stage: DemoStage, prompt: str, *native: str) -> Order:
    return prepare_order(StartRequest("demo", prompt, str(stage.work), native=native), os.environ)


def start(stage: DemoStage, new_order: Order) -> Session:
    return launch_agent(stage.environ["AGENTCTL_HOME"], new_order)


def notes(stage: DemoStage) -> str:
    return paths.database_file(stage.environ["AGENTCTL_HOME"])


def change_command(new_order: Order, **command: Any) -> Order:
    return new_order._replace(command=new_order.command._replace(**command))


def force_start(new_order: Order) -> Order:
    return new_order._replace(request=new_order.request._replace(force=True))


def test_the_returned_session_is_listed_and_noted(stage: DemoStage) -> None:
    session = start(stage, order(stage, "work 600"))
    (listed,) = stage.survey().sessions
    assert listed.observation.session_id == session.observation.session_id
    (note,) = launches.read_launches(notes(stage))
    assert session.launch == note


def test_a_late_session_is_waited_for(stage: DemoStage) -> None:
    assert start(stage, order(stage, "work 600", "--late", "0.3")).verdict.status == "running"


def test_an_agent_without_a_session_runs_on_with_its_note_and_lock(
    stage: DemoStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(arrival, "PATIENCE", 0.2)
    with pytest.raises(Unreachable, match="no session after") as caught:
        start(stage, order(stage, "work 600", "--late", "600"))
    (note,) = launches.read_launches(notes(stage))
    assert f"pid:{note.identity.pid}" in caught.value.hint
    assert [lock.identity for lock in locks.list_held(notes(stage))] == [note.identity]
    assert note.identity.pid in {process.pid for process in stage.processes()}


def test_an_unexpected_session_fails_the_launch(stage: DemoStage) -> None:
    with pytest.raises(StartFailed, match="instead of the-one-we-want"):
        start(stage, change_command(order(stage, "work 600"), expected_id="the-one-we-want"))
    assert launches.read_launches(notes(stage)) == []
    until(lambda: stage.processes() == [], "it was ended at once")


def test_the_failure_is_reported_when_the_note_cannot_be_deleted(
    stage: DemoStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(path: str, *_: object) -> None:
        raise Malformed(path, "database or disk is full")

    monkeypatch.setattr(launch_writes, "forget_launches", full)
    with pytest.raises(StartFailed, match="exit code 3"):
        start(stage, order(stage, "exit 3"))
    until(lambda: stage.processes() == [], "the shim has left")


def test_a_chosen_id_counts_when_the_agent_records_it(stage: DemoStage) -> None:
    first = start(stage, force_start(order(stage, "work 600")))
    session_id = first.observation.session_id
    assert session_id is not None

    def never(_: bytes) -> str | None:
        return None

    new_order = change_command(order(stage, "work 600"), session_id=session_id, read_id=never)
    stage.close()
    again = new_order.command.argv
    resumed = (*again[:4], "--resume", session_id, *again[4:])  # python -P -m MODULE …
    assert start(stage, change_command(new_order, argv=resumed)).verdict.activity == "working"


def test_an_early_end_is_reported_with_the_agents_output(stage: DemoStage) -> None:
    with pytest.raises(StartFailed, match="exit code 2") as caught:
        start(stage, order(stage, "dance"))
    assert caught.value.output[-1] == "demo-agent: no such step: dance"


def test_an_end_by_signal_is_reported(stage: DemoStage) -> None:
    argv = ("/bin/sh", "-c", "kill -9 $$")
    with pytest.raises(StartFailed, match="signal 9"):
        start(stage, change_command(order(stage, "work"), argv=argv))


def test_an_agent_that_completes_at_once_is_a_success(stage: DemoStage) -> None:
    session = start(stage, order(stage, "exit 0"))
    assert session.verdict.outcome in (None, "completed")
    assert session.launch is not None


def test_exit_code_0_without_activity_is_a_failure(stage: DemoStage) -> None:
    session = start(stage, order(stage, "exit 0"))
    until(lambda: stage.processes() == [], "it has ended")
    again = order(stage, "x")
    idle = Command(
        ("/bin/true",),
        str(stage.work),
        session_id=session.observation.session_id,
        expected_id=session.observation.session_id,
    )
    since = session.observation.facts.last_activity_at
    with pytest.raises(StartFailed, match="exit code 0"):
        start(stage, again._replace(command=idle, before=since))


def test_an_absent_or_incomplete_exit_record_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The launch has failed anyway: the user must see that error, not one about the record."""
    monkeypatch.setattr(exit_record, "LAST_WORD", 0.05)
    notes = paths.database_file(str(tmp_path))
    folder = Path(launches.launch_folder(notes, "1a"))
    assert arrival.read_exit(notes, "1a") is None, "deleted"
    folder.mkdir(parents=True)
    assert arrival.read_exit(notes, "1a") is None, "nothing written"
    (folder / "exit").write_text('{"code"')
    assert arrival.read_exit(notes, "1a") is None, "half a record"
    (folder / "exit").write_text(json.dumps({"code": 3, "at": 1.0}))
    record = arrival.read_exit(notes, "1a")
    assert record is not None
    assert record.code == 3


# the settle time


@pytest.mark.parametrize(
    ("passed", "queued", "remaining"),
    [
        (0.0, 0.0, 2.0),
        (2.0, 0.0, 0.0),
        (2.0, 1.5, 1.5),
        (5.0, 3.0, 0.0),
        (19.0, 19.0, 1.0),
        (20.0, 20.0, 0.0),
    ],
)
def test_the_time_in_the_queue_does_not_count_up_to_a_limit(
    passed: float, queued: float, remaining: float
) -> None:
    assert arrival.remaining_seconds(2.0, passed, queued) == remaining


def test_one_that_stays_and_one_that_ends(tmp_path: Path) -> None:
    with Stranger("one", {"PATH": "/usr/bin:/bin"}, tmp_path) as one, Handle(one.identity) as agent:
        pid = one.identity.pid
        assert not arrival.ends_within(agent, pid, 0.0)
        assert not arrival.ends_within(agent, pid, 0.01)
        end = threading.Timer(0.05, one.end)
        end.start()
        assert arrival.ends_within(agent, pid, 60.0)
        end.join()
        assert arrival.ends_within(agent, pid, 0.0)


@pytest.mark.slow
def test_time_in_the_run_queue_extends_the_wait(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The agent waits for a CPU, and ends when it gets one."""
    queue_times = iter([0.0, 30.0])
    with Stranger("one", {"PATH": "/usr/bin:/bin"}, tmp_path) as one, Handle(one.identity) as agent:

        def queue_seconds(_: int) -> float:
            so_far = next(queue_times)
            if so_far:
                one.end()
            return so_far

        monkeypatch.setattr(proc, "read_queue_seconds", queue_seconds)
        assert arrival.ends_within(agent, one.identity.pid, 5.0)
