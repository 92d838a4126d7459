"""Stopping under the law: a stop ends exactly the processes of the session, of every agent alike, and
all others live on."""

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
from tests.law.asking import environ_of, start_agent
from tests.namespaces import pid_namespace
from tests.running import agentctl_of
from tests.waiting import until


@pytest.fixture
def demo(tmp_path: Path) -> Iterator[Doomed]:
    stage = Doomed(tmp_path)
    yield stage
    stage.close()


def is_alive(puppet: Puppet) -> bool:
    process = proc.find_process(puppet.identity)
    return process is not None and process.is_alive


def test_one_of_two_agents_is_stopped(stage: Stage) -> None:
    """The other works in the same directory, with the same binary, for the same user."""
    agent, session_id = start_agent(stage)
    other, other_id = start_agent(stage, stage.root / "elsewhere")
    ran = agentctl_of(stage, "stop", session_id)
    assert ran.code == 0, ran
    assert not is_alive(agent)
    assert is_alive(other)
    assert stage.session(session_id).verdict.status == "stopped"
    assert stage.session(other_id).verdict.status == "running"
    again = agentctl_of(stage, "stop", session_id)
    assert (again.code, "already" in again.out) == (0, True), again


@pytest.mark.few(2)
@pytest.mark.parametrize("adapter", [stage.adapter for stage in stages()])
def test_a_reused_pid_is_not_signalled(adapter: str, tmp_path: Path) -> None:
    """In a pid namespace of its own, where the next pid can be chosen."""
    stage = stages()[0](tmp_path / "outside")  # for its environment alone
    inside = ["-m", "tests.law.stop_a_reused_pid", adapter, str(tmp_path / "inside")]
    run = subprocess.run(
        [*pid_namespace(), sys.executable, *inside],
        env=environ_of(stage),
        capture_output=True,
        timeout=100,
        check=False,
    )
    assert run.returncode == 0, run.stdout.decode() + run.stderr.decode()
    assert "is another process than the one that ran this session" in run.stdout.decode()


def launch(demo: Doomed, prompt: str, *words: str) -> str:
    ran = agentctl_of(demo, "launch", "demo", "--cwd", str(demo.work), "-p", prompt, *words)
    assert ran.code == 0, ran.err
    return ran.out.strip()


def test_a_stop_lets_the_on_complete_hook_finish(demo: Doomed) -> None:
    """The hook runs below the shim, with the launch's id, while the stop ends the agent's processes."""
    trace = demo.root / "done"
    hook = (
        f"trap 'echo terminated > {trace}' TERM; sleep 1 & wait; wait; echo $AGENTCTL_OUTCOME > {trace}"
    )
    session_id = launch(demo, "tool, hang", "--on-complete", hook)
    until(lambda: demo.living("sleep") != [], "its tool runs")
    ran = agentctl_of(demo, "stop", session_id)
    assert ran.code == 0, ran
    assert "2 ended, 0 survivors" in ran.out
    again = agentctl_of(demo, "stop", session_id)
    assert (again.code, "already" in again.out) == (0, True), again
    until(trace.exists, "the hook has run to its end")
    until(lambda: trace.read_text() != "", "the hook has written its outcome")
    assert trace.read_text() == "interrupted\n"
    until(lambda: demo.living() == [], "nothing is left")


def test_an_agent_launched_by_the_agent_lives_on(demo: Doomed) -> None:
    inner = demo.root / "inner"
    (demo.root / "other").mkdir()
    python = {name: value for name, value in environ_of(demo).items() if name.startswith("PYTHON")}
    exports = " ".join(f"{name}={value}" for name, value in python.items())
    command = (
        f"{exports} {sys.executable} -m agentctl launch demo --cwd {demo.root}/other -p hang"
        f" > {inner}.new 2>&1; mv {inner}.new {inner}"
    )
    outer = launch(demo, f"tool {command}; exec sleep 1000, hang")
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


def test_a_launch_without_state_and_shim_is_stopped_whole(demo: Doomed) -> None:
    """Only the environment of its processes still names the launch."""
    session_id = launch(demo, "tool, hang")
    until(lambda: demo.living("sleep") != [], "its tool runs")
    for process in demo.living("agentctl-shim"):
        demo.kill(process)
    shutil.rmtree(demo.environ["AGENTCTL_HOME"])
    ran = agentctl_of(demo, "stop", session_id)
    assert ran.code == 0, ran
    assert "2 ended, 0 survivors" in ran.out
    assert demo.living() == []


