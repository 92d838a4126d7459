"""The agent in this room is the pinned one, called as people call it; and this is a room."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
from pathlib import Path

import pytest

from tests.real import pins

if not os.environ.get(pins.CHOSEN):
    pytest.skip("the real agents have their own run: make test-real", allow_module_level=True)


def test_the_agent_says_its_pinned_version(tmp_path: Path) -> None:
    agent = pins.chosen()
    assert agent is not None
    command = shutil.which(agent.command)
    assert command == str(agent.commands / agent.command), "another one comes first on the PATH"
    process = subprocess.run(
        [command, "--version"],
        env={"HOME": str(tmp_path), "PATH": os.environ["PATH"]},
        cwd=tmp_path,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    # pi-old prints it on standard error
    assert agent.version in (process.stdout + process.stderr).split()


def test_no_network_but_loopback_and_no_process_but_the_rooms() -> None:
    assert [name for _, name in socket.if_nameindex()] == ["lo"]
    one = Path("/proc/1/cmdline").read_bytes().split(b"\0")
    assert b"agentctl.rehearsal.sandbox" in one
