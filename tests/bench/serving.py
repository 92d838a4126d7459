"""What `list` costs where a daemon answers it: the CPU time of the client and of the daemon together,
beside that of the bare interpreter, in blocks that take turns."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from agentctl.system import clock
from tests.bench.measure import Command, Meter
from tests.waiting import until

BLOCK = 5  # calls in a row: the kernel tells a process's time in ticks of 10 ms
BLOCKS = 5


class Served(NamedTuple):
    """Milliseconds for each call."""

    client: float
    daemon: float  # all its work meanwhile, with its own watching
    bare: float

    @property
    def ours(self) -> float:
        return self.client + self.daemon


def measure(meter: Meter, agentctl: str, environ: Mapping[str, str], *, blocks: int = BLOCKS) -> Served:
    listing = Command([agentctl, "list"], environ)
    bare = Command([sys.executable, "-I", "-c", "pass"], environ)
    with run_daemon(environ) as daemon:
        check(agentctl, environ)
        until(lambda: is_settled(environ["HOME"]), "every file is old enough to be remembered")
        for command in (listing, bare, listing):
            meter.run(command)
        client, floor, daemon_seconds = [], [], 0.0
        for _ in range(blocks):
            floor += [meter.run(bare)[0] for _ in range(BLOCK)]
            before = read_cpu_seconds(daemon.pid)
            client += [meter.run(listing)[0] for _ in range(BLOCK)]
            daemon_seconds += read_cpu_seconds(daemon.pid) - before
        check(agentctl, environ)
    ms = 1000 / (blocks * BLOCK)
    return Served(sum(client) * ms, daemon_seconds * ms, statistics.mean(floor) * 1000)


@contextmanager
def run_daemon(environ: Mapping[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    """Run a daemon of this environment, for the block."""
    with subprocess.Popen(
        [sys.executable, "-m", "agentctl.daemon"],
        env=dict(environ),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as child:
        try:
            socket = f"{environ['AGENTCTL_HOME']}/daemon.sock"
            until(lambda: os.path.exists(socket) or child.poll() is not None, "the daemon listens")
            yield child
        finally:
            child.terminate()


def check(agentctl: str, environ: Mapping[str, str]) -> None:
    """Raise an error if the client looks itself: its cost would be another one."""
    ran = subprocess.run(
        [agentctl, "list"], env={**environ, "AGENTCTL_DEBUG": "1"}, capture_output=True, check=True
    )
    if ran.stderr:
        raise RuntimeError(f"not answered by the daemon: {ran.stderr.decode()}")


def read_cpu_seconds(pid: int) -> float:
    """Return the CPU seconds of the process, of all its threads together."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def is_settled(home: str) -> bool:
    latest = 0.0
    for directory, _, names in os.walk(home):
        for name in names:
            latest = max(latest, os.lstat(os.path.join(directory, name)).st_ctime)
    return latest < time.time() - clock.GRAIN
