"""Waiting for a change or an end, without polling."""

import os
import sqlite3
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from agentctl.errors import Gone
from agentctl.system.pidfd import Handle
from agentctl.system.sqlite import Database
from agentctl.system.waiter import Watch
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
def test_a_change_wakes(tmp_path: Path, change: Callable[[Path], None]) -> None:
    path = tmp_path / "s.jsonl"
    path.write_text("first\n")
    with Watch([str(tmp_path)], []) as watch:
        assert not watch.wait(0)
        change(path)
        assert watch.wait(LONG)
        assert not watch.wait(0), "one change is told once"


def test_a_change_wakes_one_who_sleeps_already(tmp_path: Path) -> None:
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


def test_a_person_may_wait_for_months(tmp_path: Path) -> None:
    """In milliseconds that is more than poll takes."""
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


def test_the_end_of_a_process_wakes(tmp_path: Path) -> None:
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
    """To read its log, SQLite opens that for writing: one that looks when woken would never sleep."""
    path = tmp_path / "s.db"
    with closing(sqlite3.connect(path)) as writer, Watch() as watch:
        writer.execute("PRAGMA journal_mode = WAL")
        writer.execute("CREATE TABLE said (word)")
        for name in (path, f"{path}-wal"):
            watch.add_file(str(name))
        for _ in range(2):
            with Database(str(path)) as database:
                database.rows("SELECT * FROM said")
            assert not watch.wait(0)
            with writer:
                writer.execute("INSERT INTO said VALUES ('hello')")
            assert watch.wait(LONG)
            while watch.wait(0):  # the rest of that change
                pass


def test_a_directory_that_is_not_there(tmp_path: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(Gone):
        Watch([str(tmp_path), str(tmp_path / "none")], [])
    assert len(os.listdir("/proc/self/fd")) == before


def test_it_leaves_no_descriptor_behind(tmp_path: Path) -> None:
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
    """Woken by what concerns nobody, it sleeps on until what does."""
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


def test_a_file_in_a_directory_that_is_not_there_yet(tmp_path: Path) -> None:
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


def test_a_directory_that_goes_and_comes_again(tmp_path: Path) -> None:
    path = tmp_path / "a" / "s.jsonl"
    path.parent.mkdir()
    with Watch() as watch:
        watch.add_file(str(path))
        path.parent.rmdir()
        assert watch.wait(LONG)
        assert watch.add_file(str(path)), "now it is waited for one step above"
        path.parent.mkdir()
        assert watch.wait(LONG)
        assert watch.add_file(str(path))
        append(path)
        assert watch.wait(LONG)


def test_a_file_behind_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    with Watch() as watch:
        watch.add_file(str(tmp_path / "link" / "s.jsonl"))
        append(tmp_path / "real" / "s.jsonl")
        assert watch.wait(LONG)


def test_a_process_that_was_dropped_wakes_nobody(tmp_path: Path) -> None:
    with (
        Stranger("watched", {"PATH": "/usr/bin:/bin"}, tmp_path) as stranger,
        Handle(stranger.identity) as handle,
        Watch() as watch,
    ):
        watch.add_process(handle)
        stranger.end()
        assert watch.wait(LONG)
        watch.drop_process(handle)
        assert not watch.wait(0)


def test_too_much_at_once_wakes(tmp_path: Path) -> None:
    """The queue of the kernel has an end: what was lost may have been ours."""
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
from agentctl.system.waiter import Watch
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
def test_what_cannot_be_watched_is_looked_at_by_the_clock_until_it_can(
    what: str, tmp_path: Path
) -> None:
    with Room() as room:
        room.limit(what, 0)
        told = room.python(LIMITED, what, str(tmp_path))
    assert told.split() == [str(tmp_path), f"{tmp_path}/file"]


def test_a_wait_for_processes_alone_takes_no_inotify_instance(tmp_path: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    with Watch():
        assert len(os.listdir("/proc/self/fd")) == before
