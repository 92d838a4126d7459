"""When to look next: at once for an end, not too often for one that writes all the time."""

from hypothesis import given
from hypothesis import strategies as st

from agentctl.system.inotify import WITHOUT
from agentctl.watch.schedule import AGAIN, NEVER, REST, SELDOM, WHOLE, YOUNG, Rhythm


def looked(rhythm: Rhythm, began: float, took: float, **found: bool) -> None:
    rhythm.begins()
    given = {"fresh": False, "doubtful": False, "nameless": False, **found}
    rhythm.ended(began, began + took, **given)


def test_without_a_reason_never() -> None:
    rhythm = Rhythm()
    assert rhythm.due == NEVER
    looked(rhythm, 10.0, 1.0)
    assert rhythm.due == NEVER


def test_a_change_is_looked_at() -> None:
    rhythm = Rhythm()
    rhythm.changed(10.0, logged=False)
    assert rhythm.due == 10.0
    looked(rhythm, 10.0, 0.001)
    assert rhythm.due == NEVER


def test_a_database_is_looked_at_once_more_after_a_moment() -> None:
    rhythm = Rhythm()
    rhythm.changed(10.0)
    rhythm.changed(10.0, logged=False)
    looked(rhythm, 10.0, 0.001)
    assert rhythm.due == 10.001 + AGAIN
    looked(rhythm, 10.3, 0.001)
    assert rhythm.due == NEVER


def test_a_record_that_is_being_written_is_waited_for_but_not_for_ever() -> None:
    rhythm = Rhythm()
    rhythm.changing(10.0)
    assert rhythm.due == 10.0 + WHOLE
    rhythm.changed(10.001, logged=False)
    assert rhythm.due == 10.001


def test_after_a_look_we_rest_but_not_from_an_end() -> None:
    rhythm = Rhythm()
    looked(rhythm, 10.0, 1.0)
    rhythm.changed(11.0)
    assert rhythm.due == 11.0 + REST
    rhythm.now(11.5)
    assert rhythm.due == 11.5


def test_what_is_newly_watched_is_looked_at_again() -> None:
    rhythm = Rhythm()
    looked(rhythm, 10.0, 0.5, fresh=True)
    assert rhythm.due == 10.5


@given(st.integers(1, 60))
def test_what_stays_unclear_is_looked_at_less_and_less(times: int) -> None:
    for kind, most in (("doubtful", SELDOM[0]), ("nameless", SELDOM[1])):
        rhythm, pauses = Rhythm(), []
        for _ in range(times):
            looked(rhythm, 10.0, 0.0, **{kind: True})
            pauses.append(rhythm.due - 10.0)
        assert pauses == sorted(pauses)
        assert pauses[-1] <= most
        rhythm.begins()
        rhythm.now(10.0)
        rhythm.born(10.0)
        looked(rhythm, 10.0, 0.0, **{kind: True})
        assert rhythm.due - 10.0 == pauses[0]


def test_while_a_process_is_young_it_is_looked_at_again() -> None:
    """What it asks its server for shows nowhere until it is there."""
    rhythm = Rhythm()
    rhythm.born(10.0)
    pauses = []
    while rhythm.due != NEVER:
        at = rhythm.due
        looked(rhythm, at, 0.0)
        pauses.append(rhythm.due - at)
    assert 3 < len(pauses) < 12
    assert sum(pauses[:-1]) >= YOUNG - 1


def test_what_is_not_watched_is_looked_at_by_the_clock_and_no_more_than_a_look_may_cost() -> None:
    rhythm = Rhythm()
    looked(rhythm, 10.0, 0.0, unwatched=True)
    assert rhythm.due == 10.0 + WITHOUT
    looked(rhythm, 11.0, 1.0, unwatched=True)
    assert rhythm.due == 12.0 + REST
    looked(rhythm, 30.0, 0.0)
    assert rhythm.due == NEVER
