"""Lengths of time as people write them."""

from agentctl.errors import UsageError

UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}


def seconds(text: str) -> float:
    """`90`, `90s`, `15m`, `2h`, `7d`, `1w`."""
    number, unit = (text[:-1], text[-1:]) if text[-1:] in UNITS else (text, "s")
    try:
        value = float(number) * UNITS[unit]
    except ValueError:
        value = -1.0
    if not 0 <= value < 1e10:  # also: nan
        raise UsageError(f"not a length of time: {text!r}", "examples: 90s, 15m, 2h, 7d")
    return value
