"""Ending a session: real agents, real tools, real kills."""

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentctl.adapters.plans import StopPlan
from agentctl.errors import Refused
from agentctl.stop import stop as module
from agentctl.stop.plan import StopJob
from agentctl.stop.stop import StopResult, run_jobs, stop_session
from agentctl.system import proc
from agentctl.system.pidfd import Handle
from agentctl.system.proc import Process
from agentctl.testing import Puppet
from agentctl.testing.player import wait_for_program
from agentctl.truth.model import Launch, Session
from tests.fakes.doomed import Doomed, alive
from tests.waiting import until

QUICK = StopPlan(signals=((signal.SIGINT, 20.0), (signal.SIGTERM, 20.0)))
IMPATIENT = StopPlan(signals=((signal.SIGINT, 0.05), (signal.SIGTERM, 0.05)))


@pytest.fixture
def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Doomed]:
    doomed = Doomed(tmp_path)
    monkeypatch.setenv("AGENTCTL_CONFINE", doomed.environ["AGENTCTL_CONFINE"])
    yield doomed
    doomed.close()


def add_marker(plan: StopPlan = QUICK) -> StopPlan:
    return plan._replace(pid_markers=("DEMO_AGENT_PID",))


def is_empty(stage: Doomed) -> bool:
    return stage.living() == []


def test_an_idle_agent_ends_by_its_first_signal(stage: Doomed) -> None:
    agent, session = stage.working()
    result = stop_session(session, add_marker())
    assert (result.already, result.ended, result.survivors, result.spared) == (False, 1, (), ())
    assert result.signals == ("SIGINT",)
    assert (result.session_id, result.adapter) == (agent.session_id, "demo")
    assert agent.reap() == 130
    assert stage.session(agent.session_id or "").verdict.status == "stopped"


def test_tools_end_with_their_agent_wherever_they_are(stage: Doomed) -> None:
    agent, session = stage.working()
    agent.do("tool")
    agent.do("tool")
    orphan = stage.left_behind(agent)
    until(lambda: len(stage.living("sleep")) == 3, "all tools run")
    result = stop_session(session, add_marker())
    assert (result.ended, result.survivors) == (4, ())
    assert not alive(orphan)
    assert is_empty(stage)


def test_children_without_any_marker_are_found_before_they_are_orphans(stage: Doomed) -> None:
    """Handles are opened while parentage still shows whose they are; afterwards nothing would."""
    agent, session = stage.working()
    agent.do("tool env -i sleep 1000")
    until(lambda: "sleep" in comms_below(agent), "its tool runs")
    tool = next(
        p for p in proc.read_table().values() if p.parent and p.comm == "sleep" and below(p, agent)
    )
    result = stop_session(session, QUICK)
    assert (result.ended, result.survivors) == (len({agent.pid, *shells(tool, agent)}) + 1, ())
    assert not alive(tool)


def below(process: Process, agent: Puppet) -> bool:
    table = proc.read_table()
    while process.parent in table:
        if process.parent == agent.pid:
            return True
        process = table[process.parent]
    return False


def comms_below(agent: Puppet) -> list[str]:
    return [p.comm for p in proc.read_table().values() if below(p, agent)]


def shells(tool: Process, agent: Puppet) -> list[int]:
    """Between the tool and its agent, if that shell does not exec its last command."""
    return [tool.parent] if tool.parent != agent.pid else []


def test_a_stubborn_agent_is_killed(stage: Doomed) -> None:
    agent, session = stage.working()
    agent.do("stubborn")
    agent.do("tool")
    result = stop_session(session, add_marker(IMPATIENT))
    assert result.signals == ("SIGINT", "SIGTERM", "SIGKILL")
    assert (result.ended, result.survivors) == (2, ())
    assert agent.reap() == -signal.SIGKILL
    assert is_empty(stage)


def test_force_kills_at_once(stage: Doomed) -> None:
    agent, session = stage.working()
    agent.do("tool")
    result = stop_session(session, add_marker(), force=True)
    assert result.signals == ("SIGKILL",)
    assert result.ended == 2
    assert agent.reap() == -signal.SIGKILL


