"""Run git. All other modules go through here.

git speaks English here, asks no questions, and ignores variables that an outer git left in our
environment. Its failures become a `SourceError` with its own message. Reading runs no hook of the
repository and takes no lock. Writing may meet a lock: several worktrees are created at once, and each
writes to the config file of their repository.
"""

from __future__ import annotations

import os
import time

from agentctl.errors import AgentctlError, Gone, SourceError, TimedOut, Unsupported
from agentctl.light_typing import Mapping, NamedTuple
from agentctl.process.limited import run_command

READ_LIMIT = 60.0  # seconds: a first look at a large checkout on a cold disk
WRITE_LIMIT = 600.0  # seconds: a large checkout
LOCK_WAIT = 20.0  # seconds to wait for another process's lock
FIRST_PAUSE = 0.02

# What git prints while another git works. No event says when that one is done, so we try again.
_BUSY = (
    "could not lock config file",
    "index.lock': File exists",
    "unable to create '",
    "cannot lock ref",
)
_PERMANENT = ("exists; cannot create", "already exists", "Permission denied", "Read-only file system")

# No hook, no file-system monitor (which is a command too), no index format that writes beside the index.
_READ_ONLY = (
    *("-c", "core.hooksPath=/dev/null"),
    *("-c", "core.fsmonitor=false"),
    *("-c", "core.splitIndex=false"),
    *("-c", "core.untrackedCache=false"),
)


class GitResult(NamedTuple):
    code: int
    out: bytes
    err: str

    @property
    def text(self) -> str:
        """File names as the file system has them, also if they are not UTF-8."""
        return os.fsdecode(self.out)


def read(
    directory: str,
    *words: str,
    environ: Mapping[str, str] | None = None,
    codes: tuple[int, ...] = (0,),
    timeout: float = READ_LIMIT,
) -> GitResult:
    """Run git without changing the repository. Raises SourceError unless it ends with one of `codes`."""
    variables = {"GIT_OPTIONAL_LOCKS": "0", "GIT_NO_LAZY_FETCH": "1", **(environ or {})}
    result = _run(directory, words, variables, timeout, options=_READ_ONLY)
    return _check(directory, words, result, codes)


def read_line(directory: str, *words: str, environ: Mapping[str, str] | None = None) -> str:
    """Return output of one line. Raises SourceError."""
    return read(directory, *words, environ=environ).text.removesuffix("\n")


def is_true(directory: str, *words: str) -> bool:
    """Return the answer of a command that ends with 0 or 1. Raises SourceError."""
    return read(directory, *words, codes=(0, 1)).code == 0


def write(directory: str, *words: str, codes: tuple[int, ...] = (0,)) -> GitResult:
    """Run git with the repository's hooks, as the user would. Raises SourceError."""
    deadline = time.monotonic() + LOCK_WAIT
    pause = FIRST_PAUSE
    while True:
        result = _run(directory, words, {}, WRITE_LIMIT)
        if result.code in codes or not _is_busy(result.err) or time.monotonic() > deadline:
            return _check(directory, words, result, codes)
        time.sleep(pause)  # a lock file sends no event when it goes
        pause = min(pause * 2, 0.5)


def find_reason(err: str) -> str:
    """Return the line of git's error output that matters."""
    lines = [part.strip() for part in err.splitlines() if part.strip()]
    fatal = [part for part in lines if part.startswith(("fatal:", "error:"))]
    return (fatal or lines or [""])[-1].removeprefix("fatal: ").removeprefix("error: ")


def _is_busy(err: str) -> bool:
    return any(word in err for word in _BUSY) and not any(word in err for word in _PERMANENT)


def _check(
    directory: str, words: tuple[str, ...], result: GitResult, codes: tuple[int, ...]
) -> GitResult:
    if result.code in codes:
        return result
    reason = find_reason(result.err) or f"it ended with {result.code}"
    raise SourceError(f"git {words[0]} in {directory}", reason)


def _run(
    directory: str,
    words: tuple[str, ...],
    more: Mapping[str, str],
    timeout: float,
    options: tuple[str, ...] = (),
) -> GitResult:
    if not os.path.isdir(directory):  # exec has the same error for a missing git
        raise Gone(directory, "not a directory")
    try:
        environ = {**_environ(os.environ), **more}
        result = run_command(["git", *options, *words], directory, environ, timeout)
    except FileNotFoundError as error:
        raise Unsupported("git", "not installed, or not on PATH") from error
    except OSError as error:
        raise AgentctlError(f"git cannot be run in {directory}: {error.strerror}") from error
    except TimedOut as error:
        raise SourceError(f"git {words[0]} in {directory}", f"no answer in {timeout:g} s") from error
    return GitResult(result.code, result.out, os.fsdecode(result.err))


def _environ(environ: Mapping[str, str]) -> dict[str, str]:
    """Drop GIT_DIR, GIT_INDEX_FILE and the like: a hook that calls agentctl has them for its own
    repository. Keep the author (GIT_AUTHOR_NAME …) and the settings (GIT_CONFIG_GLOBAL …)."""
    keep = ("GIT_AUTHOR_", "GIT_COMMITTER_", "GIT_CONFIG_", "GIT_SSH", "GIT_TRACE", "GIT_CEILING_")
    others = {k: v for k, v in environ.items() if not k.startswith("GIT_") or k.startswith(keep)}
    return {**others, "LC_ALL": "C", "GIT_TERMINAL_PROMPT": "0", "GIT_EDITOR": ":", "GIT_PAGER": "cat"}
