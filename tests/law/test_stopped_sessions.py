"""Stopping under the law: exactly the processes that were meant, of every agent alike, and whatever else
is there lives on."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentctl.testing import Puppet, Stage
from agentctl.truth import procfs
from tests.fakes.doomed import Doomed
from tests.fakes.stages import stages
from tests.law.asking import environ_of, working
from tests.running import agentctl_of
from tests.waiting import until


@pytest.fixture
def demo(tmp_path: Path) -> Iterator[Doomed]:
    made = Doomed(tmp_path)
    yield made
    made.close()


def is_alive(puppet: Puppet) -> bool:
    process = procfs.current(puppet.identity)
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
    if os.geteuid() != 0 or shutil.which("unshare") is None:
        pytest.skip("needs root and unshare(1): only in a pid namespace can the next pid be chosen")
    unshare = ["unshare", "-pf", "--mount-proc"]
    probe = subprocess.run(
        [*unshare, "cat", "/proc/sys/kernel/ns_last_pid"], capture_output=True, check=False
    )
    if probe.returncode != 0:
        pytest.skip(f"no pid namespace to be had here: {probe.stderr.decode().strip()}")
    stage = stages()[0](tmp_path / "outside")  # for its environment alone
    inside = ["-m", "tests.law.stop_a_reused_pid", adapter, str(tmp_path / "inside")]
    done = subprocess.run(
        [*unshare, sys.executable, *inside],
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