def test_a_short_timeout_shortens_the_wait(stage: Doomed) -> None:
    agent, session = stage.working()
    agent.do("stubborn")
    result = stop_session(session, add_marker(QUICK), timeout=0.05)
    assert result.signals[-1] == "SIGKILL"
    assert agent.reap() == -signal.SIGKILL


def test_processes_that_fork_when_they_are_signalled_are_ended(
    stage: Doomed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each process that ends leaves another, and no parent shows whose that is."""
    monkeypatch.setattr(module, "GRACE", 20.0)  # it is TERM that makes it fork
    agent, session = stage.working()
    heads = [stage.hydra(agent, 3) for _ in range(3)]
    result = stop_session(session, add_marker())
    assert result.survivors == ()
    assert result.ended > len(heads) + 1, "new ones were found"
    assert is_empty(stage)


def test_a_suspended_agent(stage: Doomed) -> None:
    agent, session = stage.working()
    with Handle(agent.identity) as handle:
        handle.signal(signal.SIGSTOP)
    until(lambda: proc.read_process(agent.pid, "").state == "T", "it is suspended")
    assert stop_session(session, add_marker()).signals == ("SIGINT",)
    assert agent.reap() == 130


@pytest.mark.parametrize("reap", [True, False], ids=["gone", "a zombie"])
def test_a_session_that_ended_since_we_looked(stage: Doomed, reap: bool) -> None:
    agent, session = stage.working()
    agent.do("tool")
    until(lambda: stage.living("sleep") != [], "its tool runs")
    (tool,) = stage.living("sleep")
    agent.kill(reap=reap)
    result = stop_session(session, add_marker())
    assert (result.already, result.signals, result.ended) == (True, (), 1), (
        "what it left behind goes all the same"
    )
    assert not alive(tool)
    if not reap:
        agent.reap()


def test_a_reused_pid_is_refused(stage: Doomed) -> None:
    agent, session = stage.working()
    owner = session.observation.owner
    assert owner is not None
    before = Process(
        owner.identity._replace(start=owner.identity.start - 1), owner.parent, "S", owner.comm
    )
    old = session._replace(observation=session.observation._replace(owner=before))
    with pytest.raises(Refused, match="another process") as caught:
        stop_session(old, add_marker())
    assert "agentctl status" in caught.value.hint
    assert proc.read_process(agent.pid, owner.identity.boot).is_alive


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can start another user's process")
def test_another_users_process_is_named_as_survivor(stage: Doomed) -> None:
    agent, session = stage.working()
    environ = {**stage.environ, "DEMO_AGENT_PID": str(agent.pid)}
    with subprocess.Popen(["sleep", "1000"], env=environ, user=4242, group=4242) as child:
        wait_for_program(child.pid)
        result = stop_session(session, add_marker())
        survives = child.poll() is None
        child.kill()
    assert survives
    assert result.ended == 1
    assert [tuple(survivor[:3]) for survivor in result.survivors] == [
        (child.pid, "sleep: another user's process", "sleep 1000")
    ]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can start another user's process")
def test_a_child_of_another_user_is_named_without_a_marker(stage: Doomed) -> None:
    """As after sudo, which clears the environment: only parentage shows whose it is."""
    agent, session = stage.working()
    agent.do("tool exec env -i setpriv --reuid 4242 --clear-groups sleep 1000")
    until(lambda: "sleep" in comms_below(agent), "its tool runs")
    (tool,) = (p for p in proc.read_table().values() if p.comm == "sleep" and below(p, agent))
    result = stop_session(session, QUICK)
    survives = alive(tool)
    stage.kill(tool)
    assert survives
    assert result.ended == 1
    assert [survivor[:2] for survivor in result.survivors] == [
        (tool.pid, "sleep: another user's process")
    ]


def add_launch(session: Session, launch_id: str = "ours") -> Session:
    owner = session.observation.owner
    assert owner is not None
    return session._replace(launch=Launch(launch_id, owner.identity, session.observation.session_id))


def remove_owner(session: Session) -> Session:
    return session._replace(observation=session.observation._replace(owner=None))


def test_processes_of_a_launch_are_ended_also_without_an_owner(stage: Doomed) -> None:
    agent, session = stage.working()
    mine = stage.left_behind(agent, AGENTCTL_LAUNCH_ID="ours")
    other = stage.left_behind(agent, AGENTCTL_LAUNCH_ID="another")
    session = add_launch(session)
    agent.kill()
    result = stop_session(remove_owner(session), add_marker())
    assert (result.already, result.ended, result.survivors) == (True, 1, ())
    assert not alive(mine)
    assert alive(other)


def test_without_a_launch_no_process_of_a_dead_owner_is_ended(stage: Doomed) -> None:
    """Its marker names a pid, which may be another process by now: there is no owner to compare with."""
    agent, session = stage.working()
    tool = stage.left_behind(agent)
    agent.kill()
    result = stop_session(remove_owner(session), add_marker())
    assert result == StopResult(agent.session_id, "demo", already=True, ended=0, seconds=result.seconds)
    assert alive(tool)


PATIENT = StopPlan(signals=((signal.SIGINT, 20.0),))


def test_all_end_and_are_reported_in_order(stage: Doomed) -> None:
    agents = [stage.working() for _ in range(4)]
    jobs = [StopJob(session, PATIENT) for _, session in agents]
    finished_jobs = list(run_jobs(jobs, force=False, timeout=None))
    assert finished_jobs == jobs
    assert [job.result.ended for job in finished_jobs if job.result] == [1, 1, 1, 1]
    assert stage.living() == []


def test_no_stop_waits_for_another(stage: Doomed, monkeypatch: pytest.MonkeyPatch) -> None:
    """The stubborn agent, first in the list, still runs when the other has ended."""
    (stubborn, first), (quick, second) = stage.working(), stage.working()
    stubborn.do("stubborn")
    jobs = [StopJob(first, PATIENT), StopJob(second, PATIENT)]
    waiting = run_jobs(jobs, force=False, timeout=None)
    first_was_running: list[bool] = []

    def end_the_first() -> None:
        until(lambda: jobs[1].result is not None, "the second has been stopped")
        first_was_running.append(jobs[0].result is None)
        stubborn.kill()

    import threading

    helper = threading.Thread(target=end_the_first)
    helper.start()
    assert list(waiting) == jobs
    helper.join(20)
    assert first_was_running == [True]
    quick.reap()


def test_an_internal_error_is_no_success(stage: Doomed, monkeypatch: pytest.MonkeyPatch) -> None:
    agents = [stage.working() for _ in range(2)]

    def fails(*_: object, **__: object) -> None:
        raise RuntimeError("a fault")

    monkeypatch.setattr(module, "stop_session", fails)
    jobs = list(
        run_jobs([StopJob(session, PATIENT) for _, session in agents], force=False, timeout=None)
    )
    assert [str(job.error) for job in jobs] == ["RuntimeError: a fault"] * 2


def test_two_sessions_of_one_process_are_one_stop(stage: Doomed) -> None:
    _, session = stage.working()
    jobs = [StopJob(session, PATIENT), StopJob(session, PATIENT)]
    results = [job.result for job in run_jobs(jobs, force=False, timeout=None)]
    assert [(each.already, each.signals) for each in results if each] == [
        (False, ("SIGINT",)),
        (True, ()),
    ]


def test_a_refused_stop_does_not_hinder_the_others(stage: Doomed) -> None:
    (agent, good), (_, other) = stage.working(), stage.working()
    owner = other.observation.owner
    assert owner is not None
    earlier = owner.identity._replace(start=owner.identity.start - 1)
    before = Process(earlier, owner.parent, "S", owner.comm)
    bad = other._replace(observation=other.observation._replace(owner=before))
    first, second = run_jobs([StopJob(bad, PATIENT), StopJob(good, PATIENT)], force=False, timeout=None)
    assert isinstance(first.error, Refused)
    assert first.result is None
    assert second.result is not None
    assert second.result.ended == 1
    agent.reap()
