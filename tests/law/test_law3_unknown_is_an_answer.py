"""Law 3: what cannot be told is called unknown, with the reason; it is never guessed from age,
mtime or a grace period."""

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
from agentctl.truth.observe import living
from agentctl.truth.survey import Wanted, survey
from tests.fakes.badly import Adapter, registered
from tests.fakes.demo import DemoStage
from tests.fakes.stranger import Stranger
from tests.law.asking import agentctl_json, working
from tests.truth.strategies import bodies

YEARS = 3600 * 24 * 365 * 20


class Inferring(Adapter):
    """Knows no more than: these processes, those sessions, one directory."""

    sessions: tuple[str, ...] = ("s1", "s2")

    def live(self, look: Look) -> Iterable[Observation]:
        ties = [Tie(s, p, "inferred", f"/{s}") for s in self.sessions for p in look.owned]
        for bound in bind(ties).values():
            yield living(look, bound, f"/{bound.session_id}", Facts(turn=Turn("working")))

    def history(self, look: Look, wanted: Wanted) -> Iterable[Observation]:
        return ()


@pytest.fixture
def demo(tmp_path: Path) -> Iterator[DemoStage]:
    made = DemoStage(tmp_path)
    yield made
    made.close()


def infer(demo: DemoStage, *sessions: str) -> dict[str | None, Session]:
    adapter = Inferring("inferring", "inferred")
    adapter.sessions = sessions
    found = survey(Look.take(demo.environ), [registered(adapter)], deadline=20.0)
    assert found.problems == []
    return {session.seen.session_id: session for session in found.sessions}


def test_two_sessions_two_processes_and_nothing_else_known(demo: DemoStage) -> None:
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
            assert rows[session_id].seen.owner is None
        # both processes are there for all that
        bare = [s for s in rows.values() if s.seen.owner is not None]
        assert all(s.verdict.status == "running" for s in bare)


def test_two_candidates_on_either_side_are_one_too_many(demo: DemoStage) -> None:
    with Stranger("inferred", demo.environ, demo.work):
        assert {s.verdict.status for k, s in infer(demo, "s1", "s2").items() if k} == {"unknown"}
        only = infer(demo, "s1")["s1"]
        assert only.verdict.status == "running"
        assert "inferred" in only.verdict.used[0].note
        with Stranger("inferred", demo.environ, demo.work):
            assert infer(demo, "s1")["s1"].verdict.status == "unknown"


def test_a_loose_process_that_may_be_the_writer_makes_it_unknown(demo: DemoStage) -> None:
    puppet, session_id = working(demo)
    demo.records(puppet)[0].unlink()
    verdict = demo.session(session_id).verdict
    assert verdict.status == "unknown"
    assert f"pid {puppet.pid}" in verdict.reason
    puppet.kill()
    assert demo.session(session_id).verdict.status == "stopped"


def test_unknown_is_told_to_a_script_too(demo: DemoStage) -> None:
    puppet, session_id = working(demo)
    demo.records(puppet)[0].unlink()
    (answer,) = agentctl_json(demo, "status", session_id)["sessions"]
    assert (answer["status"], answer["outcome"], answer["pid"]) == ("unknown", None, None)
    assert str(puppet.pid) in answer["reason"]


@pytest.mark.parametrize("age", [-YEARS, -3600, 3600, YEARS])
def test_the_age_of_files_decides_nothing_about_the_living(stage: Stage, age: int) -> None:
    puppet, session_id = working(stage)
    before = stage.session(session_id).verdict[:5]
    shift(stage.records(puppet), age)
    assert stage.session(session_id).verdict[:5] == before
    puppet.do("rest")
    shift(stage.records(puppet), age)
    assert stage.session(session_id).verdict.status == "idle"


def shift(paths: list[Path], age: int) -> None:
    for path in paths:
        if path.suffix != ".lock":  # when a lock was taken is a fact of its owner, not an age
            status = path.stat()
            os.utime(path, (status.st_atime + age, status.st_mtime + age))


def test_a_killed_one_does_not_become_completed_by_waiting(stage: Stage) -> None:
    puppet, session_id = working(stage)
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
