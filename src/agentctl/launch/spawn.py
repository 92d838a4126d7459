"""Starts a shim and speaks with it; `launch/shim/shim.py` draws the conversation."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence

from agentctl.errors import StartFailed, UsageError
from agentctl.launch.shim import shim
from agentctl.process import ours
from agentctl.system import proc
from agentctl.system.files import translated
from agentctl.system.identity import ProcessIdentity
from agentctl.truth import launched


class Child:
    """An agent's process, identified, that waits for our word before it becomes the agent."""

    def __init__(self, spec: bytes, environ: Mapping[str, str]) -> None:
        memory = os.memfd_create("agentctl-spec")  # never on a disk: the environment holds secrets
        report, report_in_shim = os.pipe()
        go_in_shim, go = os.pipe()
        self._report, self._go = open(report, "rb"), open(go, "wb", buffering=0)  # noqa: SIM115 - kept
        self._carried = open(os.memfd_create(launched.MEMORY), "wb", buffering=0)  # noqa: SIM115 - kept
        try:
            os.write(memory, spec)
            os.lseek(memory, 0, os.SEEK_SET)
            kept = self._carried.fileno()
            _start_shim((memory, report_in_shim, go_in_shim, kept), environ)
        except BaseException:
            self.release()
            raise
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
        return ProcessIdentity(proc.boot_id(), int(words[0]), int(words[1]))

    def go(self) -> None:
        """Let it be the agent. Raises StartFailed if it cannot."""
        told = self._report.readline().strip() if self._say(b"g") else b""
        if told != b"0":
            why = os.strerror(int(told)) if told.isdigit() else "its shim ended"
            raise StartFailed(f"the agent could not be started: {why}")

    def carry(self, told: launched.Carried) -> None:
        """Let the shim hold what is known of this launch, for as long as it lives: our notes may be
        deleted any time."""
        self._carried.write(told.line())

    def forget(self) -> None:
        """It failed to start: no finishing work."""
        self._say(b"x")
        self.release()

    def _say(self, word: bytes) -> bool:
        """Whether somebody was there to hear it."""
        try:
            return self._go.write(word) == len(word)
        except (OSError, ValueError):  # the shim has ended, or we have let go of it
            return False

    def release(self) -> None:
        """It is on its own from here, as it would be if we were killed."""
        self._go.close()
        self._report.close()
        self._carried.close()


def spec(
    folder: str,
    cwd: str,
    argv: Sequence[str],
    environ: Mapping[str, str],
    *,
    timeout: float | None,
    then: Sequence[str],
) -> bytes:
    """What the shim is told. `then`: the words that `finish` and `expire` are called with. Raises
    UsageError: a NUL ends a word of a command, and what comes after it would be taken for the next."""
    if any("\0" in word for word in (*argv, *environ, *environ.values())):
        raise UsageError("a NUL character in the agent's command or environment")
    return shim.Spec.written(
        folder,
        cwd,
        timeout or 0.0,
        (
            [os.fsencode(word) for word in argv],
            [os.fsencode(f"{name}={value}") for name, value in environ.items()],
            [os.fsencode(word) for word in ours.other(ours.FINISH, *then)],
            [os.fsencode(word) for word in ours.other(ours.EXPIRE, *then)],
        ),
    )


def _start_shim(descriptors: Sequence[int], environ: Mapping[str, str]) -> None:
    null = [(os.POSIX_SPAWN_OPEN, stream, os.devnull, os.O_RDWR, 0) for stream in (0, 1, 2)]
    first = max(*descriptors, 2) + 1  # none of them may be in another's place, or overwritten by it
    kept = [(os.POSIX_SPAWN_DUP2, fd, its) for its, fd in enumerate(descriptors, first)]
    try:
        os.posix_spawn(
            sys.executable,
            ours.shim(*(its for _, _, its in kept)),
            dict(environ),
            file_actions=[*kept, *null],  # ours may be at 0, 1 or 2, where the caller had closed these
            setsid=True,  # closing the terminal kills nothing
            # whatever we ignore or block, as one started by nohup does: it must hear of its children
            setsigmask=(),
            setsigdef=ours.ALL_SIGNALS,
        )
    except OSError as error:
        raise translated(error, sys.executable) from error
