"""Lengths of time as people write them."""

import time

import pytest

from agentctl import durations
from agentctl.errors import UsageError


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90", 90), ("90s", 90), ("15m", 900), ("2h", 7200), ("7d", 604800), ("1w", 604800), ("0", 0)],
)
def test_seconds(text: str, seconds: float) -> None:
    assert durations.parse_duration(text) == seconds


@pytest.mark.parametrize(
    "text", ["", " ", "x", "-1", "-1h", "5y", "nan", "inf", "1e99", "9999999999", "h", "1 2"]
)
def test_not_a_length_of_time(text: str) -> None:
    with pytest.raises(UsageError, match="not a duration"):
        durations.parse_duration(text)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(-5, "0s"), (0, "0s"), (59.9, "59s"), (60, "1m"), (3599, "59m"), (3600, "1h"), (86400 * 9.9, "9d")],
)
def test_age(seconds: float, text: str) -> None:
    assert durations.format_age(seconds) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(604800.0, "7d"), (5400.0, "90m"), (7200.0, "2h"), (90.0, "90s"), (0.0, "0s"), (1.5, "1.5s")],
)
def test_a_formatted_duration_is_parsed_as_the_same(seconds: float, text: str) -> None:
    assert durations.format_duration(seconds) == text
    assert durations.parse_duration(text) == seconds


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(-1, "0s"), (0.2, "1s"), (59.5, "60s"), (61, "2m"), (3599, "1h"), (7199.9, "2h"), (7140, "1h 59m"),
     (86400 * 2 - 1, "2d"), (86400 + 3601, "1d 2h")],
)  # fmt: skip
def test_time_left(seconds: float, text: str) -> None:
    assert durations.format_time_left(seconds) == text


def test_an_age_is_read_as_a_moment() -> None:
    before = time.time()
    assert before - 3600 <= durations.parse_age("1h") <= time.time() - 3600
