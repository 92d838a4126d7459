"""Lengths of time as people write them."""

from agentctl.errors import UsageError

UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}
LONGEST = 1e9  # seconds, 31 years: the kernel's timers take no more than nine times that


def seconds(text: str) -> float:
    """`90`, `90s`, `15m`, `2h`, `7d`, `1w`."""
    number, unit = (text[:-1], text[-1:]) if text[-1:] in UNITS else (text, "s")
    try:
        value = float(number) * UNITS[unit]
    except ValueError:
        value = -1.0
    if not 0 <= value < LONGEST:  # also: nan
        raise UsageError(f"not a length of time: {text!r}", "examples: 90s, 15m, 2h, 7d")
    return value


def age(seconds: float) -> str:
    """`3s`, `12m`, `5h`, `9d`: one unit, always rounded down."""
    for unit, size in (("d", 86400), ("h", 3600), ("m", 60)):
        if seconds >= size:
            return f"{int(seconds // size)}{unit}"
    return f"{max(0, int(seconds))}s"


def left(seconds: float) -> str:
    """`45s`, `12m`, `1h 59m`, `3d 2h`: until something comes. Never less than it is, and two units:
    who is told `1h` does not expect two."""
    whole = -int(-max(0.0, seconds) // 1)
    if whole <= 60:
        return f"{whole}s"
    minutes = -(-whole // 60)
    if minutes < 60:
        return f"{minutes}m"
    big, small, units = (minutes // 60, minutes % 60, "hm")
    if big >= 24:
        hours = -(-minutes // 60)
        big, small, units = (hours // 24, hours % 24, "dh")
    return f"{big}{units[0]}" + (f" {small}{units[1]}" if small else "")


def written(seconds: float) -> str:
    """As a person would write it, and exactly: `7d`, `90m`, `1.5s`."""
    for unit in ("d", "h", "m"):
        if seconds and seconds % UNITS[unit] == 0:
            return f"{seconds / UNITS[unit]:.0f}{unit}"
    return f"{seconds:.10g}s"
