"""Times: seconds since the epoch inside, RFC 3339 UTC at the edges. Without `datetime`, which the
hot path cannot afford."""

import time

LATEST_MS = 1e15  # of the year 33658
# Seconds. The kernel rounds the start of a process to 10 ms, and no agent writes a record so soon.
TICK = 0.02
GRAIN = 1.0  # seconds: what is as young as that may be written again, and keep its stamp and its size


def settled(stamp: float) -> bool:
    """Whether whoever writes to that file now gives it another stamp. It may be one of the future: the
    clock was set back since."""
    return abs(time.time() - stamp) > GRAIN


def boot_time(now: float) -> float:
    """When this machine booted, on the same clock as `now`."""
    return now - time.clock_gettime(time.CLOCK_BOOTTIME)


def parse(text: object) -> float | None:
    """`2026-11-15T04:53:22.382Z` → seconds; None for anything that is not such a time."""
    if not isinstance(text, str) or len(text) < 19 or text[10] not in "T ":
        return None
    try:
        year, month, day = int(text[0:4]), int(text[5:7]), int(text[8:10])
        seconds = int(text[11:13]) * 3600 + int(text[14:16]) * 60 + int(text[17:19])
        rest, fraction = text[19:], 0.0
        if rest.startswith("."):
            digits = len(rest) - len(rest[1:].lstrip("0123456789"))
            fraction, rest = float("0" + rest[:digits]), rest[digits:]
        return _days(year, month, day) * 86400.0 + seconds + fraction - _offset(rest)
    except ValueError:
        return None


def from_ms(value: object) -> float | None:
    """Milliseconds since the epoch, as JavaScript writes them; None for what is no such time."""
    if type(value) is not int and type(value) is not float:  # no bool
        return None
    return value / 1000.0 if -LATEST_MS < value < LATEST_MS else None  # nan is not between, either


def rfc3339(seconds: float | None) -> str | None:
    if seconds is None:
        return None
    try:
        whole, millis = divmod(round(seconds * 1000), 1000)
        day, second = divmod(whole, 86400)
        date = _DATES.get(day) or _date(day)
    except (OverflowError, ValueError, OSError):  # a nonsense number in somebody's file
        return None
    hour, minute = _TWO[second // 3600], _TWO[second // 60 % 60]
    return f"{date}T{hour}:{minute}:{_TWO[second % 60]}.{_TWO[millis // 10]}{millis % 10}Z"


_TWO = [f"{number:02d}" for number in range(100)]  # to look up is half the time of formatting
_DATES: dict[int, str] = {}  # by day: a long list has few of them


def _date(day: int) -> str:
    t = time.gmtime(day * 86400)
    return _DATES.setdefault(day, f"{t.tm_year:04d}-{t.tm_mon:02d}-{t.tm_mday:02d}")


def _offset(zone: str) -> float:
    if zone in ("Z", "z", ""):
        return 0.0
    sign = {"+": 1, "-": -1}[zone[0]] if zone[0] in "+-" else 0
    if not sign or len(zone) < 5:
        raise ValueError(zone)
    return sign * (int(zone[1:3]) * 3600.0 + int(zone[-2:]) * 60.0)


def _days(year: int, month: int, day: int) -> int:
    """Days from 1970-01-01 in the proleptic Gregorian calendar, years counted from March."""
    if not (1 <= month <= 12 and 1 <= day <= 31):
        raise ValueError("no such day")
    year -= month <= 2
    era, of_era = divmod(year, 400)
    of_year = (153 * (month + (-3 if month > 2 else 9)) + 2) // 5 + day - 1
    return era * 146097 + of_era * 365 + of_era // 4 - of_era // 100 + of_year - 719468
