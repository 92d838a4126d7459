"""A change wakes those that watch the file or process, and no others."""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentctl.errors import Exhausted, Forbidden
from agentctl.system.inotify import NO_INSTANCE, NO_WATCH, Change
from agentctl.testing import Puppet
from agentctl.truth.model import Problem
from agentctl.watch.sources import NOTHING, Sources, WriteCounts, Writes, watch_problem
from tests.fakes.demo import DemoStage
from tests.rooms import Room
from tests.waiting import until

SHORT, LONG = 0.05, 20.0


@pytest.fixture
def sources() -> Iterator[Sources]:
    sources = Sources()
    yield sources
    sources.close()


@pytest.fixture
def puppet(tmp_path: Path) -> Iterator[Puppet]:
    stage = DemoStage(tmp_path)
    yield stage.start()
    stage.close()


def test_a_file_wakes_those_that_watch_it(sources: Sources, tmp_path: Path) -> None:
    one, two = tmp_path / "a" / "one", tmp_path / "b" / "two"
    for path in (one, two):
        path.parent.mkdir()
        path.touch()
    assert sources.attend("x", [str(one), str(two)], ())
    assert sources.attend("y", [str(two)], ())
    assert not sources.attend("y", [str(two)], ())
    one.write_text("1")
    assert sources.wait(LONG).changed == {"x"}
    two.write_text("2")
    assert sources.wait(LONG).changed == {"x", "y"}
    sources.attend("x", [], ())
    one.write_text("3")
    two.write_text("3")
    assert sources.wait(LONG).changed == {"y"}


def test_a_new_name_beside_a_watched_file_wakes(sources: Sources, tmp_path: Path) -> None:
    (tmp_path / "one").touch()
    (tmp_path / "other").touch()
    sources.attend("x", [str(tmp_path / "one")], ())
    (tmp_path / "other").write_text("of no interest")
    assert sources.wait(SHORT).changed == frozenset()
    (tmp_path / "new").touch()
    assert sources.wait(LONG).changed == {"x"}


def test_a_new_name_does_not_wake_if_it_is_off(tmp_path: Path) -> None:
    sources = Sources(new_names=False)
    sources.attend("x", [str(tmp_path / "one")], ())
    (tmp_path / "new").touch()
    assert sources.wait(SHORT).changed == frozenset()
    (tmp_path / "one").touch()
    assert sources.wait(LONG).changed == {"x"}
    sources.close()


def test_any_change_in_a_directory_wakes_those_that_watch_it(sources: Sources, tmp_path: Path) -> None:
    (tmp_path / "other").touch()
    sources.attend("x", [str(tmp_path / "*")], ())
    sources.attend("y", [str(tmp_path / "one")], ())
    (tmp_path / "other").write_text("of interest to one of them")
    assert sources.wait(LONG).changed == {"x"}


def test_a_file_whose_directory_is_created_later_wakes(sources: Sources, tmp_path: Path) -> None:
    path = tmp_path / "deep" / "down" / "file"
    sources.attend("x", [str(path)], ())
    path.parent.mkdir(parents=True)
    assert sources.wait(LONG).changed == {"x"}
    assert sources.attend("x", [str(path)], ())
    path.touch()
    assert sources.wait(LONG).changed == {"x"}


def test_a_directory_that_is_deleted_and_created_again_wakes(sources: Sources, tmp_path: Path) -> None:
    path = tmp_path / "d" / "file"
    path.parent.mkdir()
    path.touch()
    sources.attend("x", [str(path)], ())
    path.unlink()
    path.parent.rmdir()
    until(lambda: sources.wait(SHORT).changed == {"x"}, "the deletion wakes")
    while sources.wait(SHORT).changed:
        pass
    path.parent.mkdir()
    assert sources.attend("x", [str(path)], ())
    path.touch()
    assert sources.wait(LONG).changed == {"x"}


