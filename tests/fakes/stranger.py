"""A process that is no agent at all, or one of an agent that exists only in a test: it has a name,
an environment and a directory, and does nothing."""

import signal
import subprocess
import sys
from pathlib import Path

from agentctl.errors import Gone
from agentctl.system import pidfd, proc
from agentctl.system.proc import Process, ProcessIdentity

PROGRAM = """
import sys
with open("/proc/self/comm", "w") as comm:
    comm.write(sys.argv[1])
print("ready", flush=True)
sys.stdin.read()
"""


class Stranger:
    """Use as a context manager: it ends with the block."""

    def __init__(self, comm: str, environ: dict[str, str], cwd: Path, *words: str) -> None:
        self._child = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, comm, *words],
            env=environ,
            cwd=cwd,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert self._child.stdout is not None
        assert self._child.stdout.readline() == b"ready\n"

    def __enter__(self) -> "Stranger":
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    @property
    def pid(self) -> int:
        return self._child.pid

    @property
    def process(self) -> Process:
        """As the kernel describes it now. Raises Gone."""
        return proc.read_process(self.pid, proc.read_boot_id())

    @property
    def identity(self) -> ProcessIdentity:
        return self.process.identity

    def end(self, *, reap: bool = True) -> None:
        if self._child.returncode is not None:
            return
        try:
            with pidfd.Handle(self.identity) as handle:
                handle.signal(signal.SIGKILL)
                assert handle.wait(20.0)
        except Gone:
            pass
        if reap:
            self._child.wait(20.0)
            for stream in (self._child.stdin, self._child.stdout):
                assert stream is not None
                stream.close()
