"""A person's own command: a hook, a fuse's, a notification's. In a session of its own, so that no Ctrl-C
reaches it, and marked, so that whatever it starts is found and ended with it if it takes too long."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from typing import IO, BinaryIO

from agentctl.errors import SourceError
from agentctl.process.ours import HOOK
from agentctl.process.uproot import uproot
from agentctl.system.files import translated
from agentctl.system.proc import Process


def kept(folder: str, path: str, *, anew: bool = True) -> BinaryIO:
    """Where its output goes, for nobody else's eyes. The folder may have been cleared away meanwhile,
    which is no reason to run nothing. Raises SourceError."""
    how = os.O_TRUNC if anew else os.O_APPEND
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        return open(os.open(path, os.O_WRONLY | os.O_CREAT | how, 0o600), "wb" if anew else "ab")
    except OSError as error:
        raise translated(error, path) from error


def started(
    words: Sequence[str], cwd: str, environ: Mapping[str, str], marker: str, output: IO[bytes]
) -> subprocess.Popen[bytes]:
    """Raises OSError, ValueError."""
    return subprocess.Popen(
        words,
        cwd=cwd,
        env={**environ, HOOK: marker},
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )


def awaited(child: subprocess.Popen[bytes], marker: str, limit: float) -> int | None:
    """Its exit code, or minus the signal. None: it took too long, and was ended with all it started."""
    try:
        return child.wait(limit)
    except subprocess.TimeoutExpired:
        uproot(child.pid, lambda process: marked(process, marker))
        child.wait()
        return None


def marked(process: Process, marker: str) -> bool:
    try:
        return process.alive and process.environ().get(HOOK) == marker
    except SourceError:  # not ours, or gone
        return False
