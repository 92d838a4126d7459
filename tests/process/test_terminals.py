"""Which of an agent's processes are at a terminal that a person uses."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from agentctl.errors import SourceError
from agentctl.process.kinship import Tree
from agentctl.process.tree import Family
from agentctl.system import proc, tty
from agentctl.system.proc import Process
from agentctl.testing import Puppet
from tests.fakes.doomed import Doomed
from tests.waiting import until


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Doomed]:
    if shutil.which("script") is None:
        pytest.skip("needs script(1), which opens a terminal")
    made = Doomed(tmp_path)
    yield made
    made.close()


def family(stage: Doomed, agent: Puppet, *, force: bool = False) -> Family:
    return Family(
        stage.row(agent).seen.owner,
        pid_markers=["DEMO_AGENT_PID"],
        confine=stage.environ["AGENTCTL_CONFINE"],
        force=force,
    )


def looked(stage: Doomed, agent: Puppet, *, force: bool = False) -> Tree:
    return family(stage, agent, force=force).look(proc.read_table())


@contextmanager
def opened(
    stage: Doomed, agent: Puppet, program: str = "sleep 1000", *, command: str = ""
) -> Iterator[str]:
    """A terminal that a process which is not below the agent has opened. `program` is at it; `command`
    becomes it."""
    environ = {**stage.environ, "DEMO_AGENT_PID": str(agent.pid)}
    held, ours = os.pipe()  # script types what it reads, and ends with it
    orphan = ["sh", "-c", '"$@" & exit', "sh", "setsid", "script", "-qc"]
    words = [*orphan, f"exec {command or program}", "/dev/null"]
    subprocess.run(words, env=environ, stdin=held, stdout=subprocess.DEVNULL, check=True)
    try:
        until(lambda: name_at(stage, program) is not None, "its program runs")
        name = name_at(stage, program)
        assert name is not None
        yield name
    finally:
        os.close(ours)
        os.close(held)


def at(stage: Doomed, program: str) -> list[Process]:
    return [each for each in stage.living() if " ".join(each.argv) == program]


def name_at(stage: Doomed, program: str) -> str | None:
    for process in at(stage, program):
        try:
            use = tty.use_by(process.identity)
        except SourceError:
            continue
        if use is not None:
            return use.name
    return None


def type_at(name: str) -> None:
    """As if somebody had, a minute after it was opened."""
    status = os.stat(name)
    os.utime(name, (status.st_ctime + 60, status.st_mtime))


def comms(tree: Tree) -> list[str]:
    return sorted(process.comm for process in tree.members)


def kept(tree: Tree) -> dict[str, str | None]:
    return {left.command: left.terminal for left in tree.spared}


def test_a_terminal_at_which_nobody_has_typed_goes(stage: Doomed) -> None:
    agent, _ = stage.working()
    with opened(stage, agent):
        tree = looked(stage, agent)
        assert (comms(tree), tree.spared) == (["script", "sleep"], ())


def test_a_terminal_at_which_somebody_has_typed_is_spared_with_who_keeps_it_open(stage: Doomed) -> None:
    agent, _ = stage.working()
    with opened(stage, agent) as name, opened(stage, agent, "sleep 1001"):
        type_at(name)
        tree = looked(stage, agent)
        assert comms(tree) == ["script", "sleep"]  # of the other one, where nobody types
        assert {"sleep 1001"} == {" ".join(p.argv) for p in tree.members if p.comm == "sleep"}
        assert kept(tree) == {"sleep 1000": name, "script -qc exec sleep 1000 /dev/null": name}
        why = {left.command: left.why for left in tree.spared}
        assert why["sleep 1000"] == f"sleep 1000: a person uses its terminal, {name}"
        assert "it keeps open" in why["script -qc exec sleep 1000 /dev/null"]


def test_by_force_it_goes(stage: Doomed) -> None:
    agent, _ = stage.working()
    with opened(stage, agent) as name:
        type_at(name)
        tree = looked(stage, agent, force=True)
        assert (comms(tree), tree.spared) == (["script", "sleep"], ())


def test_what_was_started_there_is_spared_also_without_a_terminal(stage: Doomed) -> None:
    agent, _ = stage.working()
    script = stage.root / "both"
    script.write_text("setsid sleep 1002 </dev/null >/dev/null 2>&1 &\nexec sleep 1000\n")
    with opened(stage, agent, command=f"sh {script}") as name:
        until(lambda: at(stage, "sleep 1002") != [], "it runs")
        type_at(name)
        assert kept(looked(stage, agent))["sleep 1002"] == name


def test_a_tool_below_the_agent_types_at_its_terminal_itself(stage: Doomed) -> None:
    """As does an agent that runs commands on a terminal; also once it is gone."""
    agent, _ = stage.working()
    os.mkfifo(stage.root / "fifo")
    agent.do(f"tool script -qc 'exec sleep 1000' /dev/null < {stage.root}/fifo")
    hold = os.open(stage.root / "fifo", os.O_RDWR)
    try:
        until(lambda: name_at(stage, "sleep 1000") is not None, "its program runs")
        name = name_at(stage, "sleep 1000")
        assert name is not None
        type_at(name)
        seen = family(stage, agent)
        tree = seen.look(proc.read_table())
        assert "sleep" in comms(tree)
        assert tree.spared == ()
        agent.kill()
        known = frozenset(process.identity for process in tree.members)
        after = seen.look(proc.read_table(), known)
        assert "sleep" in comms(after)
        assert after.spared == ()
    finally:
        os.close(hold)


def test_a_session_that_has_ended_has_no_terminals_of_its_own() -> None:
    assert Family(None, "a launch").look(proc.read_table()).spared == ()
