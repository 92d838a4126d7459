"""Ending a session: real agents, real tools, real kills."""

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentctl.adapters.plans import StopPlan
from agentctl.errors import Refused
from agentctl.process.handles import DEATH
from agentctl.stop import stop as module
from agentctl.stop.stop import Stopped, steps, stop
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
    made = Doomed(tmp_path)
    monkeypatch.setenv("AGENTCTL_CONFINE", made.environ["AGENTCTL_CONFINE"])
    yield made
    made.close()


def marked(plan: StopPlan = QUICK) -> StopPlan:
    return plan._replace(pid_markers=("DEMO_AGENT_PID",))


def nothing_left(stage: Doomed) -> bool:
    return stage.living() == []


def test_an_idle_agent_ends_by_its_first_signal(stage: Doomed) -> None:
    agent, session = stage.working()
    done = stop(session, marked())
    assert (done.already, done.ended, done.survivors, done.spared) == (False, 1, (), ())
    assert done.signals == ("SIGINT",)
    assert (done.session_id, done.adapter) == (agent.session_id, "demo")
    assert agent.reap() == 130
    assert stage.session(agent.session_id or "").verdict.status == "stopped"


def test_its_tools_go_with_it_wherever_they_are(stage: Doomed) -> None:
    agent, session = stage.working()
    agent.do("tool")
    agent.do("tool")
    orphan = stage.left_behind(agent)
    until(lambda: len(stage.living("sleep")) == 3, "all tools run")
    done = stop(session, marked())
    assert (done.ended, done.survivors) == (4, ())
    assert not alive(orphan)
    assert nothing_left(stage)


def test_children_without_any_marker_are_found_before_they_are_orphans(stage: Doomed) -> None:
    """Handles are opened while parentage still tells; afterwards nothing would."""
    agent, session = stage.working()
    agent.do("tool env -i sleep 1000")
    until(lambda: "sleep" in comms_below(agent), "its tool runs")
    tool = next(
        p for p in proc.read_table().values() if p.parent and p.comm == "sleep" and below(p, agent)
    )
    done = stop(session, QUICK)
    assert (done.ended, done.survivors) == (len({agent.pid, *shells(tool, agent)}) + 1, ())
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


def test_a_stubborn_one_is_killed(stage: Doomed) -> None:
    agent, session = stage.working()
    agent.do("stubborn")
    agent.do("tool")
    done = stop(session, marked(IMPATIENT))
    assert done.signals == ("SIGINT", "SIGTERM", "SIGKILL")
    assert (done.ended, done.survivors) == (2, ())
    assert agent.reap() == -signal.SIGKILL
    assert nothing_left(stage)


def test_force_kills_at_once(stage: Doomed) -> None:
    agent, session = stage.working()
    agent.do("tool")
    done = stop(session, marked(), force=True)
    assert done.signals == ("SIGKILL",)
    assert done.ended == 2
    assert agent.reap() == -signal.SIGKILL


def test_a_timeout_of_nothing_is_short(stage: Doomed) -> None:
    agent, session = stage.working()
    agent.do("stubborn")
    done = stop(session, marked(QUICK), timeout=0.05)
    assert done.signals[-1] == "SIGKILL"
    assert agent.reap() == -signal.SIGKILL


