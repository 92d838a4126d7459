"""Somebody else's agent in the directory that we launch into: named, on one line, and not in the way."""

from __future__ import annotations

import os
from pathlib import Path

from agentctl.launch import neighbours
from agentctl.system import proc
from agentctl.system.identity import ProcessIdentity
from agentctl.truth.judge import judge
from agentctl.truth.model import Evidence, Facts, Launch, Observation, Session
from tests.fakes.demo import DemoStage
from tests.running import agentctl_of

NOBODY = ProcessIdentity("b", 7, 1)


def test_launched_beside_one_that_was_not_launched(stage: DemoStage) -> None:
    puppet = stage.start()
    ran = agentctl_of(stage, "launch", "demo", "-p", "work 600", "--cwd", str(stage.work))
    assert ran.code == 0
    named = f"demo {puppet.session_id} (pid {puppet.pid}) works in the same directory"
    assert ran.err == f"agentctl: {named}, and was not launched by agentctl\n"


def test_elsewhere_or_launched_by_us_nobody_is_named(stage: DemoStage) -> None:
    stage.start(stage.work / "below")
    for words in ((), ("--force",)):
        ran = agentctl_of(stage, "launch", "demo", "-p", "work 600", "--cwd", str(stage.work), *words)
        assert (ran.code, ran.err) == (0, "")


def _session(owner: proc.Process | None, cwd: str | None, launch: Launch | None = None) -> Session:
    alive = (Evidence("alive", "proc:7@1", "kernel"),)
    return Session(Observation("demo", "s", alive, Facts(cwd=cwd), owner), judge(alive), launch)


def test_who_counts(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path)
    mine = _session(None, None, Launch("l", NOBODY, cwd=str(tmp_path)))
    init = proc.Process(NOBODY, 1, "S", "demo-agent")
    there, linked = _session(init, str(tmp_path)), _session(init, str(tmp_path / "link"))
    ended, odd = _session(None, str(tmp_path)), _session(init, "not/a\0path")
    init._cwd, init._described = None, True
    assert neighbours.beside(mine, [there, linked, ended, odd, mine]) == [there, linked]
    assert neighbours.sentence([there, linked]).startswith("demo s (pid 7) and 1 more work in")
    assert neighbours.beside(mine._replace(launch=None), [there]) == []
    us = proc.read_process(os.getppid(), proc.boot_id())
    assert neighbours.beside(mine, [_session(us, str(tmp_path))]) == []  # we are called by it
