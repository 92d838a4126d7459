"""Which sessions may be ended by ending their process, and which may not."""

import os
import signal
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentctl.adapters.demo.adapter import Demo
from agentctl.adapters.plans import StopPlan
from agentctl.errors import Refused, Unreachable
from agentctl.sessions.select import select_by_ids
from agentctl.stop.plan import (
    KILL_WAIT,
    StopJob,
    make_plan,
    plan_stops,
    preview_job,
    resolve_unknown,
    sessions_sharing_owner,
    signal_steps,
)
from agentctl.system import proc
from agentctl.system.proc import Process
from agentctl.testing import Stage
from agentctl.testing.player import wait_for_program
from agentctl.truth.judge import judge
from agentctl.truth.model import EntryPoint, Evidence, Facts, Observation, Session
from tests.ending import play_on
from tests.fakes.claude import ClaudeStage
from tests.fakes.codex import CodexStage
from tests.fakes.codex import called as codex
from tests.fakes.doomed import Doomed
from tests.fakes.opencode import OpenCodeStage
from tests.fakes.opencode import called as opencode
from tests.fakes.stranger import Stranger
from tests.waiting import until

MYSELF = proc.read_process(os.getpid(), proc.read_boot_id())


STAGE = Doomed


def make_session(
    id_: str | None = "s1",
    owner: Process | None = MYSELF,
    parent: str | None = None,
    entry: EntryPoint | None = None,
) -> Session:
    evidence = (Evidence("alive" if owner is not None else "gone", "proc:1@1", "kernel"),)
    facts = Facts(parent_id=parent, entry_point=entry)
    return Session(Observation("demo", id_, evidence, facts, owner), judge(evidence))


def sessions_of(stage: Stage) -> list[Session]:
    return stage.survey().sessions


def test_a_session_alone_in_its_process_has_its_adapters_plan(stage: Doomed) -> None:
    _, session = stage.working()
    plan = make_plan(session, [session])
    assert plan == Demo().stop_plan(session.observation)
    assert plan.pid_markers == ("DEMO_AGENT_PID",)


def test_an_ended_session_needs_no_plan() -> None:
    assert make_plan(make_session(owner=None), []) == StopPlan()


def test_a_session_with_an_uncertain_process_is_not_stopped(tmp_path: Path) -> None:
    with Stranger("one", {"PATH": "/bin"}, tmp_path) as one, Stranger("two", {}, tmp_path) as two:
        doubt = Evidence("ambiguous", "/s1", "derived", note="each may run it")
        observation = Observation("demo", "s1", (doubt,), candidates=(one.process, two.process))
        with pytest.raises(Unreachable, match="each may run it") as caught:
            make_plan(Session(observation, judge(observation.evidence)), [])
    assert f"pid:{one.pid} or pid:{two.pid}" in caught.value.hint
    assert caught.value.exit_code == 5


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can start another user's process")
def test_a_process_of_another_user_is_refused() -> None:
    with subprocess.Popen(["sleep", "1000"], user=4242, group=4242) as child:
        wait_for_program(child.pid)
        session = make_session(owner=proc.read_process(child.pid, proc.read_boot_id()))
        with pytest.raises(Refused, match=r"another user's process \(uid 4242\)") as caught:
            make_plan(session, [session], whole_owner=True)
        child.kill()
    assert f"agentctl stop pid:{child.pid}" in caught.value.hint


def test_a_process_that_ended_meanwhile_is_not_refused(tmp_path: Path) -> None:
    with Stranger("brief", {}, tmp_path) as brief:
        session = make_session(owner=brief.process)
        brief.end()
        assert make_plan(session, [session]).refusal == ""


@pytest.mark.parametrize("whole_owner", [False, True])
def test_a_session_that_a_supervisor_starts_again_is_refused(
    monkeypatch: pytest.MonkeyPatch, whole_owner: bool
) -> None:
    plan = StopPlan(refusal="its supervisor would start it again", instead="demo stop s1")
    monkeypatch.setattr(Demo, "stop_plan", lambda *_: plan)
    session = make_session(entry="background")
    with pytest.raises(Refused, match="start it again") as caught:
        make_plan(session, [session], whole_owner=whole_owner)
    assert caught.value.hint == "demo stop s1"


def test_a_process_with_other_sessions_is_refused() -> None:
    session, other = make_session(), make_session("s2")
    with pytest.raises(Refused, match=f"pid {MYSELF.pid} also runs s2") as caught:
        make_plan(session, [session, other])
    assert "demo's own means" in caught.value.hint
    assert f"--owner ends pid {MYSELF.pid} and all that it runs" in caught.value.hint
    assert make_plan(session, [session, other], whole_owner=True).signals


def test_only_a_few_of_many_are_named() -> None:
    many = [make_session(f"s{n}") for n in range(9)]
    with pytest.raises(Refused, match="s1, s2, s3, s4, s5 and 3 more"):
        make_plan(many[0], many)


def test_a_session_does_not_share_with_those_that_it_spawned() -> None:
    sessions = [make_session(), make_session("s2", parent="s1"), make_session("s3", parent="s2")]
    assert sessions_sharing_owner(sessions[0], sessions) == []
    assert sessions_sharing_owner(sessions[1], sessions) == [sessions[0]]
    assert sessions_sharing_owner(sessions[2], sessions) == [sessions[0], sessions[1]]
    assert sessions_sharing_owner(make_session(owner=None), sessions) == []


