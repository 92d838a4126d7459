"""Stopping under the law: exactly the processes that were meant, of every agent alike, and whatever else
is there lives on."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentctl.system import proc
from agentctl.testing import Puppet, Stage
from tests.fakes.doomed import Doomed, alive
from tests.fakes.stages import stages
from tests.law.asking import environ_of, working
from tests.namespaces import pid_namespace
from tests.running import agentctl_of
from tests.waiting import until


@pytest.fixture
def demo(tmp_path: Path) -> Iterator[Doomed]:
    made = Doomed(tmp_path)
    yield made
    made.close()


def is_alive(puppet: Puppet) -> bool:
    process = proc.current(puppet.identity)
    return process is not None and process.alive


def test_one_of_two_is_stopped(stage: Stage) -> None:
    """The other works in the same directory, with the same binary, for the same user."""
    agent, session_id = working(stage)
    other, other_id = working(stage, stage.root / "elsewhere")
    ran = agentctl_of(stage, "stop", session_id)
    assert ran.code == 0, ran
    assert not is_alive(agent)
    assert is_alive(other)
    assert stage.session(session_id).verdict.status == "stopped"
    assert stage.session(other_id).verdict.status == "running"
    again = agentctl_of(stage, "stop", session_id)
    assert (again.code, "already" in again.out) == (0, True), again


@pytest.mark.parametrize("adapter", [stage.adapter for stage in stages()])
def test_a_reused_pid_is_not_signalled(adapter: str, tmp_path: Path) -> None:
    """In a pid namespace of its own, where the next pid can be chosen."""
    stage = stages()[0](tmp_path / "outside")  # for its environment alone
    inside = ["-m", "tests.law.stop_a_reused_pid", adapter, str(tmp_path / "inside")]
    done = subprocess.run(
        [*pid_namespace(), sys.executable, *inside],
        env=environ_of(stage),
        capture_output=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stdout.decode() + done.stderr.decode()
    assert "is another process than the one that ran this session" in done.stdout.decode()


def launched(demo: Doomed, prompt: str, *words: str) -> str:
    ran = agentctl_of(demo, "launch", "demo", "--cwd", str(demo.work), "-p", prompt, *words)
    assert ran.code == 0, ran.err
    return ran.out.strip()


def test_the_hook_at_the_end_is_not_swept_away(demo: Doomed) -> None:
    """It runs below the shim, with the launch's id, while what the agent left behind is ended."""
    done = demo.root / "done"
    hook = f"trap 'echo told to go > {done}' TERM; sleep 1 & wait; wait; echo $AGENTCTL_OUTCOME > {done}"
    session_id = launched(demo, "tool, hang", "--on-complete", hook)
    until(lambda: demo.living("sleep") != [], "its tool runs")
    ran = agentctl_of(demo, "stop", session_id)
    assert ran.code == 0, ran
    assert "2 ended, 0 survivors" in ran.out
    again = agentctl_of(demo, "stop", session_id)
    assert (again.code, "already" in again.out) == (0, True), again
    until(done.exists, "the hook has run to its end")
    until(lambda: done.read_text() != "", "it has said so")
    assert done.read_text() == "interrupted\n"
    until(lambda: demo.living() == [], "nothing is left")


def test_an_agent_that_was_launched_from_inside_lives_on(demo: Doomed) -> None:
    inner = demo.root / "inner"
    (demo.root / "other").mkdir()
    python = {name: value for name, value in environ_of(demo).items() if name.startswith("PYTHON")}
    exports = " ".join(f"{name}={value}" for name, value in python.items())
    command = (
        f"{exports} {sys.executable} -m agentctl launch demo --cwd {demo.root}/other -p hang"
        f" > {inner}.new 2>&1; mv {inner}.new {inner}"
    )
    outer = launched(demo, f"tool {command}; exec sleep 1000, hang")
    until(inner.exists, "the inner launch has returned")
    inner_id = inner.read_text().strip()
    ran = agentctl_of(demo, "stop", outer)
    assert ran.code == 0, ran
    assert "0 survivors" in ran.out
    assert demo.session(outer).verdict.status == "stopped"
    assert demo.session(inner_id).verdict.status == "running"
    ran = agentctl_of(demo, "stop", inner_id)
    assert ran.code == 0, ran
    until(lambda: demo.living() == [], "nothing is left")


