"""Words that run a program in namespaces of its own, for root and for an ordinary user alike."""

from __future__ import annotations

import os
import shutil
import subprocess

import pytest


def unshare(*options: str) -> list[str]:
    """The command to put before a program; skips the test where the machine allows none. An ordinary
    user needs a user namespace around it, in which they are root."""
    if shutil.which("unshare") is None:
        pytest.skip("unshare(1) is not installed: no namespace can be made")
    command = words(*options)
    tried = subprocess.run([*command, "true"], capture_output=True, text=True, check=False)
    if tried.returncode != 0:
        pytest.skip(f"no namespace can be made here: {tried.stderr.strip()}")
    return command


def words(*options: str) -> list[str]:
    """The same command, not tried."""
    return ["unshare", *([] if os.geteuid() == 0 else ["--user", "--map-root-user"]), *options]


def pid_namespace() -> list[str]:
    """One with its own /proc, whose processes end with the command. The next pid can be chosen in it."""
    return unshare("--pid", "--fork", "--kill-child", "--mount-proc")
