"""The one place where git is run. It speaks English here, asks nobody anything, and is not led astray
by variables that an outer git left in our environment. What it refuses becomes a `SourceError` with
git's own words.

Reading runs none of the repository's hooks and takes none of its locks. Writing may find a lock taken:
several worktrees are made at once, and each writes to the one config file of their repository.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Mapping
from typing import NamedTuple

from agentctl.errors import AgentctlError, Gone, SourceError, Unsupported
from agentctl.process.uproot import uproot

READING = 60.0  # seconds: a first look at a large checkout on a cold disk
WRITING = 600.0  # a large checkout, written out
PATIENCE = 20.0  # how long somebody else's lock is waited for
BEAT = 0.02

# What git says when another git is at work; nobody tells when that one is done, so we ask again.
_BUSY = (
    "could not lock config file",
    "index.lock': File exists",
    "unable to create '",
    "cannot lock ref",
)
_FOR_GOOD = ("exists; cannot create", "already exists", "Permission denied", "Read-only file system")

# No hook, no file-system monitor (a command, too), no index format that is written beside the index.
_QUIETLY = (
    *("-c", "core.hooksPath=/dev/null"),
    *("-c", "core.fsmonitor=false"),
    *("-c", "core.splitIndex=false"),
    *("-c", "core.untrackedCache=false"),
)


class Ran(NamedTuple):
    code: int
    out: bytes
    err: str

    @property
    def text(self) -> str:
        """Names as the file system has them: bytes that are no UTF-8 come through."""
        return os.fsdecode(self.out)


def ask(
    directory: str,
    *words: str,
    environ: Mapping[str, str] | None = None,
    fine: tuple[int, ...] = (0,),
    timeout: float = READING,
) -> Ran:
    """Read. Raises SourceError unless git ends with one of the `fine` codes."""
    given = {"GIT_OPTIONAL_LOCKS": "0", "GIT_NO_LAZY_FETCH": "1", **(environ or {})}
    return _checked(directory, words, _run(directory, (*_QUIETLY, *words), given, timeout), fine)


def line(directory: str, *words: str, environ: Mapping[str, str] | None = None) -> str:
    """An answer of one line."""
    return ask(directory, *words, environ=environ).text.removesuffix("\n")


def yes(directory: str, *words: str) -> bool:
    """A question that git answers with 0 or 1."""
    return ask(directory, *words, fine=(0, 1)).code == 0


def change(directory: str, *words: str, fine: tuple[int, ...] = (0,)) -> Ran:
    """Write, with the repository's hooks, as its owner would. Raises SourceError."""
    deadline = time.monotonic() + PATIENCE
    pause = BEAT
    while True:
        ran = _run(directory, words, {}, WRITING)
        if ran.code in fine or not _busy(ran.err) or time.monotonic() > deadline:
            return _checked(directory, words, ran, fine)
        time.sleep(pause)  # a lock file sends no event to those who wait for it
        pause = min(pause * 2, 0.5)


def _busy(err: str) -> bool:
    return any(word in err for word in _BUSY) and not any(word in err for word in _FOR_GOOD)


def _checked(directory: str, words: tuple[str, ...], ran: Ran, fine: tuple[int, ...]) -> Ran:
    if ran.code in fine:
        return ran
    raise SourceError(f"git {words[0]} in {directory}", told(ran.err) or f"it ended with {ran.code}")


def told(err: str) -> str:
    """The line of git's complaint that matters."""
    lines = [part.strip() for part in err.splitlines() if part.strip()]
    fatal = [part for part in lines if part.startswith(("fatal:", "error:"))]
    return (fatal or lines or [""])[-1].removeprefix("fatal: ").removeprefix("error: ")


def _run(directory: str, words: tuple[str, ...], more: Mapping[str, str], timeout: float) -> Ran:
    if not os.path.isdir(directory):  # git's absence and the directory's are the same error to exec
        raise Gone(directory, "not a directory")
    try:
        child = subprocess.Popen(
            ["git", *words],
            cwd=directory,
            env={**_plain(os.environ), **more},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,  # without a terminal nothing that it starts can ask there
        )
    except FileNotFoundError as error:
        raise Unsupported("git", "not installed, or not on PATH") from error
    except OSError as error:
        raise AgentctlError(f"git cannot be run in {directory}: {error.strerror}") from error
    try:
        out, err = child.communicate(timeout=timeout)
    except subprocess.TimeoutExpired as error:
        raise SourceError(f"git {words[0]} in {directory}", f"no answer in {timeout:g} s") from error
    finally:
        _end(child)
    return Ran(child.returncode, out, os.fsdecode(err))


def _end(child: subprocess.Popen[bytes]) -> None:
    """With its filters and hooks, where it has not ended by itself."""
    if child.returncode is None:
        uproot(child.pid)
        child.wait()
    for stream in (child.stdout, child.stderr):
        if stream is not None:
            stream.close()


def _plain(environ: Mapping[str, str]) -> dict[str, str]:
    """Without GIT_DIR, GIT_INDEX_FILE and the like: called from a hook, we are not in its repository.
    Who commits (GIT_AUTHOR_NAME …) and whose settings count (GIT_CONFIG_GLOBAL …) stay."""
    keep = ("GIT_AUTHOR_", "GIT_COMMITTER_", "GIT_CONFIG_", "GIT_SSH", "GIT_TRACE", "GIT_CEILING_")
    kept = {k: v for k, v in environ.items() if not k.startswith("GIT_") or k.startswith(keep)}
    return {**kept, "LC_ALL": "C", "GIT_TERMINAL_PROMPT": "0", "GIT_EDITOR": ":", "GIT_PAGER": "cat"}
