"""Durations: parse and format lengths of time."""

import time

from agentctl.errors import UsageError

UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}
LONGEST = 1e9  # seconds, 31 years: the kernel's timers accept no more than nine times that


def parse_duration(text: str) -> float:
    """Return the seconds of `90`, `90s`, `15m`, `2h`, `7d` or `1w`. Raises UsageError."""
    number, unit = (text[:-1], text[-1:]) if text[-1:] in UNITS else (text, "s")
    try:
        value = float(number) * UNITS[unit]
    except ValueError:
        value = -1.0
    if not 0 <= value < LONGEST:  # nan fails this too
        raise UsageError(f"not a duration: {text!r}", "examples: 90s, 15m, 2h, 7d")
    return value


def parse_age(text: str) -> float:
    """Return the moment that was this long ago. Raises UsageError."""
    return time.time() - parse_duration(text)


def format_age(seconds: float) -> str:
    """Return `3s`, `12m`, `5h` or `9d`: one unit, rounded down."""
    for unit, size in (("d", 86400), ("h", 3600), ("m", 60)):
        if seconds >= size:
            return f"{int(seconds // size)}{unit}"
    return f"{max(0, int(seconds))}s"


def format_time_left(seconds: float) -> str:
    """Return `45s`, `12m`, `1h 59m` or `3d 2h`: rounded up, with two units, because `1h` for two hours
    would surprise."""
    whole_seconds = -int(-max(0.0, seconds) // 1)
    if whole_seconds <= 60:
        return f"{whole_seconds}s"
    minutes = -(-whole_seconds // 60)
    if minutes < 60:
        return f"{minutes}m"
    big, small, units = (minutes // 60, minutes % 60, "hm")
    if big >= 24:
        hours = -(-minutes // 60)
        big, small, units = (hours // 24, hours % 24, "dh")
    return f"{big}{units[0]}" + (f" {small}{units[1]}" if small else "")


def format_duration(seconds: float) -> str:
    """Return the exact duration as `parse_duration` reads it: `7d`, `90m`, `1.5s`."""
    for unit in ("d", "h", "m"):
        if seconds and seconds % UNITS[unit] == 0:
            return f"{seconds / UNITS[unit]:.0f}{unit}"
    return f"{seconds:.10g}s"
