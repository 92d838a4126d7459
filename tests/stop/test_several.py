"""Several stops side by side."""

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentctl.adapters.plans import StopPlan
from agentctl.errors import Refused
from agentctl.process.handles import DEATH
from agentctl.stop import stop
from agentctl.stop.several import Job, all_at_once, foreseen
from agentctl.system.proc import Process
from tests.fakes.doomed import Doomed
from tests.waiting import until

PATIENT = StopPlan(signals=((signal.SIGINT, 20.0),))


@pytest.fixture
def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Doomed]:
    made = Doomed(tmp_path)
    monkeypatch.setenv("AGENTCTL_CONFINE", made.environ["AGENTCTL_CONFINE"])
    yield made
    made.close()


def test_all_end_and_are_told_in_the_order_given(stage: Doomed) -> None:
    agents = [stage.working() for _ in range(4)]
    jobs = [Job(session, PATIENT) for _, session in agents]
    done = list(all_at_once(jobs, force=False, timeout=None))
    assert done == jobs
    assert [job.stopped.ended for job in done if job.stopped] == [1, 1, 1, 1]
    assert stage.living() == []


def test_none_waits_for_another(stage: Doomed, monkeypatch: pytest.MonkeyPatch) -> None:
    """The stubborn one, first in the row, is still being waited for when the other has ended."""
    (stubborn, first), (quick, second) = stage.working(), stage.working()
    stubborn.do("stubborn")
    jobs = [Job(first, PATIENT), Job(second, PATIENT)]
    waiting = all_at_once(jobs, force=False, timeout=None)
    found: list[bool] = []

    def end_the_first() -> None:
        until(lambda: jobs[1].stopped is not None, "the second has been stopped")
        found.append(jobs[0].stopped is None)
        stubborn.kill()

    import threading

    helper = threading.Thread(target=end_the_first)
    helper.start()
    assert list(waiting) == jobs
    helper.join(20)
    assert found == [True]
    quick.reap()


def test_a_fault_of_ours_is_no_success(stage: Doomed, monkeypatch: pytest.MonkeyPatch) -> None:
    agents = [stage.working() for _ in range(2)]

    def fails(*_: object, **__: object) -> None:
        raise RuntimeError("a fault")

    monkeypatch.setattr(stop, "stop", fails)
    done = list(all_at_once([Job(session, PATIENT) for _, session in agents], force=False, timeout=None))
    assert [str(job.error) for job in done] == ["RuntimeError: a fault"] * 2


def test_two_sessions_of_one_process_are_one_stop(stage: Doomed) -> None:
    _, session = stage.working()
    jobs = [Job(session, PATIENT), Job(session, PATIENT)]
    done = [job.stopped for job in all_at_once(jobs, force=False, timeout=None)]
    assert [(each.already, each.signals) for each in done if each] == [
        (False, ("SIGINT",)),
        (True, ()),
    ]


def test_what_is_refused_costs_the_others_nothing(stage: Doomed) -> None:
    (agent, good), (_, other) = stage.working(), stage.working()
    owner = other.seen.owner
    assert owner is not None
    earlier = owner.identity._replace(start=owner.identity.start - 1)
    before = Process(earlier, owner.parent, "S", owner.comm)
    bad = other._replace(seen=other.seen._replace(owner=before))
    first, second = all_at_once([Job(bad, PATIENT), Job(good, PATIENT)], force=False, timeout=None)
    assert isinstance(first.error, Refused)
    assert first.stopped is None
    assert second.stopped is not None
    assert second.stopped.ended == 1
    agent.reap()


def test_what_would_be_done_is_told_and_not_done(stage: Doomed) -> None:
    agent, session = stage.working()
    agent.do("tool")
    until(lambda: len(stage.living("sleep")) == 1, "its tool runs")
    (tool,) = stage.living("sleep")
    told = foreseen(Job(session, PATIENT), force=False, timeout=3.0)
    assert told.pid == agent.pid
    assert told.signals == ["SIGINT (3 s)", f"SIGKILL ({DEATH:g} s)"]
    assert told.processes == [{"pid": tool.pid, "command": "sleep 1000"}]
    assert len(stage.living()) == 2


def test_of_an_ended_one_nothing_is_foreseen(stage: Doomed) -> None:
    _, session = stage.working()
    ended = session._replace(seen=session.seen._replace(owner=None))
    assert foreseen(Job(ended, PATIENT), force=False, timeout=None) == (None, [], [], [])
