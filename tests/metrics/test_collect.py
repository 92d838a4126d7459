"""States, as they are when asked; read by the official client."""

import os
import time
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

import agentctl
from agentctl.metrics import collect, exposition
from agentctl.metrics.exposition import Family
from agentctl.metrics.families import FAMILIES
from agentctl.sessions import query
from agentctl.state import db, launch_writes, locks
from agentctl.system import proc
from agentctl.system.identity import ProcessIdentity
from agentctl.truth.model import Launch, Problem
from agentctl.truth.survey import Survey, Wanted
from tests.fakes.demo import DemoStage

Found = dict[tuple[str, tuple[str, ...]], float]


def read(families: list[Family]) -> Found:
    return {
        (sample.name.removeprefix("agentctl_"), tuple(sample.labels.values())): sample.value
        for family in text_string_to_metric_families(exposition.text(families))
        for sample in family.samples
    }


@pytest.fixture
def seen(stage: DemoStage, monkeypatch: pytest.MonkeyPatch) -> DemoStage:
    for name, value in stage.environ.items():
        monkeypatch.setenv(name, value)
    return stage


def test_sessions_by_agent_and_status(seen: DemoStage) -> None:
    needy, resting = seen.start(), seen.start()
    needy.do("ask")
    resting.do("work 0.5")
    resting.do("rest")
    found = read(collect.collect(seen.environ))
    assert found["sessions", ("demo", "waiting")] == 1
    assert found["sessions", ("demo", "idle")] == 1
    assert found["sessions_waiting", ("demo", "question")] == 1
    assert found["session_tokens", ("demo", "input")] == 100
    assert found["build_info", (agentctl.__version__,)] == 1
    needy.kill()
    found = read(collect.collect(seen.environ))
    assert ("sessions", ("demo", "waiting")) not in found
    assert found["sessions", ("demo", "idle")] == 1


def test_cost_of_live_sessions_is_added_up(seen: DemoStage) -> None:
    """The demo agent writes none: what its files would say is played, all else is real."""
    seen.start()
    seen.start()
    sessions = [
        s._replace(seen=s.seen._replace(facts=s.seen.facts._replace(cost_usd=0.25)))
        for s in query.everything().sessions
    ]
    found = read(list(collect.of_survey(Survey(sessions, []))))
    assert found["session_cost_usd", ("demo",)] == 0.5


def test_an_ended_session_is_none_of_them(seen: DemoStage) -> None:
    puppet = seen.start()
    puppet.do("work 0.1")
    puppet.kill()
    found = query.everything(Wanted())
    assert [s.verdict.status for s in found.sessions] == ["stopped"]
    told = read(list(collect.of_survey(found)))
    assert {name for name, _ in told} == {"survey_adapter_seconds"}
    assert all(seconds >= 0 for seconds in told.values())


def test_problems_by_agent_and_kind() -> None:
    problems = [Problem("pi", "drift", "a"), Problem("pi", "drift", "b"), Problem("", "gone", "c")]
    found = read(list(collect.of_survey(Survey([], problems))))
    assert found["survey_problems", ("pi", "drift")] == 2
    assert found["survey_problems", ("", "gone")] == 1


def test_launches_locks_fuses_and_deliveries(tmp_path: Path) -> None:
    path = str(tmp_path / "state.db")
    me = proc.read_process(os.getpid(), proc.boot_id()).identity
    launch_writes.begin(path, Launch("1", me))
    launch_writes.begin(path, Launch("2", ProcessIdentity("another boot", 1, 2)))
    locks.acquire(path, str(tmp_path), "me", None, None)
    with db.transaction(path) as connection:
        locks.take(connection, "/", "1", me, force=False)
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
    found = read(list(collect.of_state(path)))
    assert found == {
        ("launches", ("live",)): 1,
        ("launches", ("ended",)): 1,
        ("locks", ("agent",)): 1,
        ("locks", ("person",)): 1,
        ("fuses", ("burning",)): 2,
        ("fuses", ("firing",)): 0,
        ("deliveries", ("webhook", "ops", "pending")): 1,
    }


def test_where_nothing_was_kept_yet_there_is_none_of_it(tmp_path: Path) -> None:
    found = read(list(collect.of_state(str(tmp_path / "state.db"))))
    assert set(found.values()) == {0}
    assert not list(tmp_path.iterdir())
    assert {f.name for f in collect.of_state(None)} >= {"agentctl_launches", "agentctl_locks"}


def test_a_database_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    path.write_text("not a database at all, however long it is\n" * 99)
    told = list(collect.of_state(str(path)))
    assert [family.name for family in told] == ["agentctl_state_problems"]
    assert read(told) == {("state_problems", ("malformed",)): 1}


def test_of_this_process() -> None:
    found = read(list(collect.of_process(12.5)))
    assert found["daemon_start_time_seconds", ()] == 12.5
    assert found["daemon_cpu_seconds_total", ()] >= time.process_time() * 0.5
    resident, private = (found["daemon_memory_bytes", (kind,)] for kind in ("resident", "private"))
    assert resident >= private > 1 << 20


def test_all_that_is_known_without_a_daemon(tmp_path: Path) -> None:
    told = collect.collect({"AGENTCTL_HOME": str(tmp_path)}, lambda: Survey([], []))
    assert {f.name for f in told} == {n for n, known in FAMILIES.items() if known.origin == "now"}
    assert not list(tmp_path.iterdir())