def test_each_write_of_a_record_is_counted(sources: Sources, tmp_path: Path) -> None:
    record, beside = tmp_path / "7.json", tmp_path / "7.jsonl"
    for path in (record, beside):
        path.write_text("{}")
    sources.attend("x", [str(record), str(beside)], (), [str(record)])
    complete = sources.count_complete("x")
    assert complete == {str(record): 0}
    sources.mark_read("x", str(record), complete[str(record)], 1.0)
    for text in ("1", "2", "3"):
        record.write_text(text)
    beside.write_text("of another kind")
    assert sources.wait(LONG).changed == {"x"}
    writes = sources.writes_since_read("x", str(record))
    assert writes is not None
    assert writes.most == 3
    assert sources.writes_since_read("x", str(beside)) is None
    assert sources.writes_since_read("y", str(record)) is None


def test_a_record_wakes_when_it_is_complete(sources: Sources, tmp_path: Path) -> None:
    record = tmp_path / "7.json"
    record.write_text("{}")
    sources.attend("x", [str(record)], (), [str(record)])
    with record.open("w") as file:
        file.write("half")
        file.flush()
        wakeup = sources.wait(LONG)
        assert not wakeup.changed
        assert wakeup.changing == {"x"}
    wakeup = sources.wait(LONG)
    assert wakeup.changed == {"x"}
    assert not wakeup.changing
    new = tmp_path / "new"
    new.write_text("whole")
    sources.wait(LONG)
    new.rename(record)
    assert sources.wait(LONG).changed == {"x"}


def test_a_change_of_a_database_is_marked(sources: Sources, tmp_path: Path) -> None:
    plain, log = tmp_path / "a" / "t.jsonl", tmp_path / "b" / "t.db-wal"
    for path in (plain, log):
        path.parent.mkdir()
        path.touch()
    sources.attend("x", [str(plain)], ())
    sources.attend("y", [str(log)], ())
    plain.write_text("1")
    wakeup = sources.wait(LONG)
    assert wakeup.changed == {"x"}
    assert not wakeup.logged
    log.write_text("1")
    assert sources.wait(LONG).logged == {"y"}


def test_a_reader_of_a_database_causes_no_wakeup(sources: Sources, tmp_path: Path) -> None:
    """SQLite opens the log for writing even to read it."""
    log = tmp_path / "t.db-wal"
    log.touch()
    sources.attend("x", [str(log)], ())
    with log.open("r+b") as file:
        file.read()
    assert sources.wait(SHORT).changed == frozenset()


def test_a_process_that_ends_wakes_once(sources: Sources, puppet: Puppet) -> None:
    assert sources.attend("x", (), [puppet.identity])
    assert sources.wait(SHORT).ended_processes == frozenset()
    puppet.kill()
    assert sources.wait(LONG).ended_processes == {puppet.identity}
    assert sources.wait(SHORT).ended_processes == frozenset()
    handle = sources.handle(puppet.identity)
    assert handle is not None
    assert handle.exit_code() in (-9, None)
    assert not sources.attend("x", (), [puppet.identity])
    assert not sources.attend("x", (), ())
    assert sources.handle(puppet.identity) is None


def test_a_process_that_ended_before_is_news(sources: Sources, puppet: Puppet) -> None:
    puppet.kill()
    assert sources.attend("x", (), [puppet.identity])
    assert not sources.attend("x", (), [puppet.identity])


def test_another_thread_ends_the_wait(sources: Sources) -> None:
    threading.Thread(target=sources.wake).start()
    assert sources.wait(LONG) == NOTHING
    for _ in range(100_000):  # more than a pipe holds
        sources.wake()
    sources.wait(0)


LIMITED = """
import sys
from agentctl.truth.model import Problem
from agentctl.watch.sources import Sources
what, place = sys.argv[1:]
limit(what, 0)
sources = Sources()
assert not sources.attend("x", [f"{place}/one", f"{place}/two"], ())
for problem in sources.problems["x"]:
    print(problem.kind, problem.message)
limit(what, 1000)
assert sources.attend("x", [f"{place}/one"], ())
assert sources.problems["x"] == []
open(f"{place}/one", "w").close()
assert sources.wait(20).changed == {"x"}
sources.close()
"""


@pytest.mark.parametrize(
    ("what", "message"), [("max_inotify_instances", NO_INSTANCE), ("max_inotify_watches", NO_WATCH)]
)
def test_a_limit_is_one_problem_until_it_is_raised(what: str, message: str, tmp_path: Path) -> None:
    with Room() as room:
        room.limit(what, 0)
        assert room.python(LIMITED, what, str(tmp_path)) == f"exhausted {message}"