def test_a_process_without_a_session_id_has_no_sub_agents() -> None:
    sessions = [make_session(None), make_session("s2")]
    assert sessions_sharing_owner(sessions[0], sessions) == [sessions[1]]


def test_a_real_codex_daemon(tmp_path: Path) -> None:
    stage = CodexStage(tmp_path)
    try:
        daemon = stage.start(environ=codex("app-server", "--listen", "unix://", bare=True))
        for step in ("load", "work", "load", "work"):
            daemon.do(step)
        sessions = sessions_of(stage)
        assert len(sessions) == 2
        for each in sessions:
            with pytest.raises(Refused, match=f"pid {daemon.pid}") as caught:
                make_plan(each, sessions)
            assert f"--owner ends pid {daemon.pid} and all that it runs" in caught.value.hint
            assert make_plan(each, sessions, whole_owner=True).signals != ()
    finally:
        stage.close()


def test_a_real_codex_with_a_sub_agent(tmp_path: Path) -> None:
    stage = CodexStage(tmp_path)
    try:
        agent = stage.start()
        agent.do("work")
        parent = agent.session_id
        agent.do("subagent")
        agent.do("work")
        sessions = {each.observation.session_id: each for each in sessions_of(stage)}
        assert make_plan(sessions[parent], sessions.values()).refusal == ""
        with pytest.raises(Refused, match=f"also runs {parent}"):
            make_plan(sessions[agent.session_id], sessions.values())
    finally:
        stage.close()


def test_a_real_opencode_server(tmp_path: Path) -> None:
    stage = OpenCodeStage(tmp_path)
    try:
        server = stage.start(environ=opencode("serve"))
        server.do("work")
        sessions = sessions_of(stage)
        assert [each.observation.facts.entry_point for each in sessions] == ["daemon"]
        with pytest.raises(Refused, match=f"pid {server.pid}") as caught:
            make_plan(sessions[0], sessions)
        assert f"--owner ends pid {server.pid}" in caught.value.hint
        assert make_plan(sessions[0], sessions, whole_owner=True).signals
    finally:
        stage.close()


@pytest.mark.parametrize("whole_owner", [False, True])
def test_a_real_background_job_of_claude(tmp_path: Path, whole_owner: bool) -> None:
    """Its supervisor would start it again: only its own command ends it."""
    stage = ClaudeStage(tmp_path)
    try:
        job = stage.start(environ={"FAKE_KIND": "bg"})
        job.do("work")
        sessions = sessions_of(stage)
        with pytest.raises(Refused, match="supervisor would start it again") as caught:
            make_plan(sessions[0], sessions, whole_owner=whole_owner)
        assert caught.value.hint == f"claude stop {(job.session_id or '')[:8]}"
    finally:
        stage.close()


seconds = st.floats(0, 100)
signals = st.lists(st.tuples(st.sampled_from([signal.SIGINT, signal.SIGTERM]), seconds), max_size=4)


@given(signals, st.none() | seconds)
def test_steps_keep_their_time(
    planned: list[tuple[signal.Signals, float]], timeout: float | None
) -> None:
    plan = StopPlan(signals=tuple(planned))
    steps = signal_steps(plan, force=False, timeout=timeout)
    assert [number for number, _ in steps] == [*(number for number, _ in planned), signal.SIGKILL]
    assert steps[-1] == (signal.SIGKILL, KILL_WAIT)
    if timeout is None:
        assert steps[:-1] == planned
    elif planned:
        assert sum(length for _, length in steps[:-1]) == pytest.approx(timeout)
        assert all(
            0 <= length <= limit for (_, length), (_, limit) in zip(steps[:-2], planned, strict=False)
        )
    assert signal_steps(plan, force=True, timeout=timeout) == [(signal.SIGKILL, KILL_WAIT)]


PATIENT = StopPlan(signals=((signal.SIGINT, 20.0),))


def test_a_preview_names_all_and_ends_none(stage: Doomed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENTCTL_CONFINE", stage.environ["AGENTCTL_CONFINE"])
    agent, session = stage.working()
    agent.do("tool")
    until(lambda: len(stage.living("sleep")) == 1, "its tool runs")
    (tool,) = stage.living("sleep")
    preview = preview_job(StopJob(session, PATIENT), force=False, timeout=3.0)
    assert preview.pid == agent.pid
    assert preview.signals == ["SIGINT (3 s)", f"SIGKILL ({KILL_WAIT:g} s)"]
    assert preview.processes == [{"pid": tool.pid, "command": "sleep 1000"}]
    assert len(stage.living()) == 2


def test_the_preview_of_an_ended_session_is_empty(stage: Doomed) -> None:
    _, session = stage.working()
    without_owner = session._replace(observation=session.observation._replace(owner=None))
    assert preview_job(StopJob(without_owner, PATIENT), force=False, timeout=None) == (None, [], [], [])


def test_selected_sessions_become_jobs(stage: Doomed, monkeypatch: pytest.MonkeyPatch) -> None:
    play_on(stage, monkeypatch)
    puppet, _ = stage.working()
    choices = resolve_unknown(select_by_ids([puppet.session_id or ""]).sessions)
    jobs, failures = plan_stops(choices)
    assert ([job.session.observation.session_id for job in jobs], failures) == ([puppet.session_id], [])
