"""Fake agents in containers: each in a pid and mount namespace of its own, with the same pid there."""

import shlex
from pathlib import Path
from unittest.mock import patch

from agentctl.system import proc
from agentctl.system.proc import Process
from agentctl.testing import Stage
from tests.namespaces import unshare, words
from tests.waiting import until

OPTIONS = ("--pid", "--fork", "--mount", "--mount-proc", "--kill-child")
UNSHARE = words(*OPTIONS)
TOOL = "sleep"


def need_containers() -> None:
    """Skip the test where this machine gives us no namespaces."""
    unshare(*OPTIONS)


def start_contained(stage: Stage, home: Path, marks: dict[str, str]) -> tuple[Process, Process]:
    """An agent, which has pid 2 in there, and a tool that has another parent and carries `marks`."""
    home.mkdir(parents=True)
    words = shlex.join(f"{name}={value}" for name, value in marks.items())
    script = f'exec 3<&0; "$@" <&3 & env {words} {TOOL} 1000 </dev/null >/dev/null 2>&1 & wait'
    program = stage.program("a prompt", None)
    with patch.object(stage, "program", return_value=[*UNSHARE, "sh", "-c", script, "sh", *program]):
        outer = stage.start(environ={"HOME": str(home)})
    outer.do("work")
    [init] = _children(outer.pid)
    until(lambda: TOOL in [child.comm for child in _children(init.pid)], "its tool runs")
    agent, tool = sorted(_children(init.pid), key=lambda process: process.comm == TOOL)
    return agent, tool


def _children(pid: int) -> list[Process]:
    return [process for process in proc.read_table().values() if process.parent == pid]