def test_a_limit_is_one_problem_without_an_adapter_or_a_file() -> None:
    limits = {watch_problem(name, Exhausted(f"/{name}", NO_WATCH)) for name in ("demo", "pi")}
    assert limits == {Problem("", Exhausted.kind, NO_WATCH)}
    closed = watch_problem("demo", Forbidden("/a", "closed"))
    assert closed == Problem("demo", Forbidden.kind, "closed", "/a")


PLACE = (1, b"7.json")
MODIFY, CLOSE, MOVED_HERE = (Change(*PLACE[:1], mask, PLACE[1]) for mask in (0x2, 0x8, 0x80))


@pytest.fixture
def counts() -> WriteCounts:
    counts = WriteCounts()
    counts.keep([PLACE])
    return counts


def test_the_writes_of_an_unread_record_are_unknown(counts: WriteCounts) -> None:
    assert counts.writes_since_read(PLACE) == Writes(None, 0.0)
    assert counts.writes_since_read((2, b"other")) is None
    counts.mark_read(PLACE, counts.count_complete(PLACE), 10.0)
    assert counts.writes_since_read(PLACE) == Writes(0, 0.0)


def test_writes_are_counted_with_the_time_of_the_first(counts: WriteCounts) -> None:
    counts.mark_read(PLACE, 0, 10.0)
    counts.add_changes([MODIFY, CLOSE], 11.0)
    assert counts.writes_since_read(PLACE) == Writes(1, 11.0)
    counts.add_changes([MOVED_HERE, Change(2, 0x8, b"7.json")], 12.0)
    assert counts.writes_since_read(PLACE) == Writes(2, 11.0)
    counts.mark_read(PLACE, counts.count_complete(PLACE), 13.0)
    assert counts.writes_since_read(PLACE) == Writes(0, 0.0)


def test_an_unfinished_write_counts(counts: WriteCounts) -> None:
    counts.mark_read(PLACE, 0, 10.0)
    counts.add_changes([MODIFY, CLOSE, MODIFY], 11.0)
    assert counts.writes_since_read(PLACE) == Writes(2, 11.0)


def test_a_write_during_a_read_counts_the_next_time_too(counts: WriteCounts) -> None:
    counts.mark_read(PLACE, 0, 10.0)
    complete = counts.count_complete(PLACE)
    counts.add_changes([MODIFY, CLOSE], 11.0)
    assert counts.writes_since_read(PLACE) == Writes(1, 11.0)
    counts.mark_read(PLACE, complete, 12.0)
    assert counts.writes_since_read(PLACE) == Writes(1, 12.0)


def test_after_lost_changes_the_writes_are_unknown(counts: WriteCounts) -> None:
    counts.mark_read(PLACE, 0, 10.0)
    counts.forget()
    assert counts.writes_since_read(PLACE) == Writes(None, 0.0)


def test_only_watched_records_are_counted(counts: WriteCounts) -> None:
    counts.add_changes([CLOSE], 1.0)
    counts.keep([PLACE, (2, b"x")])
    assert counts.count_complete(PLACE) == 1
    counts.keep([])
    assert PLACE not in counts
    assert counts.count_complete(PLACE) == 0
    counts.mark_read(PLACE, 0, 1.0)
    assert counts.writes_since_read(PLACE) is None


@given(st.lists(st.sampled_from("wdr")))
def test_two_unread_writes_never_count_as_one(steps: list[str]) -> None:
    """w: a write; d: the kernel's changes are read; r: the record is read, and its writes counted."""
    counts, queue, unread = WriteCounts(), list[Change](), 0
    counts.keep([PLACE])
    counts.mark_read(PLACE, 0, 0.0)
    for step in steps:
        if step == "w":
            queue += [MODIFY, CLOSE]
            unread += 1
        elif step == "d":
            counts.add_changes(queue, 0.0)
            queue = []
        else:
            complete, unread_before = counts.count_complete(PLACE), unread
            counts.add_changes(queue, 0.0)  # those that the look itself reads
            queue = []
            writes = counts.writes_since_read(PLACE)
            assert writes is not None
            assert writes.most is not None
            assert writes.most >= unread_before
            counts.mark_read(PLACE, complete, 0.0)
            unread = 0
