"""A user and mount namespace of its own, in which a test may lower limits and cover files of /proc.

Made as an ordinary user makes one (`unshare -U -r`), so it needs no root. Programs that run in it are
visible from outside, and end with the test.
"""

import shutil
import subprocess
import sys
from collections.abc import Mapping
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from agentctl.testing import Stage
from tests.running import SOURCES, Ran, environ_of, kept_running
from tests.waiting import DEADLINE

NAMESPACES = ("user", "mnt")
LIMIT = """
def limit(what, number):
    with open(f"/proc/sys/user/{what}", "w") as file:
        file.write(str(number))
"""


class Room:
    """Use as a context manager. Skips the test where the machine forbids it, and says why."""

    def __enter__(self) -> "Room":
        if shutil.which("unshare") is None or shutil.which("nsenter") is None:
            pytest.skip("no unshare or nsenter on this machine")
        self._keeper = subprocess.Popen(
            ["unshare", "-U", "-r", "-m", "sh", "-c", "echo ready; exec sleep infinity"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        assert self._keeper.stdout is not None
        if self._keeper.stdout.readline() != b"ready\n":
            _, err = self._keeper.communicate(timeout=DEADLINE)
            pytest.skip(f"no user namespace here: {err.decode().strip()}")
        return self

    def __exit__(self, *_: object) -> None:
        self._keeper.kill()
        self._keeper.communicate()

    def command(self, *words: str) -> list[str]:
        places = [
            f"--{name if name != 'mnt' else 'mount'}={self._namespace(name)}" for name in NAMESPACES
        ]
        return ["nsenter", *places, "--preserve-credentials", "--", *words]

    def run(self, *words: str, environ: Mapping[str, str] | None = None, cwd: str = "/") -> Ran:
        ran = subprocess.run(
            self.command(*words),
            env=environ,
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=45,
            check=False,
        )
        return Ran(ran.returncode, ran.stdout.decode(), ran.stderr.decode())

    def agentctl(self, stage: Stage, *words: str, **more: str) -> Ran:
        """As a person in this room runs it."""
        command = (sys.executable, "-m", "agentctl", *words)
        return self.run(*command, environ=_environ_of(stage, **more), cwd=str(stage.root))

    def python(self, program: str, *words: str) -> str:
        """What it prints. It may set limits itself, by `limit(WHAT, NUMBER)`."""
        environ = {"PATH": "/usr/bin:/bin", "PYTHONPATH": SOURCES, "PYTHONDONTWRITEBYTECODE": "1"}
        ran = self.run(sys.executable, "-c", LIMIT + program, *words, environ=environ)
        assert ran.code == 0, ran.err
        return ran.out.strip()

    def started(
        self, stage: Stage, *words: str, **more: str
    ) -> AbstractContextManager["subprocess.Popen[bytes]"]:
        """An interpreter with these words that goes on; ended when the test is done with it."""
        command = self.command(sys.executable, *words)
        return kept_running(command, _environ_of(stage, **more), stage.root, subprocess.PIPE)

    def limit(self, what: str, number: int) -> None:
        """Of this namespace, such as `max_inotify_instances`. Skips the test where that is forbidden."""
        place = f"/proc/sys/user/{what}"
        ran = self.run("sh", "-c", f"echo {number} > {place}")
        if ran.code:
            pytest.skip(f"{place} cannot be set here: {ran.err.strip()}")

    def cover(self, file: str, content: Path) -> None:
        """Bind `content` over a file, such as /proc/loadavg. Skips the test where that is forbidden."""
        ran = self.run("mount", "--bind", str(content), file)
        if ran.code:
            pytest.skip(f"{file} cannot be covered here: {ran.err.strip()}")

    def _namespace(self, name: str) -> str:
        return f"/proc/{self._keeper.pid}/ns/{name}"


def _environ_of(stage: Stage, **more: str) -> dict[str, str]:
    """From inside, processes of other tests show, but their settings are withheld."""
    return environ_of(stage, AGENTCTL_ALONE="1", **more)
