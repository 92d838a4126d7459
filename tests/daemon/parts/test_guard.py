"""The guard of the files by which clients find the daemon."""

import shutil
import threading
from pathlib import Path

import pytest

from agentctl.daemon.parts import guard
from agentctl.daemon.parts.guard import Guard
from tests.waiting import DEADLINE


def test_it_looks_at_once_and_when_a_file_is_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guard, "SLOW", 3600.0)  # it is woken by the file
    home = tmp_path / "state"
    home.mkdir()
    files = [home / "daemon.lock", home / "daemon.sock"]
    for file in files:
        file.write_text("")
    calls = threading.Semaphore(0)

    def look() -> None:
        calls.release()

    part = Guard(tuple(map(str, files)), look)
    part.start()
    assert calls.acquire(timeout=DEADLINE)
    files[1].unlink()
    assert calls.acquire(timeout=DEADLINE)
    while calls.acquire(timeout=0.1):  # until it is quiet
        pass
    part.stop()
    shutil.rmtree(home)
