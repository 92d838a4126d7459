"""How long `launch` takes to print the id, against the agent's own time to its id: wall time, because
that is what a user waits for, each in turn with its floor."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from agentctl.testing import Stage
from tests.fakes.demo import DemoStage

# Seconds before the demo agent has a session: with its own start it takes as long as Claude Code
# 2.1.325 takes to register, some 0.33 s. Codex takes 0.2 to 0.4, Pi 0.3 to 0.4, OpenCode 1.3 to 1.5.
LATE = "0.28"


class LaunchTimes(NamedTuple):
    ours: float
    own: float


def measure(root: Path, agentctl: str, rounds: int) -> LaunchTimes:
    """Medians, in seconds."""
    stage = DemoStage(root)
    environ = {**stage.environ, "PYTHONPATH": ":".join(p for p in sys.path if p)}
    ours, own = [], []
    try:
        for number in range(rounds):
            directory = root / f"work-{number}"
            directory.mkdir()
            program = [sys.executable, "-m", "agentctl.demo.agent", "--late", LATE, "work 600"]
            own.append(measure_first_line(program, environ, directory))
            words = [agentctl, "launch", "demo", "-p", "work 600", "--", "--late", LATE]
            ours.append(measure_first_line(words, environ, directory))
            end_agents(stage)
    finally:
        stage.close()
    return LaunchTimes(statistics.median(ours), statistics.median(own))


def measure_first_line(words: list[str], environ: Mapping[str, str], cwd: Path) -> float:
    began = time.perf_counter()
    with subprocess.Popen(words, env=environ, cwd=cwd, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        line = child.stdout.readline()
        took = time.perf_counter() - began
        if "launch" not in words:
            child.kill()  # our own child
        if not line.strip():
            raise RuntimeError(f"no id from {words}")
    return took


def end_agents(stage: Stage) -> None:
    """End the agents of this round, so that the next is measured in the same conditions."""
    stage.close()
