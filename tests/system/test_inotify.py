"""The kernel's news: told once, by name, and the end of a watch too."""

import select
from pathlib import Path

import pytest

from agentctl.errors import Gone
from agentctl.system.files import NO_DESCRIPTOR
from agentctl.system.inotify import NO_INSTANCE, NO_WATCH, Inotify
from tests.rooms import Room
from tests.waiting import until


def names(inotify: Inotify) -> list[tuple[int, bytes]]:
    return [(news.watch, news.name) for news in inotify.read()]


def test_a_change_is_told_by_its_directory_and_name(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    inotify = Inotify()
    watch = inotify.add(str(tmp_path))
    assert inotify.add(str(tmp_path)) == watch
    assert inotify.read() == []
    (tmp_path / "file").write_text("more")
    assert select.select([inotify], [], [], 10)[0]
    assert set(names(inotify)) == {(watch, b"file")}
    inotify.close()


def test_what_comes_is_told_apart_from_what_changes(tmp_path: Path) -> None:
    (tmp_path / "old").touch()
    inotify = Inotify()
    inotify.add(str(tmp_path))
    (tmp_path / "old").write_text("x")
    (tmp_path / "new").touch()
    (tmp_path / "old").rename(tmp_path / "renamed")
    came = {news.name for news in inotify.read() if news.came}
    assert came == {b"new", b"renamed"}
    inotify.close()


def test_what_is_read_only_is_no_news(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    inotify = Inotify()
    inotify.add(str(tmp_path))
    (tmp_path / "file").read_text()
    assert inotify.read() == []
    inotify.close()


def test_each_write_that_is_over_is_told_to_who_asks(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    counting, other = Inotify(), Inotify()
    watch = counting.add(str(tmp_path), closings=True)
    assert counting.add(str(tmp_path)) == watch
    other.add(str(tmp_path))
    for text in "abc":
        (tmp_path / "file").write_text(text)
    (tmp_path / "file").rename(tmp_path / "moved")
    told = counting.read()
    assert sum(news.closed for news in told) == 3
    assert [news.name for news in told if news.whole and not news.closed] == [b"moved"]
    assert not any(news.closed for news in other.read())
    counting.close()
    other.close()


def test_more_than_one_read_can_hold(tmp_path: Path) -> None:
    inotify = Inotify()
    inotify.add(str(tmp_path))
    for number in range(4000):
        (tmp_path / f"{number:0100d}").touch()
    assert len({news.name for news in inotify.read()}) == 4000
    inotify.close()


def test_a_watch_ends_with_its_directory_or_when_it_is_dropped(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    inotify = Inotify()
    one, two = inotify.add(str(tmp_path / "one")), inotify.add(str(tmp_path / "two"))
    inotify.drop(two)
    inotify.drop(two)  # nothing happens
    (tmp_path / "one").rmdir()
    over: set[int] = set()

    def both() -> bool:
        over.update(news.watch for news in inotify.read() if news.over)
        return over == {one, two}

    until(both, "both watches are over")
    inotify.close()


def test_no_such_directory(tmp_path: Path) -> None:
    inotify = Inotify()
    with pytest.raises(Gone):
        inotify.add(str(tmp_path / "none"))
    inotify.close()


LIMITED = """
import resource, sys
from agentctl.errors import Exhausted
from agentctl.system.inotify import Inotify
def told(make):
    try:
        make()
    except Exhausted as error:
        print(error.kind, error)
    else:
        print("nothing is wrong")
one = Inotify()
limit("max_inotify_watches", 0)
told(lambda: one.add("/tmp"))
limit("max_inotify_instances", 0)
told(Inotify)
limit("max_inotify_instances", 1000)
told(Inotify)
resource.setrlimit(resource.RLIMIT_NOFILE, (4, 4))
told(Inotify)
"""


def test_a_limit_that_is_reached_is_named_and_is_no_full_disk() -> None:
    with Room() as room:
        room.limit("max_inotify_watches", 1000)  # or it is said why this cannot be tested
        assert room.python(LIMITED).splitlines() == [
            f"exhausted /tmp: {NO_WATCH}",
            f"exhausted inotify: {NO_INSTANCE}",
            "nothing is wrong",
            f"exhausted inotify: {NO_DESCRIPTOR}",
        ]
