"""What may be ended by ending its process, and what may not."""

import os
import subprocess
from pathlib import Path

import pytest

from agentctl.adapters.demo import Demo
from agentctl.adapters.plans import StopPlan
from agentctl.errors import Refused, Unreachable
from agentctl.stop import plan as stoppable
from agentctl.system import proc
from agentctl.system.proc import Process
from agentctl.testing import Stage
from agentctl.testing.player import wait_for_program
from agentctl.truth.judge import judge
from agentctl.truth.model import EntryPoint, Evidence, Facts, Observation, Session
from tests.fakes.claude import ClaudeStage
from tests.fakes.codex import CodexStage
from tests.fakes.codex import called as codex
from tests.fakes.doomed import Doomed
from tests.fakes.opencode import OpenCodeStage
from tests.fakes.opencode import called as opencode
from tests.fakes.stranger import Stranger

MYSELF = proc.read_process(os.getpid(), proc.boot_id())


STAGE = Doomed


def session(
    id_: str | None = "s1",
    owner: Process | None = MYSELF,
    parent: str | None = None,
    entry: EntryPoint | None = None,
) -> Session:
    evidence = (Evidence("alive" if owner is not None else "gone", "proc:1@1", "kernel"),)
    given = Facts(parent_id=parent, entry_point=entry)
    return Session(Observation("demo", id_, evidence, given, owner), judge(evidence))


def sessions_of(stage: Stage) -> list[Session]:
    return stage.survey().sessions


def test_one_that_runs_alone_has_its_adapters_plan(stage: Doomed) -> None:
    _, found = stage.working()
    plan = stoppable.plan(found, [found])
    assert plan == Demo().stop_plan(found.seen)
    assert plan.pid_markers == ("DEMO_AGENT_PID",)


def test_one_that_has_ended_needs_none() -> None:
    assert stoppable.plan(session(owner=None), []) == StopPlan()


def test_nobody_knows_which_process(tmp_path: Path) -> None:
    with Stranger("one", {"PATH": "/bin"}, tmp_path) as one, Stranger("two", {}, tmp_path) as two:
        doubt = Evidence("ambiguous", "/s1", "derived", note="each may run it")
        seen = Observation("demo", "s1", (doubt,), candidates=(one.process, two.process))
        with pytest.raises(Unreachable, match="each may run it") as refused:
            stoppable.plan(Session(seen, judge(seen.evidence)), [])
    assert f"pid:{one.pid} or pid:{two.pid}" in refused.value.hint
    assert refused.value.exit_code == 5


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can start another user's process")
def test_another_users() -> None:
    with subprocess.Popen(["sleep", "1000"], user=4242, group=4242) as child:
        wait_for_program(child.pid)
        found = session(owner=proc.read_process(child.pid, proc.boot_id()))
        with pytest.raises(Refused, match=r"another user's process \(uid 4242\)") as refused:
            stoppable.plan(found, [found], whole_owner=True)
        child.kill()
    assert f"agentctl stop pid:{child.pid}" in refused.value.hint


def test_one_that_ended_meanwhile_is_nobodys(tmp_path: Path) -> None:
    with Stranger("brief", {}, tmp_path) as brief:
        found = session(owner=brief.process)
        brief.end()
        assert stoppable.plan(found, [found]).refusal == ""


@pytest.mark.parametrize("whole_owner", [False, True])
def test_what_a_supervisor_starts_again(monkeypatch: pytest.MonkeyPatch, whole_owner: bool) -> None:
    plan = StopPlan(refusal="its supervisor would start it again", instead="demo stop s1")
    monkeypatch.setattr(Demo, "stop_plan", lambda *_: plan)
    found = session(entry="background")
    with pytest.raises(Refused, match="start it again") as refused:
        stoppable.plan(found, [found], whole_owner=whole_owner)
    assert refused.value.hint == "demo stop s1"


def test_sessions_of_the_same_process() -> None:
    found, other = session(), session("s2")
    with pytest.raises(Refused, match=f"pid {MYSELF.pid} also runs s2") as refused:
        stoppable.plan(found, [found, other])
    assert "demo's own means" in refused.value.hint
    assert f"--owner ends pid {MYSELF.pid} and all that it runs" in refused.value.hint
    assert stoppable.plan(found, [found, other], whole_owner=True).signals


def test_only_a_few_of_many_are_named() -> None:
    many = [session(f"s{n}") for n in range(9)]
    with pytest.raises(Refused, match="s1, s2, s3, s4, s5 and 3 more"):
        stoppable.plan(many[0], many)


def test_what_it_has_spawned_is_its_own() -> None:
    found = [session(), session("s2", parent="s1"), session("s3", parent="s2")]
    assert stoppable.sharing(found[0], found) == []
    assert stoppable.sharing(found[1], found) == [found[0]]
    assert stoppable.sharing(found[2], found) == [found[0], found[1]]
    assert stoppable.sharing(session(owner=None), found) == []


def test_a_process_without_a_session_has_no_children_by_that() -> None:
    found = [session(None), session("s2")]
    assert stoppable.sharing(found[0], found) == [found[1]]


def test_a_real_codex_daemon(tmp_path: Path) -> None:
    stage = CodexStage(tmp_path)
    try:
        daemon = stage.start(environ=codex("app-server", "--listen", "unix://", bare=True))
        for step in ("load", "work", "load", "work"):
            daemon.do(step)
        found = sessions_of(stage)
        assert len(found) == 2
        for each in found:
            with pytest.raises(Refused, match=f"pid {daemon.pid}") as refused:
                stoppable.plan(each, found)
            assert f"--owner ends pid {daemon.pid} and all that it runs" in refused.value.hint
            assert stoppable.plan(each, found, whole_owner=True).signals != ()
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
        found = {each.seen.session_id: each for each in sessions_of(stage)}
        assert stoppable.plan(found[parent], found.values()).refusal == ""
        with pytest.raises(Refused, match=f"also runs {parent}"):
            stoppable.plan(found[agent.session_id], found.values())
    finally:
        stage.close()


def test_a_real_opencode_server(tmp_path: Path) -> None:
    stage = OpenCodeStage(tmp_path)
    try:
        server = stage.start(environ=opencode("serve"))
        server.do("work")
        found = sessions_of(stage)
        assert [each.seen.facts.entry_point for each in found] == ["daemon"]
        with pytest.raises(Refused, match=f"pid {server.pid}") as refused:
            stoppable.plan(found[0], found)
        assert f"--owner ends pid {server.pid}" in refused.value.hint
        assert stoppable.plan(found[0], found, whole_owner=True).signals
    finally:
        stage.close()


@pytest.mark.parametrize("whole_owner", [False, True])
def test_a_real_background_job_of_claude(tmp_path: Path, whole_owner: bool) -> None:
    """Its supervisor would start it again: only its own command ends it."""
    stage = ClaudeStage(tmp_path)
    try:
        job = stage.start(environ={"FAKE_KIND": "bg"})
        job.do("work")
        found = sessions_of(stage)
        with pytest.raises(Refused, match="supervisor would start it again") as refused:
            stoppable.plan(found[0], found, whole_owner=whole_owner)
        assert refused.value.hint == f"claude stop {(job.session_id or '')[:8]}"
    finally:
        stage.close()
