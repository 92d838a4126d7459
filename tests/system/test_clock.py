"""Times as agents write them, and back."""

import datetime as dt
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentctl.system import clock

UTC = dt.UTC
MOMENTS = st.datetimes(dt.datetime(1970, 1, 1), dt.datetime(2200, 1, 1))  # noqa: DTZ001


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1970-01-01T00:00:00Z", 0.0),
        ("2026-11-15T04:53:22.382Z", 1794718402.382),
        ("2026-11-15T04:53:22.382123456Z", 1794718402.382123456),
        ("2026-11-15T05:53:22+01:00", 1794718402.0),
        ("2026-11-15T03:23:22-0130", 1794718402.0),
        ("2026-11-15 04:53:22", 1794718402.0),
        ("2024-02-29T12:00:00Z", 1709208000.0),
    ],
)
def test_times_are_parsed(text: str, seconds: float) -> None:
    assert clock.parse_time(text) == pytest.approx(seconds, abs=1e-6)


@pytest.mark.parametrize(
    "value",
    [None, 7, "", "yesterday", "2026-11-15", "2026-13-15T00:00:00Z", "2026-11-00T00:00:00Z",
     "2026-11-15T04:53:22+1", "2026-11-15T04:53:22 CET", "xxxx-11-15T04:53:22Z", [], {}],
)  # fmt: skip
def test_a_value_that_is_no_time_is_none(value: object) -> None:
    assert clock.parse_time(value) is None


@given(MOMENTS)
def test_a_formatted_time_is_parsed_to_the_same(moment: dt.datetime) -> None:
    seconds = moment.replace(tzinfo=UTC).timestamp()
    assert clock.parse_time(moment.isoformat(timespec="microseconds") + "Z") == pytest.approx(
        seconds, abs=1e-4
    )
    assert clock.parse_time(clock.format_rfc3339(seconds)) == pytest.approx(seconds, abs=1e-3)


@given(st.text(max_size=40))
def test_any_text_is_parsed_without_an_error(text: str) -> None:
    clock.parse_time(text)
    clock.parse_time("2026-11-15T04:53:22" + text)


@pytest.mark.parametrize(
    ("value", "seconds"),
    [(1794718402382, 1794718402.382), (0, 0.0), (True, None), ("1", None), (None, None)],
)
def test_milliseconds_are_parsed(value: object, seconds: float | None) -> None:
    assert clock.parse_ms(value) == seconds


@pytest.mark.parametrize("seconds", [None, 1e300, float("inf"), float("nan"), -1e300])
def test_an_impossible_time_is_not_formatted(seconds: float | None) -> None:
    assert clock.format_rfc3339(seconds) is None


def test_milliseconds_are_rounded_into_the_next_second() -> None:
    assert clock.format_rfc3339(0.9996) == "1970-01-01T00:00:01.000Z"


def test_the_boot_is_in_the_past_and_does_not_move() -> None:
    first, second = clock.boot_time(time.time()), clock.boot_time(time.time())
    assert first < time.time()
    assert abs(first - second) < 60  # not a timing: the same moment, read twice


@pytest.mark.parametrize(
    ("ago", "settled"), [(0.0, False), (clock.GRAIN / 2, False), (60.0, True), (-3600.0, True)]
)
def test_a_recent_time_stamp_is_not_settled(ago: float, settled: bool) -> None:
    """A file with a stamp in the future gets another one: the clock was set back since."""
    assert clock.is_settled(time.time() - ago) is settled


@pytest.mark.parametrize(
    "value", [10**400, -(10**400), 1e999, float("nan"), 10**15, True, "1", None, [1]]
)
def test_a_value_that_is_no_time_in_milliseconds_is_none(value: object) -> None:
    assert clock.parse_ms(value) is None