def test_one_that_begets_while_it_is_told_to_go(stage: Doomed, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each head that is cut off leaves another, and no parent tells whose that is."""
    monkeypatch.setattr(module, "GRACE", 20.0)  # it is TERM that makes it fork
    agent, session = stage.working()
    heads = [stage.hydra(agent, 3) for _ in range(3)]
    done = stop(session, marked())
    assert done.survivors == ()
    assert done.ended > len(heads) + 1, "new ones were found"
    assert nothing_left(stage)


def test_a_suspended_agent(stage: Doomed) -> None:
    agent, session = stage.working()
    with Handle(agent.identity) as handle:
        handle.signal(signal.SIGSTOP)
    until(lambda: proc.read_process(agent.pid, "").state == "T", "it is suspended")
    assert stop(session, marked()).signals == ("SIGINT",)
    assert agent.reap() == 130


@pytest.mark.parametrize("reap", [True, False], ids=["gone", "a zombie"])
def test_one_that_ended_since_we_looked(stage: Doomed, reap: bool) -> None:
    agent, session = stage.working()
    agent.do("tool")
    until(lambda: stage.living("sleep") != [], "its tool runs")
    (tool,) = stage.living("sleep")
    agent.kill(reap=reap)
    done = stop(session, marked())
    assert (done.already, done.signals, done.ended) == (True, (), 1), (
        "what it left behind goes all the same"
    )
    assert not alive(tool)
    if not reap:
        agent.reap()


def test_a_pid_that_names_another_by_now_is_refused(stage: Doomed) -> None:
    agent, session = stage.working()
    owner = session.seen.owner
    assert owner is not None
    before = Process(
        owner.identity._replace(start=owner.identity.start - 1), owner.parent, "S", owner.comm
    )
    old = session._replace(seen=session.seen._replace(owner=before))
    with pytest.raises(Refused, match="another process") as refused:
        stop(old, marked())
    assert "agentctl status" in refused.value.hint
    assert proc.read_process(agent.pid, owner.identity.boot).alive


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can start another user's process")
def test_another_users_process_is_named_as_survivor(stage: Doomed) -> None:
    agent, session = stage.working()
    environ = {**stage.environ, "DEMO_AGENT_PID": str(agent.pid)}
    with subprocess.Popen(["sleep", "1000"], env=environ, user=4242, group=4242) as child:
        wait_for_program(child.pid)
        done = stop(session, marked())
        still = child.poll() is None
        child.kill()
    assert still
    assert done.ended == 1
    assert [tuple(left[:3]) for left in done.survivors] == [
        (child.pid, "sleep: another user's process", "sleep 1000")
    ]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can start another user's process")
def test_a_child_of_another_user_is_named_though_nothing_tells_whose_it_was(stage: Doomed) -> None:
    """As after sudo, which clears the environment: parentage told, while there was a parent."""
    agent, session = stage.working()
    agent.do("tool exec env -i setpriv --reuid 4242 --clear-groups sleep 1000")
    until(lambda: "sleep" in comms_below(agent), "its tool runs")
    (tool,) = (p for p in proc.read_table().values() if p.comm == "sleep" and below(p, agent))
    done = stop(session, QUICK)
    still = alive(tool)
    stage.kill(tool)
    assert still
    assert done.ended == 1
    assert [left[:2] for left in done.survivors] == [(tool.pid, "sleep: another user's process")]


def launched(session: Session, launch_id: str = "ours") -> Session:
    owner = session.seen.owner
    assert owner is not None
    return session._replace(launch=Launch(launch_id, owner.identity, session.seen.session_id))


def ended(session: Session) -> Session:
    return session._replace(seen=session.seen._replace(owner=None))


def test_what_a_launch_left_behind_is_swept_also_without_an_owner(stage: Doomed) -> None:
    agent, session = stage.working()
    mine = stage.left_behind(agent, AGENTCTL_LAUNCH_ID="ours")
    other = stage.left_behind(agent, AGENTCTL_LAUNCH_ID="another")
    session = launched(session)
    agent.kill()
    done = stop(ended(session), marked())
    assert (done.already, done.ended, done.survivors) == (True, 1, ())
    assert not alive(mine)
    assert alive(other)


def test_without_a_launch_nothing_is_swept_for_the_dead(stage: Doomed) -> None:
    """A marker that names a pid may be another's by now: nobody is there to compare with."""
    agent, session = stage.working()
    tool = stage.left_behind(agent)
    agent.kill()
    done = stop(ended(session), marked())
    assert done == Stopped(agent.session_id, "demo", already=True, ended=0, seconds=done.seconds)
    assert alive(tool)


seconds = st.floats(0, 100)
plans = st.lists(st.tuples(st.sampled_from([signal.SIGINT, signal.SIGTERM]), seconds), max_size=4)


@given(plans, st.none() | seconds)
def test_steps_keep_their_time(
    planned: list[tuple[signal.Signals, float]], timeout: float | None
) -> None:
    plan = StopPlan(signals=tuple(planned))
    found = steps(plan, force=False, timeout=timeout)
    assert [number for number, _ in found] == [*(number for number, _ in planned), signal.SIGKILL]
    assert found[-1] == (signal.SIGKILL, DEATH)
    given_time = sum(length for _, length in found[:-1])
    if timeout is None:
        assert found[:-1] == planned
    elif planned:
        assert given_time == pytest.approx(timeout)
        assert all(0 <= got <= want for (_, got), (_, want) in zip(found[:-2], planned, strict=False))
    assert steps(plan, force=True, timeout=timeout) == [(signal.SIGKILL, DEATH)]
