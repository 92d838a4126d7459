"""Lengths of time as people write them."""

import pytest

from agentctl import durations
from agentctl.errors import UsageError


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90", 90), ("90s", 90), ("15m", 900), ("2h", 7200), ("7d", 604800), ("1w", 604800), ("0", 0)],
)
def test_seconds(text: str, seconds: float) -> None:
    assert durations.seconds(text) == seconds


@pytest.mark.parametrize(
    "text", ["", " ", "x", "-1", "-1h", "5y", "nan", "inf", "1e99", "9999999999", "h", "1 2"]
)
def test_not_a_length_of_time(text: str) -> None:
    with pytest.raises(UsageError, match="not a length of time"):
        durations.seconds(text)


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(-5, "0s"), (0, "0s"), (59.9, "59s"), (60, "1m"), (3599, "59m"), (3600, "1h"), (86400 * 9.9, "9d")],
)
def test_age(seconds: float, shown: str) -> None:
    assert durations.age(seconds) == shown


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(604800.0, "7d"), (5400.0, "90m"), (7200.0, "2h"), (90.0, "90s"), (0.0, "0s"), (1.5, "1.5s")],
)
def test_written_is_read_as_the_same(seconds: float, text: str) -> None:
    assert durations.written(seconds) == text
    assert durations.seconds(text) == seconds


@pytest.mark.parametrize(
    ("seconds", "told"),
    [(-1, "0s"), (0.2, "1s"), (59.5, "60s"), (61, "2m"), (3599, "1h"), (7199.9, "2h"), (7140, "1h 59m"),
     (86400 * 2 - 1, "2d"), (86400 + 3601, "1d 2h")],
)  # fmt: skip
def test_what_is_left(seconds: float, told: str) -> None:
    assert durations.left(seconds) == told
