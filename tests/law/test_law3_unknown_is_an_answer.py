"""Law 3: a status that we cannot prove is unknown, with the reason; it is never guessed from age, mtime
or a grace period."""

import os
import signal
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentctl.testing import Stage
from agentctl.truth.bind import Tie, bind
from agentctl.truth.judge import judge
from agentctl.truth.look import Look
from agentctl.truth.model import Evidence, Facts, Observation, Session, Turn
from agentctl.truth.observe import observe_live
from agentctl.truth.survey import HistoryQuery, survey
from tests.fakes.badly import Adapter, make_entry
from tests.fakes.demo import DemoStage
from tests.fakes.stranger import Stranger
from tests.law.asking import agentctl_json, start_agent
from tests.truth.strategies import bodies

YEARS = 3600 * 24 * 365 * 20


class Inferring(Adapter):
    """Knows only some processes, some sessions and their directory."""

    sessions: tuple[str, ...] = ("s1", "s2")

    def live(self, look: Look) -> Iterable[Observation]:
        ties = [Tie(s, p, "inferred", f"/{s}") for s in self.sessions for p in look.own_processes]
        for bound in bind(ties).values():
            yield observe_live(look, bound, f"/{bound.session_id}", Facts(turn=Turn("working")))

    def history(self, look: Look, query: HistoryQuery) -> Iterable[Observation]:
        return ()


@pytest.fixture
def demo(tmp_path: Path) -> Iterator[DemoStage]:
    stage = DemoStage(tmp_path)
    yield stage
    stage.close()


def infer(demo: DemoStage, *sessions: str) -> dict[str | None, Session]:
    adapter = Inferring("inferring", "inferred")
    adapter.sessions = sessions
    result = survey(Look.take(demo.environ), [make_entry(adapter)], deadline=20.0)
    assert result.problems == []
    return {session.observation.session_id: session for session in result.sessions}


def test_two_sessions_and_two_processes_are_unknown(demo: DemoStage) -> None:
    with (
        Stranger("inferred", demo.environ, demo.work) as one,
        Stranger("inferred", demo.environ, demo.work) as two,
    ):
        rows = infer(demo, "s1", "s2")
        for session_id in ("s1", "s2"):
            verdict = rows[session_id].verdict
            assert verdict.status == "unknown"
            assert f"pid {one.pid}" in verdict.reason
            assert f"pid {two.pid}" in verdict.reason
            assert rows[session_id].observation.owner is None
        # both processes are listed nevertheless
        bare = [s for s in rows.values() if s.observation.owner is not None]
        assert all(s.verdict.status == "running" for s in bare)


def test_an_inference_needs_one_session_and_one_process(demo: DemoStage) -> None:
    with Stranger("inferred", demo.environ, demo.work):
        assert {s.verdict.status for k, s in infer(demo, "s1", "s2").items() if k} == {"unknown"}
        only = infer(demo, "s1")["s1"]
        assert only.verdict.status == "running"
        assert "inferred" in only.verdict.used[0].note
        with Stranger("inferred", demo.environ, demo.work):
            assert infer(demo, "s1")["s1"].verdict.status == "unknown"


def test_a_process_that_may_be_the_writer_makes_a_session_unknown(demo: DemoStage) -> None:
    puppet, session_id = start_agent(demo)
    demo.records(puppet)[0].unlink()
    verdict = demo.session(session_id).verdict
    assert verdict.status == "unknown"
    assert f"pid {puppet.pid}" in verdict.reason
    puppet.kill()
    assert demo.session(session_id).verdict.status == "stopped"


def test_a_script_gets_unknown_too(demo: DemoStage) -> None:
    puppet, session_id = start_agent(demo)
    demo.records(puppet)[0].unlink()
    (answer,) = agentctl_json(demo, "status", session_id)["sessions"]
    assert (answer["status"], answer["outcome"], answer["pid"]) == ("unknown", None, None)
    assert str(puppet.pid) in answer["reason"]


@pytest.mark.few(2)
@pytest.mark.parametrize("age", [-YEARS, -3600, 3600, YEARS])
def test_the_age_of_files_decides_no_status_of_a_live_session(stage: Stage, age: int) -> None:
    puppet, session_id = start_agent(stage)
    before = stage.session(session_id).verdict[:5]
    shift_times(stage.records(puppet), age)
    assert stage.session(session_id).verdict[:5] == before
    puppet.do("rest")
    shift_times(stage.records(puppet), age)
    assert stage.session(session_id).verdict.status == "idle"


def shift_times(paths: list[Path], age: int) -> None:
    for path in paths:
        if path.suffix != ".lock":  # the time of a lock is a fact about its owner, not an age
            status = path.stat()
            os.utime(path, (status.st_atime + age, status.st_mtime + age))


def test_a_killed_session_does_not_become_completed_with_age(stage: Stage) -> None:
    puppet, session_id = start_agent(stage)
    records = stage.records(puppet)
    puppet.kill(signal.SIGKILL)
    for path in records:
        os.utime(path, (0, 0))
    verdict = stage.session(session_id).verdict
    assert (verdict.status, verdict.outcome) == ("stopped", "killed")


@given(bodies, st.floats(-1e10, 1e10))
def test_shifting_all_times_leaves_the_verdict(evidence: tuple[Evidence, ...], by: float) -> None:
    shifted = [e if e.at is None else e._replace(at=e.at + by) for e in evidence]
    assert judge(shifted)[:6] == judge(evidence)[:6]


@given(bodies, st.data())
def test_any_times_at_all_leave_the_verdict(evidence: tuple[Evidence, ...], data: st.DataObject) -> None:
    times = st.none() | st.floats(allow_nan=False)
    changed = [e._replace(at=data.draw(times)) for e in evidence]
    assert judge(changed)[:6] == judge(evidence)[:6]
