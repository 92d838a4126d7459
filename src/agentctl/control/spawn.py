"""Starts a shim and speaks with it; `control/shim.py` draws the conversation."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Mapping, Sequence

import agentctl
from agentctl.control import shim
from agentctl.errors import StartFailed
from agentctl.truth import procfs
from agentctl.truth.files import translated
from agentctl.truth.model import ProcessIdentity

# Where the shim finds its three descriptors: far above any that we could have open ourselves.
SPEC, REPORT, GO = 200, 201, 202


class Child:
    """An agent's process, identified, that waits for our word before it becomes the agent."""

    def __init__(self, spec: bytes, environ: Mapping[str, str]) -> None:
        memory = os.memfd_create("agentctl-spec")  # never on a disk: the environment holds secrets
        report, report_in_shim = os.pipe()
        go_in_shim, go = os.pipe()
        self._report, self._go = open(report, "rb"), open(go, "wb", buffering=0)  # noqa: SIM115 - kept
        try:
            os.write(memory, spec)
            os.lseek(memory, 0, os.SEEK_SET)
            _start_shim({memory: SPEC, report_in_shim: REPORT, go_in_shim: GO}, environ)
        finally:
            for fd in (memory, report_in_shim, go_in_shim):
                os.close(fd)
        self.identity = self._identified()

    def _identified(self) -> ProcessIdentity:
        words = self._report.readline().split()
        if len(words) != 2:
            self.forget()
            raise StartFailed(
                "the shim ended before it had started anything", "is the machine out of memory?"
            )
        return ProcessIdentity(procfs.boot_id(), int(words[0]), int(words[1]))

    def go(self) -> None:
        """Let it be the agent. Raises StartFailed if it cannot."""
        self._go.write(b"g")
        told = self._report.readline().strip()
        if told != b"0":
            why = os.strerror(int(told)) if told.isdigit() else "its shim ended"
            self.forget()
            raise StartFailed(f"the agent could not be started: {why}")

    def forget(self) -> None:
        """It failed to start: no finishing work."""
        try:
            self._go.write(b"x")
        except OSError:  # the shim has ended
            pass
        self.release()

    def release(self) -> None:
        """It is on its own from here, as it would be if we were killed."""
        self._go.close()
        self._report.close()


def spec(
    folder: str,
    cwd: str,
    argv: Sequence[str],
    environ: Mapping[str, str],
    *,
    timeout: float | None,
    then: Sequence[str],
) -> bytes:
    """What the shim is told. `then`: the words that `finish` and `expire` are called with."""
    return shim.Spec.written(
        folder,
        cwd,
        timeout or 0.0,
        (
            [os.fsencode(word) for word in argv],
            [os.fsencode(f"{name}={value}") for name, value in environ.items()],
            _ourselves("finish", then),
            _ourselves("expire", then),
        ),
    )


def _ourselves(module: str, words: Sequence[str]) -> list[bytes]:
    """Another process of this very agentctl, wherever it was started from."""
    package = os.path.dirname(os.path.dirname(os.path.abspath(agentctl.__file__)))
    found = f"import sys; sys.path.insert(0, {package!r})"
    program = f"{found}; from agentctl.control.{module} import main; main()"
    return [os.fsencode(word) for word in (sys.executable, "-I", "-c", program, *words)]


def _start_shim(descriptors: Mapping[int, int], environ: Mapping[str, str]) -> None:
    null = [(os.POSIX_SPAWN_OPEN, stream, os.devnull, os.O_RDWR, 0) for stream in (0, 1, 2)]
    kept = [(os.POSIX_SPAWN_DUP2, ours, its) for ours, its in descriptors.items()]
    words = [sys.executable, "-I", "-S", shim.__file__, str(SPEC), str(REPORT), str(GO)]
    try:
        os.posix_spawn(
            sys.executable,
            words,
            dict(environ),
            file_actions=[*null, *kept],
            setsid=True,  # closing the terminal kills nothing
            setsigmask=(),
            setsigdef=(signal.SIGINT, signal.SIGPIPE, signal.SIGHUP),
        )
    except OSError as error:
        raise translated(error, sys.executable) from error
