"""Take one installed agent through its states, in a sandbox, and print what agentctl shows of it.

    python -m agentctl.rehearsal ADAPTER PROGRAM SECONDS

One JSON object a line: first the agent, then each step as it happens. `agentctl doctor --live` starts
this program in a sandbox and shows its lines.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from typing import Any

from agentctl.errors import AgentctlError
from agentctl.light_typing import Sequence
from agentctl.rehearsal import recipe, sandbox
from agentctl.rehearsal.acts import Scene, play_at_terminal, play_launch
from agentctl.rehearsal.model.server import Model
from agentctl.rehearsal.signals import Expected, find_expected, parse_version
from agentctl.truth.visibility import ALONE


def rehearse_agent(adapter: str, binary: str, patience: float) -> None:
    """Play both acts with this agent and print the lines. Raises AgentctlError, OSError."""
    agent_recipe = recipe.recipe_for(adapter)
    # a short path: that of a Unix socket may have 107 bytes, and agents put theirs deep below home
    root = tempfile.mkdtemp(prefix="r", dir="/tmp")
    home, work = os.path.join(root, "home"), os.path.join(root, "work")
    for directory in (home, work):
        os.mkdir(directory)
    with Model() as model:
        place = recipe.Place(home, work, model.url)
        environ = {**recipe.make_environment(agent_recipe, place, os.environ["PATH"]), "PWD": work}
        os.environ.clear()  # from here on we look like a user with that home
        os.environ.update(environ)
        os.environ[ALONE] = "1"  # no process outside can reach this sandbox
        version = ask_version(binary, environ, work, patience)
        expected = find_expected(adapter, version)
        print_line(_describe_agent(adapter, binary, version, expected))
        scene = Scene(
            recipe=agent_recipe,
            expected=expected,
            binary=binary,
            work=work,
            environ=environ,
            model=model,
            patience=patience,
            show=print_line,
        )
        play_at_terminal(scene)
        play_launch(scene)


def ask_version(binary: str, environ: dict[str, str], work: str, patience: float) -> str:
    """Return the line in which the program prints its version; empty if it prints none."""
    try:
        result = subprocess.run(
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
    return next(
        (line for line in (result.stdout + result.stderr).splitlines() if parse_version(line)), ""
    )


def print_line(line: dict[str, Any]) -> None:
    print(json.dumps(line), flush=True)


def _describe_agent(adapter: str, binary: str, version: str, expected: Expected) -> dict[str, Any]:
    number = ".".join(map(str, parse_version(version))) or None
    return {
        "adapter": adapter,
        "binary": binary,
        "agent_version": number,
        "measured_on": list(expected.versions),
    }


def main(arguments: Sequence[str]) -> int:
    if len(arguments) != 3 or sandbox.IN_SANDBOX not in os.environ:
        print(__doc__, file=sys.stderr)
        return 2
    try:
        rehearse_agent(arguments[0], arguments[1], float(arguments[2]))
    except (OSError, AgentctlError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
