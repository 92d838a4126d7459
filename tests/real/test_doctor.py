"""`agentctl doctor --live` on the real agent: on the versions that were measured, all is as expected.

Where an adapter has learned to read more, or less, this is red until `rehearsal/expected/` says so too.
A room within the room that this runs in.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.real.pins import chosen
from tests.running import SOURCES

PIN = chosen()
DEADLINE = 280.0  # seconds for all steps: OpenCode took up to 24 to draw its first screen
PATH = f"{os.path.dirname(sys.executable)}:/usr/local/bin:/usr/bin:/bin"


@pytest.mark.timeout(DEADLINE + 20)
def test_nothing_drifted(tmp_path: Path) -> None:
    assert PIN is not None
    process = subprocess.run(
        [
            sys.executable,
            "-m",
            "agentctl",
            "doctor",
            "--live",
            PIN.adapter,
            "--patience",
            "1m",
            "--json",
        ],
        env={"PATH": f"{PIN.commands}:{PATH}", "HOME": str(tmp_path), "PYTHONPATH": SOURCES},
        cwd=tmp_path,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=DEADLINE,
        check=False,
    )
    assert process.stderr == ""
    (agent,) = json.loads(process.stdout)["agents"]
    unexpected = [step for step in agent["steps"] if step["state"] != "as expected"]
    assert not unexpected, json.dumps(unexpected, indent=1)
    assert (agent["state"], process.returncode) == ("as expected", 0), agent["reason"]
    assert agent["agent_version"] == PIN.version
    assert PIN.version in agent["measured_on"], "measure it: rehearsal/expected/"
    assert list(tmp_path.iterdir()) == []