TMUX = shutil.which("tmux")


def run_tmux(demo: Doomed, *words: str) -> str:
    """Run tmux as a person does, from a terminal without a mark of any agent."""
    command = [TMUX or "tmux", "-S", f"{demo.root}/tmux", "-f", "/dev/null", *words]
    run = subprocess.run(
        command, env={"PATH": "/usr/bin:/bin", "TERM": "xterm"}, capture_output=True, check=True
    )
    return run.stdout.decode().strip()


def open_window(demo: Doomed, command: str) -> tuple[int, str]:
    """Open a window that runs the command. Return its pid and its terminal."""
    pid, name = run_tmux(
        demo, "new-window", "-d", "-P", "-F", "#{pane_pid} #{pane_tty}", command
    ).split()
    return int(pid), name


def type_at(demo: Doomed, name: str) -> None:
    """Type lines until the terminal's access time moves: the kernel updates it every eight seconds."""
    pane = run_tmux(demo, "list-panes", "-a", "-F", "#{pane_id}", "-f", f"#{{==:#{{pane_tty}},{name}}}")

    def type_and_check() -> bool:
        run_tmux(demo, "send-keys", "-t", pane, "x", "Enter")
        return os.stat(name).st_atime > os.stat(name).st_ctime + 2

    until(type_and_check, f"{name} was typed at", beat=0.2)


@pytest.mark.slow
@pytest.mark.skipif(TMUX is None, reason="needs tmux, for its terminals")
def test_a_terminal_that_a_person_uses_is_spared(demo: Doomed) -> None:
    """A tool of the agent has opened tmux for a server; since then, a person works in it."""
    agent, session = demo.working()
    serves = "setsid sleep 1001 & exec sleep 1000"
    agent.do(f"tool {TMUX} -S {demo.root}/tmux -f /dev/null new-session -d '{serves}'")
    until(lambda: len(demo.living("sleep")) == 2, "the server runs")
    servers, (mux,) = demo.living("sleep"), demo.living("tmux: server")
    pid, name = open_window(demo, "exec cat")
    editor = proc.read_process(pid, proc.read_boot_id())
    untouched = proc.read_process(open_window(demo, "exec cat")[0], proc.read_boot_id())
    type_at(demo, name)

    spared = {editor.pid: ("cat", name), mux.pid: (" ".join(mux.argv), name)}
    session_id = session.observation.session_id or ""
    [planned] = agentctl_of(demo, "stop", session_id, "--dry-run", "--json").json()["planned"]
    assert {each["pid"]: (each["command"], each["terminal"]) for each in planned["spared"]} == spared
    assert {*(each.pid for each in servers), untouched.pid} <= {
        each["pid"] for each in planned["processes"]
    }
    [forced] = agentctl_of(demo, "stop", session_id, "--force", "--dry-run", "--json").json()["planned"]
    assert forced["spared"] == []
    assert set(spared) <= {each["pid"] for each in forced["processes"]}
    plan = agentctl_of(demo, "stop", session_id, "--dry-run").out
    assert f"  pid {editor.pid} would live on: cat: a person uses its terminal, {name}\n" in plan

    ran = agentctl_of(demo, "stop", session_id)
    assert ran.code == 0, ran
    assert (alive(editor), alive(mux)) == (True, True)
    assert not any(map(alive, (*servers, untouched)))
    assert not is_alive(agent)
    assert f"  pid {editor.pid} lives on: cat: a person uses its terminal, {name}\n" in ran.out
    assert f"  pid {mux.pid} lives on: " in ran.out
    assert "--force" in ran.out


@pytest.mark.skipif(TMUX is None, reason="needs tmux, for its terminals")
@pytest.mark.slow
def test_force_stops_a_terminal_that_a_person_uses(demo: Doomed) -> None:
    agent, session = demo.working()
    agent.do(f"tool {TMUX} -S {demo.root}/tmux -f /dev/null new-session -d cat")
    until(lambda: demo.living("cat") != [], "it runs")
    type_at(demo, run_tmux(demo, "list-panes", "-a", "-F", "#{pane_tty}"))
    ran = agentctl_of(demo, "stop", session.observation.session_id or "", "--force", "--json")
    assert ran.code == 0, ran
    assert ran.json()["stopped"][0]["spared"] == []
    assert demo.living() == []
