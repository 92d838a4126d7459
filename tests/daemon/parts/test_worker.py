"""A worker waits in one thread and works in others; it ends soon even if its work hangs."""

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agentctl.daemon.parts import worker as module
from agentctl.daemon.parts.worker import FileWaiter, OpenDatabase, Worker
from agentctl.errors import SourceError
from agentctl.state import db, journal, outbox
from tests.waiting import DEADLINE, until


@pytest.fixture
def waiter(tmp_path: Path) -> Iterator[FileWaiter]:
    waiter = FileWaiter((str(tmp_path / "a"), str(tmp_path / "later" / "b")))
    yield waiter
    waiter.close()


def start_wait(waiter: FileWaiter) -> threading.Thread:
    thread = threading.Thread(target=waiter.wait, args=(DEADLINE * 2,))
    thread.start()
    return thread


def test_a_wakeup_before_the_wait_ends_it(waiter: FileWaiter) -> None:
    waiter.wake()
    waiter.wake()
    thread = start_wait(waiter)
    thread.join(DEADLINE)
    assert not thread.is_alive()


def test_a_file_that_changes_wakes_and_another_does_not(waiter: FileWaiter, tmp_path: Path) -> None:
    thread = start_wait(waiter)
    (tmp_path / "other").write_text("x")
    thread.join(0.2)
    assert thread.is_alive()
    (tmp_path / "a").write_text("x")
    thread.join(DEADLINE)
    assert not thread.is_alive()


def test_a_directory_that_is_created_later_is_watched(waiter: FileWaiter, tmp_path: Path) -> None:
    thread = start_wait(waiter)
    (tmp_path / "later").mkdir()
    thread.join(DEADLINE)
    assert not thread.is_alive()
    thread = start_wait(waiter)
    waiter.wake()  # it looks again for the file's directory
    thread.join(DEADLINE)
    thread = start_wait(waiter)
    (tmp_path / "later" / "b").write_text("x")
    thread.join(DEADLINE)
    assert not thread.is_alive()


def test_a_wait_ends_after_its_time(waiter: FileWaiter) -> None:
    waiter.wait(0.01)
    waiter.wait(-1.0)


class CountingWorker(Worker[str]):
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
        self._threads["hangs"] = thread
        thread.start()


def test_a_file_wakes_it(tmp_path: Path) -> None:
    worker = CountingWorker(str(tmp_path / "file"))
    worker.start()
    until(lambda: worker.rounds == 1, "it waits")
    (tmp_path / "file").write_text("x")
    until(lambda: worker.rounds == 2, "it was woken")
    worker.stop()


def test_it_ends_though_a_thread_hangs(tmp_path: Path) -> None:
    worker = CountingWorker(str(tmp_path / "file"))
    worker.start()
    worker.hang()
    stopping = threading.Thread(target=worker.stop)
    stopping.start()
    stopping.join(DEADLINE)
    assert not stopping.is_alive()
    worker.hung.set()


class BreakingWorker(CountingWorker):
    def _run(self) -> None:
        if not self.rounds:
            self.rounds = 1
            raise KeyError("x")
        super()._run()

    def status(self) -> dict[str, Any]:
        return self._condition


def test_a_worker_that_breaks_begins_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "REST", 0.2)
    worker = BreakingWorker(str(tmp_path / "file"))
    worker.start()
    until(
        lambda: worker.status() == {"state": "failing", "problem": "KeyError: 'x'"},
        "the status shows it",
    )
    until(lambda: worker.rounds == 2, "it runs again")
    until(lambda: worker.status() == {}, "and is well")
    worker.stop()


def test_the_first_open_creates_the_database(tmp_path: Path) -> None:
    database = OpenDatabase(str(tmp_path / "state.db"))
    assert not database.is_current
    assert database.open()
    assert database.is_current
    assert not database.open()
    assert (tmp_path / "state.db-wal").exists()
    journal.append_events(str(tmp_path / "state.db"), [])
    assert (tmp_path / "state.db-wal").exists()  # ours is the last connection, and stays open
    database.close()
    assert not database.is_current


def test_it_can_be_read_until_it_is_deleted(tmp_path: Path) -> None:
    database = OpenDatabase(str(tmp_path / "state.db"))
    assert database.connection is None
    database.open()
    assert database.connection is not None
    assert outbox.list_lanes(str(tmp_path / "state.db"), 0.0, database.connection) == []
    (tmp_path / "state.db").unlink()
    assert database.connection is None
    database.close()


def test_a_deleted_database_is_not_created_again(tmp_path: Path) -> None:
    database = OpenDatabase(str(tmp_path / "state.db"))
    database.open()
    for file in tmp_path.iterdir():
        file.unlink()
    assert not database.is_current
    assert not database.open()
    assert list(tmp_path.iterdir()) == []
    with db.transaction(str(tmp_path / "state.db")):
        pass
    assert database.open()
    assert database.is_current
    database.close()


def test_a_file_that_is_no_database_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "state.db").write_text("no database at all, and much too long to be a short one" * 9)
    database = OpenDatabase(str(tmp_path / "state.db"))
    with pytest.raises(SourceError):
        database.open()
    assert not database.is_current
