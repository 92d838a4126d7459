"""Waits in one thread, works in others; ends soon, whatever hangs."""

import threading
from pathlib import Path
from typing import Any

import pytest

from agentctl.daemon.parts import worker as module
from agentctl.daemon.parts.worker import Hands
from tests.waiting import DEADLINE, until


class Counting(Hands[str]):
    name = "counting"

    def __init__(self, file: str) -> None:
        super().__init__(file)
        self.rounds = 0
        self.hung = threading.Event()

    def _run(self) -> None:
        while not self._stopping.is_set():
            self.rounds += 1
            self._pause(DEADLINE)

    def hang(self) -> None:
        thread = threading.Thread(target=self.hung.wait, args=(DEADLINE * 4,), daemon=True)
        self._working["hangs"] = thread
        thread.start()


def test_a_file_wakes_it(tmp_path: Path) -> None:
    hands = Counting(str(tmp_path / "file"))
    hands.start()
    until(lambda: hands.rounds == 1, "it waits")
    (tmp_path / "file").write_text("x")
    until(lambda: hands.rounds == 2, "it was woken")
    hands.stop()


def test_it_ends_though_somebody_hangs(tmp_path: Path) -> None:
    hands = Counting(str(tmp_path / "file"))
    hands.start()
    hands.hang()
    stopping = threading.Thread(target=hands.stop)
    stopping.start()
    stopping.join(DEADLINE)
    assert not stopping.is_alive()
    hands.hung.set()


class Breaking(Counting):
    def _run(self) -> None:
        if not self.rounds:
            self.rounds = 1
            raise KeyError("x")
        super()._run()

    def status(self) -> dict[str, Any]:
        return self._condition


def test_what_breaks_begins_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "REST", 0.2)
    hands = Breaking(str(tmp_path / "file"))
    hands.start()
    until(lambda: hands.status() == {"state": "failing", "problem": "KeyError: 'x'"}, "it says so")
    until(lambda: hands.rounds == 2, "it runs again")
    until(lambda: hands.status() == {}, "and is well")
    hands.stop()
