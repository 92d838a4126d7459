"""Never fewer writes than there were; in quiet times, no more."""

from hypothesis import given
from hypothesis import strategies as st

from agentctl.system.inotify import News
from agentctl.watch.writes import Counts, Written

PLACE = (1, b"7.json")
MODIFY, CLOSE, MOVED_HERE = (News(*PLACE[:1], mask, PLACE[1]) for mask in (0x2, 0x8, 0x80))


def counts() -> Counts:
    made = Counts()
    made.keep([PLACE])
    return made


def test_what_nobody_has_read_yet_nobody_has_counted() -> None:
    made = counts()
    assert made.written(PLACE) == Written(None, 0.0)
    assert made.written((2, b"other")) is None
    made.was_read(PLACE, made.over(PLACE), 10.0)
    assert made.written(PLACE) == Written(0, 0.0)


def test_each_is_counted_with_when_the_first_may_have_been() -> None:
    made = counts()
    made.was_read(PLACE, 0, 10.0)
    made.hear([MODIFY, CLOSE], 11.0)
    assert made.written(PLACE) == Written(1, 11.0)
    made.hear([MOVED_HERE, News(2, 0x8, b"7.json")], 12.0)
    assert made.written(PLACE) == Written(2, 11.0)
    made.was_read(PLACE, made.over(PLACE), 13.0)
    assert made.written(PLACE) == Written(0, 0.0)


def test_one_that_is_under_way_counts() -> None:
    made = counts()
    made.was_read(PLACE, 0, 10.0)
    made.hear([MODIFY, CLOSE, MODIFY], 11.0)
    assert made.written(PLACE) == Written(2, 11.0)


def test_what_came_while_it_was_read_counts_the_next_time_too() -> None:
    made = counts()
    made.was_read(PLACE, 0, 10.0)
    over = made.over(PLACE)
    made.hear([MODIFY, CLOSE], 11.0)
    assert made.written(PLACE) == Written(1, 11.0)
    made.was_read(PLACE, over, 12.0)
    assert made.written(PLACE) == Written(1, 12.0)


def test_what_the_kernel_did_not_tell_nobody_counted() -> None:
    made = counts()
    made.was_read(PLACE, 0, 10.0)
    made.lost()
    assert made.written(PLACE) == Written(None, 0.0)


def test_only_what_is_kept_is_counted() -> None:
    made = counts()
    made.hear([CLOSE], 1.0)
    made.keep([PLACE, (2, b"x")])
    assert made.over(PLACE) == 1
    made.keep([])
    assert PLACE not in made
    assert made.over(PLACE) == 0
    made.was_read(PLACE, 0, 1.0)
    assert made.written(PLACE) is None


@given(st.lists(st.sampled_from("wdr")))
def test_two_that_were_not_read_are_never_one(steps: list[str]) -> None:
    """w: a write; d: the kernel's news are taken; r: the record is read, and told of."""
    made, queue, unread = counts(), list[News](), 0
    made.was_read(PLACE, 0, 0.0)
    for step in steps:
        if step == "w":
            queue += [MODIFY, CLOSE]
            unread += 1
        elif step == "d":
            made.hear(queue, 0.0)
            queue = []
        else:
            over, seen = made.over(PLACE), unread
            made.hear(queue, 0.0)  # the look's own
            queue = []
            written = made.written(PLACE)
            assert written is not None
            assert written.most is not None
            assert written.most >= seen
            made.was_read(PLACE, over, 0.0)
            unread = 0
