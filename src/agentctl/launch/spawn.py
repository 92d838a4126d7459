"""Start a shim and talk to it. `launch/shim/shim.py` shows the conversation."""

from __future__ import annotations

import os
import sys

from agentctl.errors import StartFailed, UsageError
from agentctl.launch.shim import shim
from agentctl.light_typing import Mapping, Sequence
from agentctl.process import ours
from agentctl.system import proc
from agentctl.system.files import translate_error
from agentctl.system.proc import ProcessIdentity
from agentctl.system.this_process import make_memory_file
from agentctl.truth import launches


class Child:
    """A process with a known identity that waits for `go` before it becomes the agent."""

    def __init__(self, spec: bytes, environ: Mapping[str, str]) -> None:
        memory = make_memory_file("agentctl-spec")  # not on a disk: the environment holds secrets
        report, report_in_shim = os.pipe()
        go_in_shim, go = os.pipe()
        self._report, self._go = open(report, "rb"), open(go, "wb", buffering=0)  # noqa: SIM115 - stays open
        self._note = open(make_memory_file(launches.MEMORY), "wb", buffering=0)  # noqa: SIM115 - stays open
        try:
            os.write(memory, spec)
            os.lseek(memory, 0, os.SEEK_SET)
            _start_shim((memory, report_in_shim, go_in_shim, self._note.fileno()), environ)
        except BaseException:
            self.release()
            raise
        finally:
            for fd in (memory, report_in_shim, go_in_shim):
                os.close(fd)
        self.identity = self._read_identity()

    def _read_identity(self) -> ProcessIdentity:
        words = self._report.readline().split()
        if len(words) != 2:
            self.forget()
            raise StartFailed(
                "the shim ended before it started the agent", "is the machine out of memory?"
            )
        return ProcessIdentity(proc.read_boot_id(), int(words[0]), int(words[1]))

    def go(self) -> None:
        """Let the process become the agent. Raises StartFailed if it cannot."""
        report = self._report.readline().strip() if self._send(b"g") else b""
        if report != b"0":
            why = os.strerror(int(report)) if report.isdigit() else "its shim ended"
            raise StartFailed(f"the agent could not be started: {why}")

    def carry(self, note: launches.ShimNote) -> None:
        """Let the shim hold this note for as long as it lives: our database may be deleted any time."""
        self._note.write(note.to_line())

    def forget(self) -> None:
        """Tell the shim that the start failed, so that there is no finishing work."""
        self._send(b"x")
        self.release()

    def _send(self, word: bytes) -> bool:
        """Return True if the shim got the word."""
        try:
            return self._go.write(word) == len(word)
        except (OSError, ValueError):  # the shim has ended, or we have released it
            return False

    def release(self) -> None:
        """Leave the shim alone from here on, as if we were killed."""
        self._go.close()
        self._report.close()
        self._note.close()


def build_spec(
    folder: str,
    cwd: str,
    argv: Sequence[str],
    environ: Mapping[str, str],
    *,
    timeout: float | None,
    then: Sequence[str],
) -> bytes:
    """Return the spec for the shim. `then`: the arguments of `finish` and `expire`. Raises UsageError
    for a NUL, which would split a word in two."""
    if any("\0" in word for word in (*argv, *environ, *environ.values())):
        raise UsageError("a NUL character in the agent's command or environment")
    return shim.Spec.encode(
        folder,
        cwd,
        timeout or 0.0,
        (
            [os.fsencode(word) for word in argv],
            [os.fsencode(f"{name}={value}") for name, value in environ.items()],
            [os.fsencode(word) for word in ours.module_command(ours.FINISH, *then)],
            [os.fsencode(word) for word in ours.module_command(ours.EXPIRE, *then)],
        ),
    )


def _start_shim(descriptors: Sequence[int], environ: Mapping[str, str]) -> None:
    null = [(os.POSIX_SPAWN_OPEN, stream, os.devnull, os.O_RDWR, 0) for stream in (0, 1, 2)]
    first = max(*descriptors, 2) + 1  # above all of them, so that no dup2 overwrites another one
    copies = [(os.POSIX_SPAWN_DUP2, fd, copy) for copy, fd in enumerate(descriptors, first)]
    try:
        os.posix_spawn(
            sys.executable,
            ours.shim_command(*(copy for _, _, copy in copies)),
            dict(environ),
            # copies first: ours may be 0, 1 or 2, if the caller has closed these
            file_actions=[*copies, *null],
            setsid=True,  # so that closing the terminal kills nothing
            # The shim needs SIGCHLD even if we ignore or block signals, as under nohup.
            setsigmask=(),
            setsigdef=ours.ALL_SIGNALS,
        )
    except OSError as error:
        raise translate_error(error, sys.executable) from error
