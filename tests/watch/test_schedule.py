"""When to look next: at once for an end, not too often for a session that writes all the time."""

from hypothesis import given
from hypothesis import strategies as st

from agentctl.system.inotify import POLL_INTERVAL
from agentctl.watch.schedule import AGAIN, NEVER, REST, SELDOM, WHOLE, YOUNG, Schedule


def look(schedule: Schedule, began: float, took: float, **others: bool) -> None:
    schedule.begin_look()
    flags = {"fresh": False, "doubtful": False, "nameless": False, **others}
    schedule.end_look(began, began + took, **flags)


def test_without_a_reason_there_is_no_look() -> None:
    schedule = Schedule()
    assert schedule.due == NEVER
    look(schedule, 10.0, 1.0)
    assert schedule.due == NEVER


def test_a_change_causes_one_look() -> None:
    schedule = Schedule()
    schedule.change_file(10.0, logged=False)
    assert schedule.due == 10.0
    look(schedule, 10.0, 0.001)
    assert schedule.due == NEVER


def test_a_change_of_a_database_causes_a_second_look() -> None:
    schedule = Schedule()
    schedule.change_file(10.0)
    schedule.change_file(10.0, logged=False)
    look(schedule, 10.0, 0.001)
    assert schedule.due == 10.001 + AGAIN
    look(schedule, 10.3, 0.001)
    assert schedule.due == NEVER


def test_a_record_that_is_being_written_delays_the_look_a_little() -> None:
    schedule = Schedule()
    schedule.change_record(10.0)
    assert schedule.due == 10.0 + WHOLE
    schedule.change_file(10.001, logged=False)
    assert schedule.due == 10.001


def test_a_look_is_followed_by_a_rest_except_at_an_end() -> None:
    schedule = Schedule()
    look(schedule, 10.0, 1.0)
    schedule.change_file(11.0)
    assert schedule.due == 11.0 + REST
    schedule.require_look(11.5)
    assert schedule.due == 11.5


def test_a_new_watch_causes_another_look() -> None:
    schedule = Schedule()
    look(schedule, 10.0, 0.5, fresh=True)
    assert schedule.due == 10.5


@given(st.integers(1, 60))
def test_looks_at_what_stays_unclear_become_rare(times: int) -> None:
    for kind, most in (("doubtful", SELDOM[0]), ("nameless", SELDOM[1])):
        schedule, pauses = Schedule(), []
        for _ in range(times):
            look(schedule, 10.0, 0.0, **{kind: True})
            pauses.append(schedule.due - 10.0)
        assert pauses == sorted(pauses)
        assert pauses[-1] <= most
        schedule.begin_look()
        schedule.require_look(10.0)
        schedule.start_process(10.0)
        look(schedule, 10.0, 0.0, **{kind: True})
        assert schedule.due - 10.0 == pauses[0]


def test_a_young_process_is_looked_at_several_times() -> None:
    """What it does with its server is in no file until the server has answered."""
    schedule = Schedule()
    schedule.start_process(10.0)
    pauses = []
    while schedule.due != NEVER:
        at = schedule.due
        look(schedule, at, 0.0)
        pauses.append(schedule.due - at)
    assert 3 < len(pauses) < 12
    assert sum(pauses[:-1]) >= YOUNG - 1


def test_files_without_a_watch_are_looked_at_at_an_interval() -> None:
    schedule = Schedule()
    look(schedule, 10.0, 0.0, unwatched=True)
    assert schedule.due == 10.0 + POLL_INTERVAL
    look(schedule, 11.0, 1.0, unwatched=True)
    assert schedule.due == 12.0 + REST
    look(schedule, 30.0, 0.0)
    assert schedule.due == NEVER
