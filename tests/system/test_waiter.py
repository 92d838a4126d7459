"""Waiting for a change or an end, without polling."""

import os
import select
import sqlite3
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from agentctl.errors import Gone
from agentctl.system.pidfd import Handle
from agentctl.system.sqlite import Database
from agentctl.system.waiter import Poll, Waker, Watch
from tests.fakes.stranger import Stranger
from tests.rooms import Room

LONG = 20.0


def append(path: Path) -> None:
    with path.open("a") as file:
        file.write("more\n")


def replace(path: Path) -> None:
    other = path.with_name("other")
    other.write_text("new")
    other.replace(path)


@pytest.mark.parametrize(
    "change", [append, replace, Path.unlink, lambda p: p.with_name("born").touch()],
    ids=["append", "replace", "delete", "create"],
)  # fmt: skip
def test_a_change_wakes_a_watch(tmp_path: Path, change: Callable[[Path], None]) -> None:
    path = tmp_path / "s.jsonl"
    path.write_text("first\n")
    with Watch([str(tmp_path)], []) as watch:
        assert not watch.wait(0)
        change(path)
        assert watch.wait(LONG)
        assert not watch.wait(0), "one change wakes once"


def test_a_change_wakes_a_sleeping_thread(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    path.touch()
    woken = threading.Event()
    with Watch([str(tmp_path)], []) as watch:

        def sleep() -> None:
            if watch.wait(LONG):
                woken.set()

        sleeper = threading.Thread(target=sleep)
        sleeper.start()
        append(path)
        assert woken.wait(LONG)
        sleeper.join()


def test_a_wait_of_months_does_not_overflow(tmp_path: Path) -> None:
    """In milliseconds this is more than poll accepts."""
    with Stranger("one", {"PATH": "/usr/bin:/bin"}, tmp_path) as one, Handle(one.identity) as handle:
        one.end()
        assert handle.wait(90 * 86400.0)
        with Watch([], [handle]) as watch:
            assert watch.wait(90 * 86400.0)


def test_many_changes_do_not_pile_up(tmp_path: Path) -> None:
    with Watch([str(tmp_path), str(tmp_path)], []) as watch:
        for number in range(500):
            (tmp_path / f"f{number}").touch()
        assert watch.wait(LONG)
        assert not watch.wait(0)


def test_the_end_of_a_process_wakes_a_watch(tmp_path: Path) -> None:
    with (
        Stranger("watched", {"PATH": "/usr/bin:/bin"}, tmp_path) as stranger,
        Handle(stranger.identity) as handle,
        Watch([str(tmp_path)], [handle]) as watch,
    ):
        assert not watch.wait(0)
        stranger.end()
        assert watch.wait(LONG)
        assert watch.wait(0), "it stays ended"


def test_a_database_wakes_when_it_is_written_and_not_when_it_is_read(tmp_path: Path) -> None:
    """SQLite opens a log for writing to read it: a reader that woke from that would never sleep."""
    path = tmp_path / "s.db"
    with closing(sqlite3.connect(path)) as writer, Watch() as watch:
        writer.execute("PRAGMA journal_mode = WAL")
        writer.execute("CREATE TABLE words (word)")
        for name in (path, f"{path}-wal"):
            watch.add_file(str(name))
        for _ in range(2):
            with Database(str(path)) as database:
                database.rows("SELECT * FROM words")
            assert not watch.wait(0)
            with writer:
                writer.execute("INSERT INTO words VALUES ('hello')")
            assert watch.wait(LONG)
            while watch.wait(0):  # the rest of that change
                pass


def test_a_missing_directory_leaves_no_descriptor(tmp_path: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(Gone):
        Watch([str(tmp_path), str(tmp_path / "none")], [])
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_closed_watch_leaves_no_descriptor(tmp_path: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    with Watch([str(tmp_path)], []):
        assert len(os.listdir("/proc/self/fd")) == before + 1
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_file_wakes_and_its_neighbours_do_not(tmp_path: Path) -> None:
    path = tmp_path / "mine.jsonl"
    path.touch()
    with Watch() as watch:
        assert watch.add_file(str(path)), "it is news"
        assert not watch.add_file(str(path)), "it is none any more"
        append(tmp_path / "theirs.jsonl")
        assert not watch.wait(0)
        for change in (append, replace, Path.unlink, append):
            change(path)
            assert watch.wait(LONG)
            while watch.wait(0):  # the rest of that change
                pass


def test_a_neighbour_does_not_shorten_the_wait(tmp_path: Path) -> None:
    """A change of another file wakes no wait."""
    woken: list[bool] = []
    with Watch() as watch:
        watch.add_file(str(tmp_path / "mine"))
        sleeper = threading.Thread(target=lambda: woken.append(watch.wait(LONG)))
        sleeper.start()
        for number in range(100):
            append(tmp_path / f"theirs {number % 3}")
        assert woken == []
        append(tmp_path / "mine")
        sleeper.join(LONG)
    assert woken == [True]


def test_a_file_in_a_future_directory_is_watched(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b" / "s.jsonl"
    with Watch() as watch:
        watch.add_file(str(path))
        for directory in (path.parent.parent, path.parent):
            directory.mkdir()
            assert watch.wait(LONG), f"{directory.name} has come"
            assert watch.add_file(str(path)), "a step nearer"
        assert not watch.wait(0)
        append(path)
        assert watch.wait(LONG)


def test_a_file_is_watched_after_its_directory_is_made_again(tmp_path: Path) -> None:
    path = tmp_path / "a" / "s.jsonl"
    path.parent.mkdir()
    with Watch() as watch:
        watch.add_file(str(path))
        path.parent.rmdir()
        assert watch.wait(LONG)
        assert watch.add_file(str(path)), "now its parent is watched"
        path.parent.mkdir()
        assert watch.wait(LONG)
        assert watch.add_file(str(path))
        append(path)
        assert watch.wait(LONG)


def test_a_file_behind_a_link_is_watched(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    with Watch() as watch:
        watch.add_file(str(tmp_path / "link" / "s.jsonl"))
        append(tmp_path / "real" / "s.jsonl")
        assert watch.wait(LONG)


def test_an_overflow_of_the_queue_wakes(tmp_path: Path) -> None:
    """The queue of the kernel is limited: a lost change may be ours."""
    limit = int(Path("/proc/sys/fs/inotify/max_queued_events").read_text())
    if limit > 1 << 16:
        pytest.skip(f"a queue of {limit} events takes too long to fill")
    with Watch() as watch:
        watch.add_file(str(tmp_path / "mine"))
        for number in range(limit // 2 + 2):
            (tmp_path / f"theirs {number % 2}").write_bytes(b"")
            (tmp_path / f"theirs {number % 2}").unlink()
        assert watch.wait(LONG)


LIMITED = """
import os, sys
from agentctl.system.waiter import Poll, Waker, Watch
what, place = sys.argv[1:]
limit(what, 0)
with Watch([place]) as watch:
    assert not watch.add_file(f"{place}/file")
    print(*sorted(watch.unwatched))
    assert not watch.wait(0)
    assert watch.wait(20), "it may have changed"
    assert watch.unwatched
    limit(what, 1000)
    assert watch.wait(20), "it may have changed, for the last time"
    print(*watch.unwatched)
    assert not watch.wait(0)
    open(f"{place}/file", "w").close()
    assert watch.wait(20)
"""


@pytest.mark.parametrize("what", ["max_inotify_instances", "max_inotify_watches"])
@pytest.mark.slow
def test_without_inotify_a_wait_ends_by_the_clock(what: str, tmp_path: Path) -> None:
    with Room() as room:
        room.limit(what, 0)
        output = room.python(LIMITED, what, str(tmp_path))
    assert output.split() == [str(tmp_path), f"{tmp_path}/file"]


def test_a_wait_for_processes_alone_takes_no_inotify_instance(tmp_path: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    with Watch():
        assert len(os.listdir("/proc/self/fd")) == before


def test_a_waker_is_ready_once_per_call() -> None:
    waker = Waker()
    ready = select.poll()
    ready.register(waker, select.POLLIN)
    assert ready.poll(0) == []
    waker.wake()
    waker.wake()
    assert ready.poll(0) != []
    waker.clear()
    waker.clear()
    assert ready.poll(0) == []
    waker.close()


def test_a_poll_returns_ready_descriptors_without_its_waker() -> None:
    poll, (reader, writer) = Poll(), os.pipe()
    poll.add(reader)
    assert poll.wait(0, 8) == []
    poll.wake()
    assert poll.wait(60, 8) == []  # returns at once: woken
    os.write(writer, b"x")
    poll.wake()
    assert poll.wait(60, 8) == [reader]
    poll.drop(reader)
    assert poll.wait(0, 8) == []
    poll.close()
    os.close(reader)
    os.close(writer)
