"""agentctl run as a person runs it: the real command line, in an environment of its own."""

import fcntl
import json
import os
import pty
import select
import struct
import subprocess
import sys
import tempfile
import termios
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import agentctl
from agentctl.testing import Stage
from tests import zygote
from tests.waiting import DEADLINE

SOURCES = str(Path(agentctl.__file__).parent.parent)
STRANGER = 4242  # a uid that no passwd file knows

# For one who may not even read our interpreter: import all there is, become the stranger, then run.
_AS_STRANGER = """
import importlib, pkgutil, os, sys
import agentctl, ctypes, encodings.ascii, encodings.latin_1, fcntl, importlib.metadata
import pwd, select, sqlite3, unicodedata
for module in pkgutil.walk_packages(agentctl.__path__, "agentctl."):
    if not module.name.startswith("agentctl.testing"):
        importlib.import_module(module.name)
list(importlib.import_module("agentctl.doctor.checks").check_extras())  # it imports as it goes
os.setgroups([]); os.setgid({uid}); os.setuid({uid})
from agentctl.__main__ import main
sys.exit(main())
"""


class Ran(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        return self.out.splitlines()

    def json(self) -> dict[str, Any]:
        answer: dict[str, Any] = json.loads(self.out)
        return answer

    def lasting(self) -> dict[str, Any]:
        """The same, comparable with a later look: the start of a process is in time since boot, which
        comes out a millisecond more or less."""
        answer = self.json()
        for session in answer["sessions"]:
            for piece in session["evidence"]:
                piece["at"] = piece["at"] if piece["authority"] != "kernel" else None
        return answer


def environ_of(stage: Stage, **more: str) -> dict[str, str]:
    """For a process that is to see this stage and nothing else."""
    return {**stage.environ, "PYTHONPATH": SOURCES, "PYTHONDONTWRITEBYTECODE": "1", **more}


def agentctl_in(
    environ: Mapping[str, str], *words: str, cwd: str = "/", before: Sequence[str] = ()
) -> Ran:
    """Run to its end. Its output is kept as it was written, byte for byte. `before`: the words of a
    program that runs it, as `unshare` does."""
    if not before:
        code, out, err = zygote.run(words, environ, cwd, 60)
        return Ran(code, _text(out), _text(err))
    result = subprocess.run(
        [*before, sys.executable, "-m", "agentctl", *words],
        env=environ,
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=60,
        check=False,
    )
    return Ran(result.returncode, _text(result.stdout), _text(result.stderr))


def agentctl_of(stage: Stage, *words: str, **more: str) -> Ran:
    return agentctl_in(environ_of(stage, **more), *words, cwd=str(stage.root))


def agentctl_as_stranger(environ: Mapping[str, str], *words: str) -> Ran:
    """As a user without privilege and without a passwd entry. Only root can become one."""
    result = subprocess.run(
        [sys.executable, "-c", _AS_STRANGER.format(uid=STRANGER), *words],
        env={"PYTHONPATH": SOURCES, "PYTHONDONTWRITEBYTECODE": "1", **environ},
        cwd="/",
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=60,
        check=False,
    )
    return Ran(result.returncode, _text(result.stdout), _text(result.stderr))


@contextmanager
def kept_running(
    command: Sequence[str], environ: Mapping[str, str], cwd: Path, stdin: int = subprocess.DEVNULL
) -> Iterator[subprocess.Popen[bytes]]:
    """A program that goes on; ended when the test is done with it."""
    child = subprocess.Popen(
        command, env=environ, cwd=cwd, stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    try:
        yield child
    finally:
        child.kill()
        child.communicate()


def started(stage: Stage, *words: str, **more: str) -> AbstractContextManager[subprocess.Popen[bytes]]:
    """One that goes on; ended when the test is done with it."""
    command = [sys.executable, "-m", "agentctl", *words]
    return kept_running(command, environ_of(stage, **more), stage.root)


def read_until(child: subprocess.Popen[bytes], end: bytes) -> bytes:
    """What it writes, up to and with these bytes."""
    assert child.stdout is not None
    output = b""
    while end not in output:
        ready, _, _ = select.select([child.stdout], [], [], DEADLINE)
        more = os.read(child.stdout.fileno(), 1 << 16) if ready else b""
        if not more:
            how = "it goes on" if child.poll() is None else f"it ended with {child.returncode}"
            raise AssertionError(f"{end!r} did not come, and {how}; what came: {output!r}")
        output += more
    return output


def agentctl_on_a_terminal(
    stage: Stage, *words: str, columns: int = 80, lines: int = 24, **more: str
) -> Ran:
    """With a terminal of that size as its output; both streams come as one."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
    child = subprocess.Popen(
        [sys.executable, "-m", "agentctl", *words],
        env=environ_of(stage, **{"TERM": "xterm-256color", **more}),
        cwd=stage.root,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
    )
    os.close(theirs)
    output = b""
    try:
        while select.select([ours], [], [], DEADLINE)[0]:
            try:
                more_bytes = os.read(ours, 1 << 16)
            except OSError:  # EIO: the other end is closed
                break
            if not more_bytes:
                break
            output += more_bytes
        return Ran(child.wait(DEADLINE), _text(output).replace("\r\n", "\n"), "")
    finally:
        child.kill()
        child.wait()
        os.close(ours)


@contextmanager
def open_home() -> Iterator[Path]:
    """A temporary home that a stranger can reach, unlike pytest's own directories."""
    with tempfile.TemporaryDirectory(prefix="agentctl-test-") as directory:
        path = Path(directory).resolve()
        path.chmod(0o755)
        yield path


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "surrogateescape")
