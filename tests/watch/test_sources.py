"""What is watched wakes, for whom it is watched; what is not, wakes nobody."""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentctl.errors import Exhausted, Forbidden
from agentctl.system.inotify import NO_INSTANCE, NO_WATCH
from agentctl.testing import Puppet
from agentctl.truth.model import Problem
from agentctl.watch.sources import NOTHING, Lookout, unwatched
from tests.fakes.demo import DemoStage
from tests.rooms import Room
from tests.waiting import until

SHORT, LONG = 0.05, 20.0


@pytest.fixture
def lookout() -> Iterator[Lookout]:
    made = Lookout()
    yield made
    made.close()


@pytest.fixture
def puppet(tmp_path: Path) -> Iterator[Puppet]:
    stage = DemoStage(tmp_path)
    yield stage.start()
    stage.close()


def test_a_file_wakes_those_who_watch_it(lookout: Lookout, tmp_path: Path) -> None:
    one, two = tmp_path / "a" / "one", tmp_path / "b" / "two"
    for path in (one, two):
        path.parent.mkdir()
        path.touch()
    assert lookout.attend("x", [str(one), str(two)], ())
    assert lookout.attend("y", [str(two)], ())
    assert not lookout.attend("y", [str(two)], ())
    one.write_text("1")
    assert lookout.wait(LONG).changed == {"x"}
    two.write_text("2")
    assert lookout.wait(LONG).changed == {"x", "y"}
    lookout.attend("x", [], ())
    one.write_text("3")
    two.write_text("3")
    assert lookout.wait(LONG).changed == {"y"}


def test_a_new_name_beside_it_wakes_too(lookout: Lookout, tmp_path: Path) -> None:
    (tmp_path / "one").touch()
    (tmp_path / "other").touch()
    lookout.attend("x", [str(tmp_path / "one")], ())
    (tmp_path / "other").write_text("of no interest")
    assert lookout.wait(SHORT).changed == frozenset()
    (tmp_path / "new").touch()
    assert lookout.wait(LONG).changed == {"x"}


def test_whatever_changes_in_a_directory_wakes_who_wants_that(lookout: Lookout, tmp_path: Path) -> None:
    (tmp_path / "other").touch()
    lookout.attend("x", [str(tmp_path / "*")], ())
    lookout.attend("y", [str(tmp_path / "one")], ())
    (tmp_path / "other").write_text("of interest to one of them")
    assert lookout.wait(LONG).changed == {"x"}


def test_a_file_whose_directory_is_yet_to_come(lookout: Lookout, tmp_path: Path) -> None:
    path = tmp_path / "deep" / "down" / "file"
    lookout.attend("x", [str(path)], ())
    path.parent.mkdir(parents=True)
    assert lookout.wait(LONG).changed == {"x"}
    assert lookout.attend("x", [str(path)], ())
    path.touch()
    assert lookout.wait(LONG).changed == {"x"}


def test_a_directory_that_goes_and_comes_back(lookout: Lookout, tmp_path: Path) -> None:
    path = tmp_path / "d" / "file"
    path.parent.mkdir()
    path.touch()
    lookout.attend("x", [str(path)], ())
    path.unlink()
    path.parent.rmdir()
    until(lambda: lookout.wait(SHORT).changed == {"x"}, "it is told")
    while lookout.wait(SHORT).changed:
        pass
    path.parent.mkdir()
    assert lookout.attend("x", [str(path)], ())
    path.touch()
    assert lookout.wait(LONG).changed == {"x"}


def test_each_write_of_a_record_is_counted(lookout: Lookout, tmp_path: Path) -> None:
    record, beside = tmp_path / "7.json", tmp_path / "7.jsonl"
    for path in (record, beside):
        path.write_text("{}")
    lookout.attend("x", [str(record), str(beside)], (), [str(record)])
    over = lookout.over("x")
    assert over == {str(record): 0}
    lookout.was_read("x", str(record), over[str(record)], 1.0)
    for text in ("1", "2", "3"):
        record.write_text(text)
    beside.write_text("of another kind")
    assert lookout.wait(LONG).changed == {"x"}
    written = lookout.written("x", str(record))
    assert written is not None
    assert written.most == 3
    assert lookout.written("x", str(beside)) is None
    assert lookout.written("y", str(record)) is None


