"""How long `stop` of an idle agent takes, against the least that would end it: an interpreter that opens
the process, signals it and waits for its end. Wall time, because that is what a user waits for, each
in turn with its floor."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from tests.fakes.demo import DemoStage

_LEAST = """
import os, select, signal, sys
fd = os.pidfd_open(int(sys.argv[1]))
signal.pidfd_send_signal(fd, signal.SIGINT)
select.select([fd], [], [])
"""


class StopTimes(NamedTuple):
    ours: float
    least: float


def measure(root: Path, agentctl: str, rounds: int) -> StopTimes:
    """Medians, in seconds."""
    stage = DemoStage(root)
    ours, least = [], []
    try:
        for _ in range(rounds):
            agent = start_idle_agent(stage)
            least.append(
                measure_seconds([sys.executable, "-I", "-c", _LEAST, str(agent[0])], stage.environ)
            )
            agent = start_idle_agent(stage)
            ours.append(measure_seconds([agentctl, "stop", agent[1]], stage.environ))
            stage.close()
    finally:
        stage.close()
    return StopTimes(statistics.median(ours), statistics.median(least))


def start_idle_agent(stage: DemoStage) -> tuple[int, str]:
    puppet = stage.start()
    puppet.do("work")
    puppet.do("rest")
    assert puppet.session_id is not None
    return puppet.pid, puppet.session_id


def measure_seconds(words: list[str], environ: Mapping[str, str]) -> float:
    began = time.perf_counter()
    subprocess.run(words, env=environ, stdout=subprocess.DEVNULL, check=True)
    return time.perf_counter() - began
