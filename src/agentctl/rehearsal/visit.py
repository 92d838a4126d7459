"""A visit to an installed agent: finds its program, has it walk in a room, hands on what the walk tells.

Nothing of the caller but PATH goes in, and nothing comes out but lines of JSON: the room can write to no
file outside its own /tmp, and whoever looks at this machine meanwhile does not see the agent. When the
visit is over or broken off, the room and all in it end.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Generator, Iterator, Mapping
from typing import Any

import agentctl
from agentctl.adapters import registry
from agentctl.config import settings
from agentctl.launch.program import resolved
from agentctl.rehearsal import sandbox
from agentctl.rehearsal.recipe import recipe_for
from agentctl.system import proc

LAST_WORDS = 5  # lines of a walk that broke


def program(adapter: str, environ: Mapping[str, str]) -> str:
    """The agent's program, found as `launch` finds it. Raises StartFailed where it is not installed,
    Unsupported where nobody wrote down how to rehearse it."""
    recipe_for(adapter)
    name = settings.load(environ).of(adapter).binary.value or registry.load(adapter).binary
    return resolved(name, environ, os.getcwd())


def visit(
    adapter: str, binary: str, environ: Mapping[str, str], patience: float
) -> Generator[dict[str, Any], None, None]:
    """First the agent, then each step as it happens; {"broken": …} if the walk itself failed."""
    path = environ.get("PATH", os.defpath)
    sources = os.path.dirname(os.path.dirname(agentctl.__file__))
    walk = [sys.executable, "-P", "-m", "agentctl.rehearsal.walk", adapter, binary, str(patience)]
    needed = [sources, *path.split(os.pathsep), binary, os.path.realpath(binary)]
    with tempfile.TemporaryFile("w+", errors="replace") as errors:
        walking = subprocess.Popen(
            sandbox.words(walk, list(_below_tmp(needed)), read_only=True, maker=_own_address()),
            env={"PATH": path, "PYTHONPATH": sources, "PYTHONDONTWRITEBYTECODE": "1"},
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
            start_new_session=True,  # Ctrl-C is ours to hear: we end the room as a whole
        )
        assert walking.stdout is not None
        try:
            for line in walking.stdout:
                yield json.loads(line)
            if walking.wait() != 0:
                errors.seek(0)
                said = [line.strip() for line in errors if line.strip()]
                yield {"broken": said[-LAST_WORDS:] or [f"exit code {walking.returncode}"]}
        finally:
            walking.kill()
            walking.wait()
            walking.stdout.close()


def _own_address() -> str:
    return proc.read_process(os.getpid(), proc.boot_id()).identity.address


def _below_tmp(paths: list[str]) -> Iterator[str]:
    """What would be hidden by the room's own /tmp. As a whole: a program needs its neighbours."""
    for path in paths:
        parts = os.path.abspath(path).split("/")
        top = "/".join(parts[:3])
        if parts[1] == "tmp" and len(parts) > 2 and os.path.isdir(top):
            yield top