def test_a_launched_one_whose_state_and_shim_are_gone(demo: Doomed) -> None:
    """Nobody is left who knows of the launch but the process itself: its environment tells."""
    session_id = launched(demo, "tool, hang")
    until(lambda: demo.living("sleep") != [], "its tool runs")
    for process in demo.living("agentctl-shim"):
        demo.kill(process)
    shutil.rmtree(demo.environ["AGENTCTL_HOME"])
    ran = agentctl_of(demo, "stop", session_id)
    assert ran.code == 0, ran
    assert "2 ended, 0 survivors" in ran.out
    assert demo.living() == []


TMUX = shutil.which("tmux")


def tmux(demo: Doomed, *words: str) -> str:
    """As a person calls it from a terminal of their own, which has no mark of any agent."""
    command = [TMUX or "tmux", "-S", f"{demo.root}/tmux", "-f", "/dev/null", *words]
    done = subprocess.run(
        command, env={"PATH": "/usr/bin:/bin", "TERM": "xterm"}, capture_output=True, check=True
    )
    return done.stdout.decode().strip()


def opened(demo: Doomed, command: str) -> tuple[int, str]:
    """A window with this in it: its pid and its terminal."""
    pid, name = tmux(demo, "new-window", "-d", "-P", "-F", "#{pane_pid} #{pane_tty}", command).split()
    return int(pid), name


def typed(demo: Doomed, name: str) -> None:
    """Lines, until the kernel has noticed: it counts in steps of eight seconds."""
    pane = tmux(demo, "list-panes", "-a", "-F", "#{pane_id}", "-f", f"#{{==:#{{pane_tty}},{name}}}")

    def moved() -> bool:
        tmux(demo, "send-keys", "-t", pane, "x", "Enter")
        return os.stat(name).st_atime > os.stat(name).st_ctime + 2

    until(moved, f"{name} was typed at", beat=0.2)


@pytest.mark.skipif(TMUX is None, reason="tmux is not there: its terminals are what this is about")
def test_a_terminal_that_a_person_uses_is_spared_and_named(demo: Doomed) -> None:
    """An agent's tool has opened tmux for a server; a person has gone there since and works in it."""
    agent, session = demo.working()
    serves = "setsid sleep 1001 & exec sleep 1000"
    agent.do(f"tool {TMUX} -S {demo.root}/tmux -f /dev/null new-session -d '{serves}'")
    until(lambda: len(demo.living("sleep")) == 2, "the server runs")
    servers, (mux,) = demo.living("sleep"), demo.living("tmux: server")
    pid, name = opened(demo, "exec cat")
    editor = proc.read_process(pid, proc.boot_id())
    untouched = proc.read_process(opened(demo, "exec cat")[0], proc.boot_id())
    typed(demo, name)

    named = {editor.pid: ("cat", name), mux.pid: (" ".join(mux.argv), name)}
    session_id = session.seen.session_id or ""
    [planned] = agentctl_of(demo, "stop", session_id, "--dry-run", "--json").json()["planned"]
    assert {left["pid"]: (left["command"], left["terminal"]) for left in planned["spared"]} == named
    assert {*(each.pid for each in servers), untouched.pid} <= {
        each["pid"] for each in planned["processes"]
    }
    [forced] = agentctl_of(demo, "stop", session_id, "--force", "--dry-run", "--json").json()["planned"]
    assert forced["spared"] == []
    assert set(named) <= {each["pid"] for each in forced["processes"]}
    told = agentctl_of(demo, "stop", session_id, "--dry-run").out
    assert f"  pid {editor.pid} would live on: cat: a person uses its terminal, {name}\n" in told

    ran = agentctl_of(demo, "stop", session_id)
    assert ran.code == 0, ran
    assert (alive(editor), alive(mux)) == (True, True)
    assert not any(map(alive, (*servers, untouched)))
    assert not is_alive(agent)
    assert f"  pid {editor.pid} lives on: cat: a person uses its terminal, {name}\n" in ran.out
    assert f"  pid {mux.pid} lives on: " in ran.out
    assert "--force" in ran.out


@pytest.mark.skipif(TMUX is None, reason="tmux is not there: its terminals are what this is about")
def test_a_terminal_that_a_person_uses_goes_by_force(demo: Doomed) -> None:
    agent, session = demo.working()
    agent.do(f"tool {TMUX} -S {demo.root}/tmux -f /dev/null new-session -d cat")
    until(lambda: demo.living("cat") != [], "it runs")
    typed(demo, tmux(demo, "list-panes", "-a", "-F", "#{pane_tty}"))
    ran = agentctl_of(demo, "stop", session.seen.session_id or "", "--force", "--json")
    assert ran.code == 0, ran
    assert ran.json()["stopped"][0]["spared"] == []
    assert demo.living() == []
