"""`agentctl wait`: the exit code is the outcome."""

import json
import signal
import subprocess
from pathlib import Path

import pytest

from agentctl.system import proc
from agentctl.system.pidfd import Handle
from agentctl.wire.session import SESSION_FIELDS
from tests.cli.children import count_context_switches, list_open_files
from tests.cli.groups import add_to_group, id_of
from tests.fakes.doomed import Doomed
from tests.running import agentctl_of, started
from tests.waiting import until

STAGE = Doomed


def wait_until_asleep(child: subprocess.Popen[bytes]) -> None:
    """Wait until it has set up its watch and sleeps."""
    until(lambda: _is_polling(child), "it sleeps")


def _is_polling(child: subprocess.Popen[bytes]) -> bool:
    try:
        call = Path(f"/proc/{child.pid}/syscall").read_text().split()[0]
        files = list_open_files(child)
    except OSError:  # ended meanwhile
        return False
    return call in POLLS and "anon_inode:inotify" in files


POLLS = {"232", "281", "22"}  # epoll_wait, epoll_pwait on x86-64; epoll_pwait on arm64


def test_wait_ends_with_the_session(stage: Doomed) -> None:
    agent, _ = stage.working()
    with started(stage, "wait", id_of(agent)[:8]) as child:
        wait_until_asleep(child)
        agent.finish()
        out, err = child.communicate(timeout=20)
    assert (child.returncode, out.decode(), err) == (0, f"{agent.session_id} stopped (completed)\n", b"")


def test_a_killed_session_exits_with_1(stage: Doomed) -> None:
    agent, _ = stage.working()
    with started(stage, "wait", id_of(agent)) as child:
        wait_until_asleep(child)
        agent.kill()
        out, _ = child.communicate(timeout=20)
    assert child.returncode == 1
    # a zombie shows the signal, if it is still there when we look
    assert out.decode().rstrip(")\n").removesuffix(", signal 9") == f"{agent.session_id} stopped (killed"


def test_for_idle_and_for_settled(stage: Doomed) -> None:
    agent, _ = stage.working()
    with started(stage, "wait", id_of(agent), "--for", "idle") as child:
        wait_until_asleep(child)
        agent.do("rest")
        out, _ = child.communicate(timeout=20)
    assert (child.returncode, out.decode()) == (0, f"{agent.session_id} idle\n")
    agent.do("ask")
    ran = agentctl_of(stage, "wait", id_of(agent), "--for", "settled")
    assert (ran.code, ran.out) == (0, f"{agent.session_id} waiting for question\n")


def test_a_timeout_exits_with_124(stage: Doomed) -> None:
    agent, _ = stage.working()
    ran = agentctl_of(stage, "wait", id_of(agent), "--timeout", "0.1")
    assert (ran.code, ran.out) == (124, "")
    assert ran.err == f"agentctl: {agent.session_id}: timed out: it is running\n"


def test_the_exit_code_of_a_launch_is_waited_for(stage: Doomed) -> None:
    """The shim writes the exit code a moment after the agent's end; `wait` still reports it."""
    ran = agentctl_of(stage, "launch", "demo", "--cwd", str(stage.work), "-p", "work, hang")
    session_id = ran.out.strip()
    (agent,) = stage.living("demo-agent")
    shim = proc.read_process(agent.parent, agent.identity.boot)
    with started(stage, "wait", session_id, "--json") as child, Handle(shim.identity) as handle:
        wait_until_asleep(child)
        handle.signal(signal.SIGSTOP)
        with Handle(agent.identity) as victim:
            victim.signal(signal.SIGTERM)
            victim.wait(20)
        handle.signal(signal.SIGCONT)
        out, _ = child.communicate(timeout=20)
    (session,) = json.loads(out)["sessions"]
    assert (session["status"], session["exit_code"]) == ("stopped", 143)
    assert list(session) == [name for name, _, _ in SESSION_FIELDS]
    assert child.returncode == 1


def test_the_exit_code_of_a_group_is_the_worst_of_all(stage: Doomed) -> None:
    (one, _), (two, _), (three, _) = (stage.working() for _ in range(3))
    add_to_group(stage, one, two)
    with started(stage, "wait", "--group", "g") as child:
        wait_until_asleep(child)
        one.finish()
        two.kill()
        out, _ = child.communicate(timeout=20)
    assert child.returncode == 1
    assert sorted(out.decode().splitlines()) == sorted(
        [f"{one.session_id} stopped (completed)", f"{two.session_id} stopped (killed)"]
    )
    assert id_of(three) not in out.decode()


def test_it_sleeps_while_nothing_happens(stage: Doomed) -> None:
    """Without polling: while others work the process is not scheduled even once."""
    agent, _ = stage.working()
    other = stage.start(environ={"DEMO_AGENT_HOME": str(stage.root / "elsewhere")})
    with started(stage, "wait", id_of(agent)) as child:
        wait_until_asleep(child)
        before = count_context_switches(child)
        for _ in range(20):  # time passes, measured by another agent's steps
            other.do("work 0.05")
        assert count_context_switches(child) - before <= 1
        agent.finish()
        child.communicate(timeout=20)


@pytest.mark.parametrize("words", [(), ("x", "--for", "lunch"), ("x", "--timeout", "soon")])
def test_wrong_words_are_usage_errors(stage: Doomed, words: tuple[str, ...]) -> None:
    assert agentctl_of(stage, "wait", *words).code == 2


def test_an_unknown_session_is_not_found(stage: Doomed) -> None:
    stage.start()
    assert agentctl_of(stage, "wait", "nosuch").code == 3
