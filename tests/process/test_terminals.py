"""Which of an agent's processes are at a terminal that the user uses."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from agentctl.errors import SourceError
from agentctl.process.relatives import Relatives
from agentctl.process.tree import ProcessFamily
from agentctl.system import proc, tty
from agentctl.system.proc import Process
from agentctl.testing import Puppet
from tests.fakes.doomed import Doomed
from tests.waiting import until


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Doomed]:
    if shutil.which("script") is None:
        pytest.skip("needs script(1), which opens a terminal")
    doomed = Doomed(tmp_path)
    yield doomed
    doomed.close()


def family(stage: Doomed, agent: Puppet, *, force: bool = False) -> ProcessFamily:
    return ProcessFamily(
        stage.row(agent).observation.owner,
        pid_markers=["DEMO_AGENT_PID"],
        confine=stage.environ["AGENTCTL_CONFINE"],
        force=force,
    )


def find_relatives(stage: Doomed, agent: Puppet, *, force: bool = False) -> Relatives:
    return family(stage, agent, force=force).find_relatives(proc.read_table())


@contextmanager
def open_terminal(
    stage: Doomed, agent: Puppet, program: str = "sleep 1000", *, command: str = ""
) -> Iterator[str]:
    """A terminal that a process which is not below the agent has opened. `program` is at it; `command`
    becomes it."""
    environ = {**stage.environ, "DEMO_AGENT_PID": str(agent.pid)}
    stdin, writer = os.pipe()  # script types what it reads, and ends with it
    orphan = ["sh", "-c", '"$@" & exit', "sh", "setsid", "script", "-qc"]
    words = [*orphan, f"exec {command or program}", "/dev/null"]
    subprocess.run(words, env=environ, stdin=stdin, stdout=subprocess.DEVNULL, check=True)
    try:
        until(lambda: name_at(stage, program) is not None, "its program runs")
        name = name_at(stage, program)
        assert name is not None
        yield name
    finally:
        os.close(writer)
        os.close(stdin)


def list_processes(stage: Doomed, program: str) -> list[Process]:
    return [each for each in stage.living() if " ".join(each.argv) == program]


def name_at(stage: Doomed, program: str) -> str | None:
    for process in list_processes(stage, program):
        try:
            use = tty.read_terminal(process.identity)
        except SourceError:
            continue
        if use is not None:
            return use.name
    return None


def type_at(name: str) -> None:
    """As if the user had typed a minute after it was opened."""
    status = os.stat(name)
    os.utime(name, (status.st_ctime + 60, status.st_mtime))


def comms(tree: Relatives) -> list[str]:
    return sorted(process.comm for process in tree.members)


def list_spared(tree: Relatives) -> dict[str, str | None]:
    return {each.command: each.terminal for each in tree.spared}


def test_an_unused_terminal_is_not_spared(stage: Doomed) -> None:
    agent, _ = stage.working()
    with open_terminal(stage, agent):
        tree = find_relatives(stage, agent)
        assert (comms(tree), tree.spared) == (["script", "sleep"], ())


def test_a_used_terminal_is_spared_with_the_process_that_keeps_it_open(stage: Doomed) -> None:
    agent, _ = stage.working()
    with open_terminal(stage, agent) as name, open_terminal(stage, agent, "sleep 1001"):
        type_at(name)
        tree = find_relatives(stage, agent)
        assert comms(tree) == ["script", "sleep"]  # of the other terminal, which is not used
        assert {"sleep 1001"} == {" ".join(p.argv) for p in tree.members if p.comm == "sleep"}
        assert list_spared(tree) == {"sleep 1000": name, "script -qc exec sleep 1000 /dev/null": name}
        why = {each.command: each.why for each in tree.spared}
        assert why["sleep 1000"] == f"sleep 1000: a person uses its terminal, {name}"
        assert "it keeps open" in why["script -qc exec sleep 1000 /dev/null"]


def test_by_force_a_used_terminal_is_not_spared(stage: Doomed) -> None:
    agent, _ = stage.working()
    with open_terminal(stage, agent) as name:
        type_at(name)
        tree = find_relatives(stage, agent, force=True)
        assert (comms(tree), tree.spared) == (["script", "sleep"], ())


def test_a_process_started_at_a_used_terminal_is_spared_without_one(stage: Doomed) -> None:
    agent, _ = stage.working()
    script = stage.root / "both"
    script.write_text("setsid sleep 1002 </dev/null >/dev/null 2>&1 &\nexec sleep 1000\n")
    with open_terminal(stage, agent, command=f"sh {script}") as name:
        until(lambda: list_processes(stage, "sleep 1002") != [], "it runs")
        type_at(name)
        assert list_spared(find_relatives(stage, agent))["sleep 1002"] == name


def test_a_terminal_of_a_tool_below_the_agent_is_not_spared(stage: Doomed) -> None:
    """The agent itself types there; also when the agent is gone."""
    agent, _ = stage.working()
    os.mkfifo(stage.root / "fifo")
    agent.do(f"tool script -qc 'exec sleep 1000' /dev/null < {stage.root}/fifo")
    fifo = os.open(stage.root / "fifo", os.O_RDWR)
    try:
        until(lambda: name_at(stage, "sleep 1000") is not None, "its program runs")
        name = name_at(stage, "sleep 1000")
        assert name is not None
        type_at(name)
        processes = family(stage, agent)
        tree = processes.find_relatives(proc.read_table())
        assert "sleep" in comms(tree)
        assert tree.spared == ()
        agent.kill()
        identities = frozenset(process.identity for process in tree.members)
        after = processes.find_relatives(proc.read_table(), identities)
        assert "sleep" in comms(after)
        assert after.spared == ()
    finally:
        os.close(fifo)


def test_an_ended_session_spares_no_terminals() -> None:
    assert ProcessFamily(None, "a launch").find_relatives(proc.read_table()).spared == ()
