"""Changes by the kernel: each reported once, by name, and the end of a watch too."""

import select
from pathlib import Path

import pytest

from agentctl.errors import Gone
from agentctl.system.files import NO_DESCRIPTOR
from agentctl.system.inotify import NO_INSTANCE, NO_WATCH, Inotify
from tests.rooms import Room
from tests.waiting import until


def list_names(inotify: Inotify) -> list[tuple[int, bytes]]:
    return [(news.watch, news.name) for news in inotify.read()]


def test_a_change_has_its_directory_and_name(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    inotify = Inotify()
    watch = inotify.add(str(tmp_path))
    assert inotify.add(str(tmp_path)) == watch
    assert inotify.read() == []
    (tmp_path / "file").write_text("more")
    assert select.select([inotify], [], [], 10)[0]
    assert set(list_names(inotify)) == {(watch, b"file")}
    inotify.close()


def test_a_new_name_is_distinguished_from_a_change(tmp_path: Path) -> None:
    (tmp_path / "old").touch()
    inotify = Inotify()
    inotify.add(str(tmp_path))
    (tmp_path / "old").write_text("x")
    (tmp_path / "new").touch()
    (tmp_path / "old").rename(tmp_path / "renamed")
    new_names = {news.name for news in inotify.read() if news.is_new_name}
    assert new_names == {b"new", b"renamed"}
    inotify.close()


def test_a_read_is_no_change(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    inotify = Inotify()
    inotify.add(str(tmp_path))
    (tmp_path / "file").read_text()
    assert inotify.read() == []
    inotify.close()


def test_closed_writes_are_reported_on_request(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    counting, other = Inotify(), Inotify()
    watch = counting.add(str(tmp_path), closings=True)
    assert counting.add(str(tmp_path)) == watch
    other.add(str(tmp_path))
    for text in "abc":
        (tmp_path / "file").write_text(text)
    (tmp_path / "file").rename(tmp_path / "moved")
    changes = counting.read()
    assert sum(news.is_closed for news in changes) == 3
    assert [news.name for news in changes if news.is_complete and not news.is_closed] == [b"moved"]
    assert not any(news.is_closed for news in other.read())
    counting.close()
    other.close()


def test_more_changes_than_one_buffer_holds_are_read(tmp_path: Path) -> None:
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

    def have_ended() -> bool:
        over.update(news.watch for news in inotify.read() if news.is_watch_end)
        return over == {one, two}

    until(have_ended, "both watches are over")
    inotify.close()


def test_a_missing_directory_is_gone(tmp_path: Path) -> None:
    inotify = Inotify()
    with pytest.raises(Gone):
        inotify.add(str(tmp_path / "none"))
    inotify.close()


LIMITED = """
import resource, sys
from agentctl.errors import Exhausted
from agentctl.system.inotify import Inotify
def report(make):
    try:
        make()
    except Exhausted as error:
        print(error.kind, error)
    else:
        print("nothing is wrong")
one = Inotify()
limit("max_inotify_watches", 0)
report(lambda: one.add("/tmp"))
limit("max_inotify_instances", 0)
report(Inotify)
limit("max_inotify_instances", 1000)
report(Inotify)
resource.setrlimit(resource.RLIMIT_NOFILE, (4, 4))
report(Inotify)
"""


def test_a_limit_is_named_and_is_no_full_disk() -> None:
    with Room() as room:
        room.limit("max_inotify_watches", 1000)  # skips the test where this is not possible
        assert room.python(LIMITED).splitlines() == [
            f"exhausted /tmp: {NO_WATCH}",
            f"exhausted inotify: {NO_INSTANCE}",
            "nothing is wrong",
            f"exhausted inotify: {NO_DESCRIPTOR}",
        ]
