"""`agentctl wait`: the exit code is the outcome."""

import json
import os
import re
import signal
import subprocess
from pathlib import Path

import pytest

from agentctl import paths
from agentctl.cli.verbs import wait
from agentctl.cli.verbs.wait import code_of
from agentctl.state import launch_writes
from agentctl.system import proc
from agentctl.system.pidfd import Handle
from agentctl.testing import Puppet, Stage
from agentctl.truth.judge import judge
from agentctl.truth.model import Evidence, Launch, Observation, Session
from agentctl.wire.session import SESSION_FIELDS
from tests.fakes.doomed import Doomed
from tests.running import agentctl_of, started
from tests.waiting import until

STAGE = Doomed


def id_of(puppet: Puppet) -> str:
    assert puppet.session_id is not None
    return puppet.session_id


def sleeping(child: subprocess.Popen[bytes]) -> None:
    """It has set up its watch and waits."""
    until(lambda: _in_poll(child), "it sleeps")


def _in_poll(child: subprocess.Popen[bytes]) -> bool:
    try:
        call = Path(f"/proc/{child.pid}/syscall").read_text().split()[0]
        files = [os.readlink(path) for path in Path(f"/proc/{child.pid}/fd").iterdir()]
    except OSError:  # closed or ended meanwhile
        return False
    return call in POLLS and "anon_inode:inotify" in files


POLLS = {"7", "271", "73"}  # poll, ppoll on x86-64; ppoll on arm64


def test_until_it_has_ended(stage: Doomed) -> None:
    agent, _ = stage.working()
    with started(stage, "wait", id_of(agent)[:8]) as child:
        sleeping(child)
        agent.finish()
        out, err = child.communicate(timeout=20)
    assert (child.returncode, out.decode(), err) == (0, f"{agent.session_id} stopped (completed)\n", b"")


def test_killed_is_one(stage: Doomed) -> None:
    agent, _ = stage.working()
    with started(stage, "wait", id_of(agent)) as child:
        sleeping(child)
        agent.kill()
        out, _ = child.communicate(timeout=20)
    assert child.returncode == 1
    # a zombie tells the signal, if it is still there when we look
    assert out.decode().rstrip(")\n").removesuffix(", signal 9") == f"{agent.session_id} stopped (killed"


def test_for_idle_and_waiting(stage: Doomed) -> None:
    agent, _ = stage.working()
    with started(stage, "wait", id_of(agent), "--for", "idle") as child:
        sleeping(child)
        agent.do("rest")
        out, _ = child.communicate(timeout=20)
    assert (child.returncode, out.decode()) == (0, f"{agent.session_id} idle\n")
    agent.do("ask")
    ran = agentctl_of(stage, "wait", id_of(agent), "--for", "settled")
    assert (ran.code, ran.out) == (0, f"{agent.session_id} waiting for question\n")


def test_time_over(stage: Doomed) -> None:
    agent, _ = stage.working()
    ran = agentctl_of(stage, "wait", id_of(agent), "--timeout", "0.1")
    assert (ran.code, ran.out) == (124, "")
    assert ran.err == f"agentctl: {agent.session_id}: not in that time: it is running\n"


def test_a_launched_ones_exit_code_is_waited_for(stage: Doomed) -> None:
    """The shim writes it down a moment after the agent's end; who waits hears it all the same."""
    ran = agentctl_of(stage, "launch", "demo", "--cwd", str(stage.work), "-p", "work, hang")
    session_id = ran.out.strip()
    (agent,) = stage.living("demo-agent")
    shim = proc.read_process(agent.parent, agent.identity.boot)
    with started(stage, "wait", session_id, "--json") as child, Handle(shim.identity) as handle:
        sleeping(child)
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


def grouped(stage: Stage, *puppets: Puppet) -> None:
    for puppet in puppets:
        note = Launch(f"l{puppet.pid}", puppet.identity, puppet.session_id, group="g", created_at=1.0)
        launch_writes.begin(paths.notes_file(stage.environ["AGENTCTL_HOME"]), note)


def test_all_of_a_group_and_the_worst_of_them(stage: Doomed) -> None:
    (one, _), (two, _), (three, _) = (stage.working() for _ in range(3))
    grouped(stage, one, two)
    with started(stage, "wait", "--group", "g") as child:
        sleeping(child)
        one.finish()
        two.kill()
        out, _ = child.communicate(timeout=20)
    assert child.returncode == 1
    assert sorted(out.decode().splitlines()) == sorted(
        [f"{one.session_id} stopped (completed)", f"{two.session_id} stopped (killed)"]
    )
    assert id_of(three) not in out.decode()


def test_it_sleeps_while_nothing_happens(stage: Doomed) -> None:
    """No polling: while others work it is not scheduled even once."""
    agent, _ = stage.working()
    other = stage.start(environ={"DEMO_AGENT_HOME": str(stage.root / "elsewhere")})
    with started(stage, "wait", id_of(agent)) as child:
        sleeping(child)
        before = _context_switches(child)
        for _ in range(20):  # time passes, measured by another agent's steps
            other.do("work 0.05")
        assert _context_switches(child) - before <= 1
        agent.finish()
        child.communicate(timeout=20)


def _context_switches(child: subprocess.Popen[bytes]) -> int:
    status = Path(f"/proc/{child.pid}/status").read_text()
    return int(re.findall(r"^voluntary_ctxt_switches:\s+(\d+)", status, re.MULTILINE)[0])


def told(*evidence: Evidence) -> Session:
    return Session(Observation("demo", "s", evidence), judge(evidence))


GONE, ALIVE = Evidence("gone", "/proc", "kernel"), Evidence("alive", "proc:1@1", "kernel")


@pytest.mark.parametrize(
    ("session", "code"),
    [
        (told(GONE, Evidence("idle", "/t", "journal", detail="completed")), 0),
        (told(GONE, Evidence("idle", "/t", "journal", detail="failed")), 1),
        (told(GONE, Evidence("idle", "/t", "journal", detail="interrupted")), 1),
        (told(GONE, Evidence("working", "/t", "journal")), 1),
        (told(GONE), 5),
        (told(), 5),
        (told(ALIVE, Evidence("idle", "/t", "journal")), 0),
        (told(ALIVE, Evidence("waiting", "/t", "journal", detail="permission")), 0),
    ],
)
def test_the_code_is_the_outcome(session: Session, code: int) -> None:
    assert code_of(session) == code


def test_what_it_says_of_a_doubt_is_one_line_and_commands_no_terminal() -> None:
    hidden = Evidence("hidden", "/f", "record", note="in /a\x1b]0;b\x07\nstopped")
    line = wait.told(told(hidden))
    assert "\x1b" not in line
    assert "\n" not in line


@pytest.mark.parametrize("words", [(), ("x", "--for", "lunch"), ("x", "--timeout", "soon")])
def test_wrong_words(stage: Doomed, words: tuple[str, ...]) -> None:
    assert agentctl_of(stage, "wait", *words).code == 2


def test_one_that_is_not_there(stage: Doomed) -> None:
    stage.start()
    assert agentctl_of(stage, "wait", "nosuch").code == 3
