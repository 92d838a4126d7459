"""Walks one installed agent through its states, in a room, and prints what agentctl reads off it.

    python -m agentctl.rehearsal.walk ADAPTER PROGRAM SECONDS

One JSON object a line: first the agent, then each step as it happens. `agentctl doctor --live` starts
this in a room of its own and shows it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from typing import Any

from agentctl.errors import AgentctlError
from agentctl.rehearsal import recipe, sandbox
from agentctl.rehearsal.acts import Scene, at_its_terminal, launched
from agentctl.rehearsal.expect import Expected, expected_of, numbers
from agentctl.rehearsal.model.server import Model
from agentctl.truth.visibility import ALONE


def walk(adapter: str, binary: str, patience: float) -> None:
    known = recipe.recipe_for(adapter)
    # a short path: a Unix socket's may have 107 bytes, and agents put theirs deep below home
    root = tempfile.mkdtemp(prefix="r", dir="/tmp")
    home, work = os.path.join(root, "home"), os.path.join(root, "work")
    for directory in (home, work):
        os.mkdir(directory)
    with Model() as model:
        place = recipe.Place(home, work, model.url)
        environ = {**recipe.environment(known, place, os.environ["PATH"]), "PWD": work}
        os.environ.clear()  # from here on we look as a person of that home would
        os.environ.update(environ)
        os.environ[ALONE] = "1"  # in this room, which nobody outside can reach
        version = asked(binary, environ, work, patience)
        expected = expected_of(adapter, version)
        tell(_agent(adapter, binary, version, expected))
        scene = Scene(known, expected, binary, work, environ, model, patience, tell)
        at_its_terminal(scene)
        launched(scene)


def asked(binary: str, environ: dict[str, str], work: str, patience: float) -> str:
    """Its version, in its own words; empty if it has none to say."""
    try:
        done = subprocess.run(
            [binary, "--version"],
            env=environ,
            cwd=work,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=patience,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return next((line for line in (done.stdout + done.stderr).splitlines() if numbers(line)), "")


def tell(line: dict[str, Any]) -> None:
    print(json.dumps(line), flush=True)


def _agent(adapter: str, binary: str, version: str, expected: Expected) -> dict[str, Any]:
    found = ".".join(map(str, numbers(version))) or None
    return {
        "adapter": adapter,
        "binary": binary,
        "agent_version": found,
        "measured_on": list(expected.versions),
    }


def main(given: Sequence[str]) -> int:
    if len(given) != 3 or sandbox.ROOM not in os.environ:
        print(__doc__, file=sys.stderr)
        return 2
    try:
        walk(given[0], given[1], float(given[2]))
    except (OSError, AgentctlError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
