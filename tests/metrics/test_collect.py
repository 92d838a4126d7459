"""The states of this moment, read by the official client."""

import os
import time
from pathlib import Path

import pytest

import agentctl
from agentctl.metrics import collect
from agentctl.metrics.families import FAMILIES
from agentctl.sessions import query
from agentctl.state import db, launch_writes, locks
from agentctl.system import proc
from agentctl.system.proc import ProcessIdentity
from agentctl.truth.model import Launch, Problem
from agentctl.truth.survey import HistoryQuery, Survey
from tests.fakes.demo import DemoStage
from tests.metrics.samples import read_samples


@pytest.fixture
def real_stage(stage: DemoStage, monkeypatch: pytest.MonkeyPatch) -> DemoStage:
    for name, value in stage.environ.items():
        monkeypatch.setenv(name, value)
    return stage


def test_sessions_by_agent_and_status(real_stage: DemoStage) -> None:
    needy, resting = real_stage.start(), real_stage.start()
    needy.do("ask")
    resting.do("work 0.5")
    resting.do("rest")
    samples = read_samples(collect.collect(real_stage.environ))
    assert samples["sessions", ("demo", "waiting")] == 1
    assert samples["sessions", ("demo", "idle")] == 1
    assert samples["sessions_waiting", ("demo", "question")] == 1
    assert samples["session_tokens", ("demo", "input")] == 100
    assert samples["build_info", (agentctl.__version__,)] == 1
    needy.kill()
    samples = read_samples(collect.collect(real_stage.environ))
    assert ("sessions", ("demo", "waiting")) not in samples
    assert samples["sessions", ("demo", "idle")] == 1


def test_the_costs_of_live_sessions_are_added_up(real_stage: DemoStage) -> None:
    """The demo agent records no cost: only the cost is made up."""
    real_stage.start()
    real_stage.start()
    sessions = [
        s._replace(observation=s.observation._replace(facts=s.observation.facts._replace(cost_usd=0.25)))
        for s in query.survey_sessions().sessions
    ]
    samples = read_samples(list(collect.survey_families(Survey(sessions, []))))
    assert samples["session_cost_usd", ("demo",)] == 0.5


def test_a_stopped_session_is_not_counted(real_stage: DemoStage) -> None:
    puppet = real_stage.start()
    puppet.do("work 0.1")
    puppet.kill()
    survey = query.survey_sessions(HistoryQuery())
    assert [s.verdict.status for s in survey.sessions] == ["stopped"]
    samples = read_samples(list(collect.survey_families(survey)))
    assert {name for name, _ in samples} == {"survey_adapter_seconds"}
    assert all(seconds >= 0 for seconds in samples.values())


def test_problems_by_agent_and_kind() -> None:
    problems = [Problem("pi", "drift", "a"), Problem("pi", "drift", "b"), Problem("", "gone", "c")]
    samples = read_samples(list(collect.survey_families(Survey([], problems))))
    assert samples["survey_problems", ("pi", "drift")] == 2
    assert samples["survey_problems", ("", "gone")] == 1


def test_launches_locks_fuses_and_deliveries(tmp_path: Path) -> None:
    path = str(tmp_path / "state.db")
    me = proc.read_process(os.getpid(), proc.read_boot_id()).identity
    launch_writes.begin_launch(path, Launch("1", me))
    launch_writes.begin_launch(path, Launch("2", ProcessIdentity("another boot", 1, 2)))
    locks.acquire_lock(path, str(tmp_path), "me", None, None)
    with db.transaction(path) as connection:
        locks.take_lock(connection, "/", "1", me, force=False)
        for number, state in enumerate(("burning", "burning", "cancelled")):
            connection.execute(
                "insert into fuse (id, actions, created_at, boot, due_boot, due_at, phase)"
                " values (?, '[]', 1, 'b', 1, 1, ?)",
                (str(number), state),
            )
        connection.execute(
            "insert into outbox (id, kind, target, seq, created_at, due_at)"
            " values ('d', 'webhook', 'ops', 1, 1, 1)"
        )
    samples = read_samples(list(collect.state_families(path)))
    assert samples == {
        ("launches", ("live",)): 1,
        ("launches", ("ended",)): 1,
        ("locks", ("agent",)): 1,
        ("locks", ("person",)): 1,
        ("fuses", ("burning",)): 2,
        ("fuses", ("firing",)): 0,
        ("deliveries", ("webhook", "ops", "pending")): 1,
    }


def test_without_a_database_every_value_is_0(tmp_path: Path) -> None:
    samples = read_samples(list(collect.state_families(str(tmp_path / "state.db"))))
    assert set(samples.values()) == {0}
    assert not list(tmp_path.iterdir())
    assert {f.name for f in collect.state_families(None)} >= {"agentctl_launches", "agentctl_locks"}


def test_a_database_that_cannot_be_read_is_a_problem(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    path.write_text("not a database at all, however long it is\n" * 99)
    families = list(collect.state_families(str(path)))
    assert [family.name for family in families] == ["agentctl_state_problems"]
    assert read_samples(families) == {("state_problems", ("malformed",)): 1}


def test_the_metrics_of_this_process() -> None:
    samples = read_samples(list(collect.process_families(12.5)))
    assert samples["daemon_start_time_seconds", ()] == 12.5
    assert samples["daemon_cpu_seconds_total", ()] >= time.process_time() * 0.5
    resident, private = (samples["daemon_memory_bytes", (kind,)] for kind in ("resident", "private"))
    assert resident >= private > 1 << 20


def test_every_family_that_needs_no_daemon_is_collected(tmp_path: Path) -> None:
    families = collect.collect({"AGENTCTL_HOME": str(tmp_path)}, lambda: Survey([], []))
    assert {f.name for f in families} == {n for n, family in FAMILIES.items() if family.origin == "now"}
    assert not list(tmp_path.iterdir())
