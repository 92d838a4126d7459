"""Run commands with a time limit. A command that takes too long is killed with its descendants.

A hook, the command of a fuse and a notification are commands of the user: they write to a file and carry
a marker in their environment, which finds descendants that have another parent by now. Each command
runs in a session of its own, so that Ctrl-C does not reach it and it cannot ask at the terminal.
"""

from __future__ import annotations

import os
import subprocess
from typing import IO, BinaryIO

from agentctl.errors import SourceError, TimedOut
from agentctl.light_typing import Callable, Iterator, Mapping, NamedTuple, Sequence
from agentctl.process.handles import kill_all
from agentctl.process.ours import HOOK
from agentctl.system.files import translate_error
from agentctl.system.proc import Process, ProcessIdentity
from agentctl.truth.look import Look


class CommandResult(NamedTuple):
    code: int  # or minus the signal
    out: bytes
    err: bytes


def run_command(
    words: Sequence[str], cwd: str, environ: Mapping[str, str], limit: float
) -> CommandResult:
    """Run a command without input and return its output. Raises OSError if it cannot be started,
    TimedOut after `limit` seconds."""
    child = subprocess.Popen(
        words,
        cwd=cwd,
        env=environ,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    try:
        out, err = child.communicate(timeout=limit)
    except subprocess.TimeoutExpired as error:
        raise TimedOut(f"{words[0]}: no answer in {limit:g} s") from error
    finally:
        if child.returncode is None:
            kill_tree(child.pid)
            child.wait()
        for stream in (child.stdout, child.stderr):
            if stream is not None:
                stream.close()
    return CommandResult(child.returncode, out, err)


def open_output(folder: str, path: str, *, append: bool = False) -> BinaryIO:
    """Open the file for a command's output, readable only by the user. Creates the folder, which may
    have been deleted. Raises SourceError."""
    flag = os.O_APPEND if append else os.O_TRUNC
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        return open(os.open(path, os.O_WRONLY | os.O_CREAT | flag, 0o600), "ab" if append else "wb")
    except OSError as error:
        raise translate_error(error, path) from error


def start_command(
    words: Sequence[str], cwd: str, environ: Mapping[str, str], marker: str, output: IO[bytes]
) -> subprocess.Popen[bytes]:
    """Start a marked command that writes to `output`. Raises OSError, ValueError."""
    return subprocess.Popen(
        words,
        cwd=cwd,
        env={**environ, HOOK: marker},
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )


def wait_for_command(child: subprocess.Popen[bytes], marker: str, limit: float) -> int | None:
    """Return the exit code of a marked command, or minus the signal. None: it took longer than `limit`
    seconds and was killed."""
    try:
        return child.wait(limit)
    except subprocess.TimeoutExpired:
        kill_tree(child.pid, lambda process: has_marker(process, marker))
        child.wait()
        return None


def has_marker(process: Process, marker: str) -> bool:
    """Return True if a command with this marker started the process and it lives."""
    try:
        return process.is_alive and process.environ().get(HOOK) == marker
    except SourceError:  # another user's process, or it has ended
        return False


def kill_tree(pid: int, belongs: Callable[[Process], bool] | None = None) -> None:
    """Kill a child process and its descendants. The child must not be reaped yet: until then its pid is
    its own. `belongs` finds descendants that have another parent by now."""

    def find(_: frozenset[ProcessIdentity]) -> Iterator[Process]:
        look = Look.take()
        child = look.table.get(pid)
        if child is not None:
            yield from (child, *look.find_descendants(child))
        if belongs is not None:
            yield from (
                process for process in look.table.values() if process.is_alive and belongs(process)
            )

    kill_all(find)
