"""Pauses grow up to an hour; a delivery is given up after a day of tries, not of waiting."""

from hypothesis import given
from hypothesis import strategies as st

from agentctl.deliver.policy import DAY, Policy
from agentctl.state.outbox import Delivery

POLICY = Policy()


def make_delivery(attempt: int, first_at: float | None) -> Delivery:
    return Delivery(
        "d", "webhook", "ci", None, 1, 0.0, 0.0, first_at, first_at, attempt, "pending", None, None
    )


@given(st.integers(1, 10_000), st.none() | st.floats(0, 1e9))
def test_a_pause_is_within_its_bounds(attempt: int, after: float | None) -> None:
    pause = POLICY.pause(attempt, after)
    assert 0 <= pause <= 3600
    assert pause >= min(after or 0, 3600)
    if after is None:
        assert pause <= 2.0 ** min(attempt - 1, 40)


def test_pauses_differ_and_grow() -> None:
    assert len({POLICY.pause(20) for _ in range(50)}) > 40
    assert max(POLICY.pause(1) for _ in range(200)) <= 1.0
    assert max(POLICY.pause(8) for _ in range(200)) > 32


@given(st.integers(1, 100), st.floats(0, 1e9), st.floats(0, 1e9))
def test_a_delivery_is_over_after_a_day_and_ten_tries(attempt: int, first_at: float, now: float) -> None:
    over = POLICY.is_over(make_delivery(attempt, first_at), now)
    assert over == (attempt >= 10 and now - first_at >= DAY)


def test_a_clock_that_is_set_back_gives_nothing_up() -> None:
    assert not POLICY.is_over(make_delivery(500, 1000.0 + DAY), 1000.0)
    assert not POLICY.is_over(make_delivery(500, None), 1e9)