def test_a_record_is_told_when_it_is_whole(lookout: Lookout, tmp_path: Path) -> None:
    record = tmp_path / "7.json"
    record.write_text("{}")
    lookout.attend("x", [str(record)], (), [str(record)])
    with record.open("w") as file:
        file.write("half")
        file.flush()
        happened = lookout.wait(LONG)
        assert not happened.changed
        assert happened.changing == {"x"}
    happened = lookout.wait(LONG)
    assert happened.changed == {"x"}
    assert not happened.changing
    new = tmp_path / "new"
    new.write_text("whole")
    lookout.wait(LONG)
    new.rename(record)
    assert lookout.wait(LONG).changed == {"x"}


def test_a_database_is_told_apart_from_what_is_there_when_it_is_written(
    lookout: Lookout, tmp_path: Path
) -> None:
    plain, log = tmp_path / "a" / "t.jsonl", tmp_path / "b" / "t.db-wal"
    for path in (plain, log):
        path.parent.mkdir()
        path.touch()
    lookout.attend("x", [str(plain)], ())
    lookout.attend("y", [str(log)], ())
    plain.write_text("1")
    happened = lookout.wait(LONG)
    assert happened.changed == {"x"}
    assert not happened.logged
    log.write_text("1")
    assert lookout.wait(LONG).logged == {"y"}


def test_who_opens_a_database_to_read_it_wakes_nobody(lookout: Lookout, tmp_path: Path) -> None:
    """SQLite opens the log for writing even to read it."""
    log = tmp_path / "t.db-wal"
    log.touch()
    lookout.attend("x", [str(log)], ())
    with log.open("r+b") as file:
        file.read()
    assert lookout.wait(SHORT).changed == frozenset()


def test_a_process_that_ends_wakes_once(lookout: Lookout, puppet: Puppet) -> None:
    assert lookout.attend("x", (), [puppet.identity])
    assert lookout.wait(SHORT).ended == frozenset()
    puppet.kill()
    assert lookout.wait(LONG).ended == {puppet.identity}
    assert lookout.wait(SHORT).ended == frozenset()
    handle = lookout.handle(puppet.identity)
    assert handle is not None
    assert handle.exit_code() in (-9, None)
    assert not lookout.attend("x", (), [puppet.identity])
    assert not lookout.attend("x", (), ())
    assert lookout.handle(puppet.identity) is None


def test_one_that_has_ended_before_is_news(lookout: Lookout, puppet: Puppet) -> None:
    puppet.kill()
    assert lookout.attend("x", (), [puppet.identity])
    assert not lookout.attend("x", (), [puppet.identity])


def test_another_thread_ends_the_wait(lookout: Lookout) -> None:
    threading.Thread(target=lookout.wake).start()
    assert lookout.wait(LONG) == NOTHING
    for _ in range(100_000):  # more than a pipe holds
        lookout.wake()
    lookout.wait(0)


LIMITED = """
import sys
from agentctl.truth.model import Problem
from agentctl.watch.sources import NOTHING, Lookout, unwatched
what, place = sys.argv[1:]
limit(what, 0)
lookout = Lookout()
assert not lookout.attend("x", [f"{place}/one", f"{place}/two"], ())
for problem in lookout.problems["x"]:
    print(problem.kind, problem.message)
limit(what, 1000)
assert lookout.attend("x", [f"{place}/one"], ())
assert lookout.problems["x"] == []
open(f"{place}/one", "w").close()
assert lookout.wait(20).changed == {"x"}
lookout.close()
"""


@pytest.mark.parametrize(
    ("what", "told"), [("max_inotify_instances", NO_INSTANCE), ("max_inotify_watches", NO_WATCH)]
)
def test_a_limit_is_one_problem_until_it_is_raised(what: str, told: str, tmp_path: Path) -> None:
    with Room() as room:
        room.limit(what, 0)
        assert room.python(LIMITED, what, str(tmp_path)) == f"exhausted {told}"


def test_a_limit_is_nobodys_own_and_of_no_one_file() -> None:
    limits = {unwatched(name, Exhausted(f"/{name}", NO_WATCH)) for name in ("demo", "pi")}
    assert limits == {Problem("", Exhausted.kind, NO_WATCH)}
    closed = unwatched("demo", Forbidden("/a", "closed"))
    assert closed == Problem("demo", Forbidden.kind, "closed", "/a")
