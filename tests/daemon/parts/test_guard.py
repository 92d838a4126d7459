"""Who looks after the files by which the daemon is found."""

import shutil
import threading
from pathlib import Path

import pytest

from agentctl.daemon.parts import guard
from agentctl.daemon.parts.guard import Guard
from tests.waiting import DEADLINE


def test_it_looks_at_once_and_whenever_a_file_goes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guard, "SLOW", 3600.0)  # what it sees, it was told
    home = tmp_path / "state"
    home.mkdir()
    files = [home / "daemon.lock", home / "daemon.sock"]
    for file in files:
        file.write_text("")
    looked = threading.Semaphore(0)

    def look() -> None:
        looked.release()

    part = Guard(tuple(map(str, files)), look)
    part.start()
    assert looked.acquire(timeout=DEADLINE)
    files[1].unlink()
    assert looked.acquire(timeout=DEADLINE)
    while looked.acquire(timeout=0.1):  # until it is quiet
        pass
    part.stop()
    shutil.rmtree(home)
