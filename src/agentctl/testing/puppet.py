"""A fake agent, driven by a test: a real process, signalled only by its identity."""

from __future__ import annotations

import os
import select
import signal
import subprocess

from agentctl.errors import Gone
from agentctl.system import pidfd, proc
from agentctl.system.proc import ProcessIdentity

ALIAS = "PUPPET_ALIAS"  # the variable that holds the name of a renamed binary
DEADLINE = 20.0  # seconds a fake agent may take for one step, on a loaded machine


class Puppet:
    """`session_id` is the one that the program reports; the test knows what the puppet is doing."""

    def __init__(self, command: list[str], environ: dict[str, str], cwd: str) -> None:
        self._child = subprocess.Popen(
            command, env=environ, cwd=cwd, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        self.pid = self._child.pid
        self.cwd = cwd
        self.session_id: str | None = self._answer() or None
        self.identity: ProcessIdentity = proc.read_process(self.pid, proc.read_boot_id()).identity

    def do(self, step: str) -> None:
        """Have the puppet take a step. Returns when its native files are written."""
        self._send(step)
        self.session_id = self._answer() or None

    def finish(self, code: int = 0) -> None:
        """End the puppet cleanly."""
        self._send(f"exit {code}")
        self.reap()

    def kill(self, number: signal.Signals = signal.SIGKILL, *, reap: bool = True) -> None:
        """End the puppet by a signal. Without `reap` it stays a zombie, as if its parent did not
        wait."""
        try:
            with pidfd.Handle(self.identity) as handle:
                handle.signal(number)
                if not handle.wait(DEADLINE):
                    raise TimeoutError(f"{self.identity.address} survives {number.name}")
        except Gone:
            pass  # it had ended already
        if reap:
            self.reap()

    def reap(self) -> int:
        code = self._child.wait(DEADLINE)
        for stream in (self._child.stdin, self._child.stdout):
            if stream is not None:
                stream.close()
        return code

    @property
    def has_ended(self) -> bool:
        return self._child.returncode is not None

    def _send(self, line: str) -> None:
        assert self._child.stdin is not None
        self._child.stdin.write(line.encode() + b"\n")
        self._child.stdin.flush()

    def _answer(self) -> str:
        assert self._child.stdout is not None
        ready, _, _ = select.select([self._child.stdout], [], [], DEADLINE)
        line = os.read(self._child.stdout.fileno(), 4096) if ready else b""
        if not line:
            raise RuntimeError(f"the fake agent gave no answer: {self._child.args!r}")
        return line.decode().strip()
