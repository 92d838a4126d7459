"""What a command costs: CPU time and peak memory, each beside a floor measured in the same breath.

CPU time, not wall time: the machine is shared. Interleaved with the floor: the clock of a loaded
machine drifts, and drifts for both.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

# A process of its own, as small as Python gets: a child's peak memory counts what its parent had
# when it was forked, and a benchmark has read a lot by then.
_METER = """
import json, os, sys
for line in sys.stdin:
    request = json.loads(line)
    opened = [(os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDONLY, 0)]
    for fd, path in ((1, request["out"]), (2, request["err"])):
        opened.append((os.POSIX_SPAWN_OPEN, fd, path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600))
    argv = request["argv"]
    pid = os.posix_spawn(argv[0], argv, request["environ"], file_actions=opened)
    _, status, used = os.wait4(pid, 0)
    code = os.waitstatus_to_exitcode(status)
    print(json.dumps([code, used.ru_utime + used.ru_stime, used.ru_maxrss]), flush=True)
"""


class Command(NamedTuple):
    argv: Sequence[str]
    environ: Mapping[str, str]
    before: Callable[[], None] | None = None  # what to do before each run, unmeasured


class Cost(NamedTuple):
    """Of one command over some rounds."""

    cpu: float  # seconds, user and system; the median
    least: float  # the same, of the best round
    memory: float  # MB, of the worst round


class Meter:
    """Runs commands and measures each. Use as a context manager."""

    def __enter__(self) -> Meter:
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", _METER],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate(timeout=60)

    def run(
        self, command: Command, *, out: str = "/dev/null", err: str = "/dev/null"
    ) -> tuple[float, float]:
        """(CPU seconds, peak MB) of one run."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        if command.before is not None:
            command.before()
        request = {"argv": list(command.argv), "environ": dict(command.environ), "out": out, "err": err}
        print(json.dumps(request), file=self._process.stdin, flush=True)
        answer = self._process.stdout.readline()
        if not answer:
            raise RuntimeError(f"the meter died while running {command.argv}")
        code, cpu, memory = json.loads(answer)
        if code != 0:
            raise RuntimeError(f"exit code {code} of {' '.join(command.argv)}")
        return cpu, memory / 1024

    def compare(self, commands: Mapping[str, Command], rounds: int) -> dict[str, Cost]:
        """The cost of each, run in turn `rounds` times, after one round that does not count."""
        costs: dict[str, list[tuple[float, float]]] = {name: [] for name in commands}
        for number in range(rounds + 1):
            for name, command in commands.items():
                used = self.run(command)
                if number:
                    costs[name].append(used)
        return {name: _cost(used) for name, used in costs.items()}


def _cost(used: Sequence[tuple[float, float]]) -> Cost:
    times = [cpu for cpu, _ in used]
    return Cost(statistics.median(times), min(times), max(memory for _, memory in used))
