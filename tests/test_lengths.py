"""Lengths of time as people write them."""

import pytest

from agentctl import lengths
from agentctl.errors import UsageError


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90", 90), ("90s", 90), ("15m", 900), ("2h", 7200), ("7d", 604800), ("1w", 604800), ("0", 0)],
)
def test_seconds(text: str, seconds: float) -> None:
    assert lengths.seconds(text) == seconds


@pytest.mark.parametrize("text", ["", " ", "x", "-1", "-1h", "5y", "nan", "inf", "1e99", "h", "1 2"])
def test_not_a_length_of_time(text: str) -> None:
    with pytest.raises(UsageError, match="not a length of time"):
        lengths.seconds(text)
