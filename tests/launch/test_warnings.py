"""Another agent in the directory of a launch: one line of warning, and the launch goes on."""

from __future__ import annotations

import os
from pathlib import Path

from agentctl.launch import warnings
from agentctl.system import proc
from agentctl.system.proc import ProcessIdentity
from agentctl.truth.judge import judge
from agentctl.truth.model import Evidence, Facts, Launch, Observation, Session
from tests.fakes.demo import DemoStage
from tests.running import agentctl_of

IDENTITY = ProcessIdentity("b", 7, 1)


def test_an_agent_that_was_not_launched_causes_a_warning(stage: DemoStage) -> None:
    puppet = stage.start()
    ran = agentctl_of(stage, "launch", "demo", "-p", "work 600", "--cwd", str(stage.work))
    assert ran.code == 0
    warning = f"demo {puppet.session_id} (pid {puppet.pid}) works in the same directory"
    assert ran.err == f"agentctl: {warning}, and was not launched by agentctl\n"


def test_no_warning_about_agents_elsewhere_or_launched_by_us(stage: DemoStage) -> None:
    stage.start(stage.work / "below")
    for words in ((), ("--force",)):
        ran = agentctl_of(stage, "launch", "demo", "-p", "work 600", "--cwd", str(stage.work), *words)
        assert (ran.code, ran.err) == (0, "")


def _session(owner: proc.Process | None, cwd: str | None, launch: Launch | None = None) -> Session:
    alive = (Evidence("alive", "proc:7@1", "kernel"),)
    return Session(Observation("demo", "s", alive, Facts(cwd=cwd), owner), judge(alive), launch)


def test_neighbours_are_other_live_agents_in_the_same_directory(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path)
    mine = _session(None, None, Launch("l", IDENTITY, cwd=str(tmp_path)))
    init = proc.Process(IDENTITY, 1, "S", "demo-agent")
    there, linked = _session(init, str(tmp_path)), _session(init, str(tmp_path / "link"))
    stopped, malformed = _session(None, str(tmp_path)), _session(init, "not/a\0path")
    init._cwd, init._described = None, True
    assert warnings.find_neighbours(mine, [there, linked, stopped, malformed, mine]) == [there, linked]
    assert warnings.describe_neighbours([there, linked]).startswith("demo s (pid 7) and 1 more work in")
    assert warnings.find_neighbours(mine._replace(launch=None), [there]) == []
    us = proc.read_process(os.getppid(), proc.read_boot_id())
    assert warnings.find_neighbours(mine, [_session(us, str(tmp_path))]) == []  # we are called by it
