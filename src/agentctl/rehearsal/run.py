"""Rehearse one installed agent: find its program, run `agentctl.rehearsal` in a sandbox, pass its lines
on.

Only PATH goes in, and only lines of JSON come out. The sandbox cannot write outside its own /tmp, and
no list or event on this machine shows the agent. When the rehearsal ends or is interrupted, the sandbox
and all its processes end.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from typing import Any

import agentctl
from agentctl.adapters import registry
from agentctl.config import settings
from agentctl.launch.program import find_program
from agentctl.light_typing import Generator, Iterator, Mapping
from agentctl.rehearsal import sandbox
from agentctl.rehearsal.recipe import recipe_for
from agentctl.system import proc

LAST_LINES = 5  # of a rehearsal that failed


def find_agent_program(adapter: str, environ: Mapping[str, str]) -> str:
    """Return the path of the agent's program, as `launch` finds it. Raises StartFailed if it is not
    installed, Unsupported if there is no recipe for it."""
    recipe_for(adapter)
    name = settings.load(environ).for_adapter(adapter).binary.value or registry.load(adapter).binary
    return find_program(name, environ, os.getcwd())


def rehearse(
    adapter: str, binary: str, environ: Mapping[str, str], patience: float
) -> Generator[dict[str, Any], None, None]:
    """Rehearse the agent. Yield a line about the agent, then one for each step as it happens, and
    {"broken": …} if the rehearsal itself failed."""
    path = environ.get("PATH", os.defpath)
    sources = os.path.dirname(os.path.dirname(agentctl.__file__))
    command = [sys.executable, "-P", "-m", "agentctl.rehearsal", adapter, binary, str(patience)]
    visible = [sources, *path.split(os.pathsep), binary, os.path.realpath(binary)]
    with tempfile.TemporaryFile("w+", errors="replace") as errors:
        process = subprocess.Popen(
            sandbox.command_line(
                command, list(_find_below_tmp(visible)), read_only=True, maker=_own_address()
            ),
            env={"PATH": path, "PYTHONPATH": sources, "PYTHONDONTWRITEBYTECODE": "1"},
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
            start_new_session=True,  # Ctrl-C reaches only us: we end the whole sandbox
        )
        assert process.stdout is not None
        try:
            for line in process.stdout:
                yield json.loads(line)
            if process.wait() != 0:
                errors.seek(0)
                lines = [line.strip() for line in errors if line.strip()]
                yield {"broken": lines[-LAST_LINES:] or [f"exit code {process.returncode}"]}
        finally:
            process.kill()
            process.wait()
            process.stdout.close()


def _own_address() -> str:
    return proc.read_process(os.getpid(), proc.read_boot_id()).identity.address


def _find_below_tmp(paths: list[str]) -> Iterator[str]:
    """Yield the directories that the sandbox's own /tmp would hide. Whole directories of /tmp: a program
    needs the files beside it."""
    for path in paths:
        parts = os.path.abspath(path).split("/")
        top = "/".join(parts[:3])
        if parts[1] == "tmp" and len(parts) > 2 and os.path.isdir(top):
            yield top
