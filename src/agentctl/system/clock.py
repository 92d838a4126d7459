"""Times: seconds since the epoch inside, RFC 3339 UTC at the edges. Without `datetime`, which is too
slow to import for `list`."""

import time

LATEST_MS = 1e15  # the year 33658
# Seconds. The kernel rounds the start of a process to 10 ms, and no agent writes a record so soon.
TICK = 0.02
GRAIN = 1.0  # seconds: a younger file may change again and keep its time stamp and its size


def is_settled(stamp: float) -> bool:
    """Return True if the time stamp is so old that any new write must change it. A stamp in the future
    counts as old: the clock was set back since."""
    return abs(time.time() - stamp) > GRAIN


def read_boot_clock() -> float:
    """Return the seconds since boot. They go on while the machine sleeps, and no user can set them."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def boot_time(now: float) -> float:
    """Return when this machine booted, on the same clock as `now`."""
    return now - read_boot_clock()


def parse_time(text: object) -> float | None:
    """Return the seconds of a time such as `2026-11-15T04:53:22.382Z`; None for anything else."""
    if not isinstance(text, str) or len(text) < 19 or text[10] not in "T ":
        return None
    try:
        year, month, day = int(text[0:4]), int(text[5:7]), int(text[8:10])
        seconds = int(text[11:13]) * 3600 + int(text[14:16]) * 60 + int(text[17:19])
        rest, fraction = text[19:], 0.0
        if rest.startswith("."):
            digits = len(rest) - len(rest[1:].lstrip("0123456789"))
            fraction, rest = float("0" + rest[:digits]), rest[digits:]
        return _count_days(year, month, day) * 86400.0 + seconds + fraction - _parse_offset(rest)
    except ValueError:
        return None


def parse_ms(value: object) -> float | None:
    """Return the seconds of a time in milliseconds, as JavaScript writes it; None for anything else."""
    if type(value) is not int and type(value) is not float:  # excludes bool
        return None
    return value / 1000.0 if -LATEST_MS < value < LATEST_MS else None  # excludes nan


def format_rfc3339(seconds: float | None) -> str | None:
    if seconds is None:
        return None
    try:
        whole, millis = divmod(round(seconds * 1000), 1000)
        day, second = divmod(whole, 86400)
        date = _DATES.get(day) or _format_date(day)
    except (OverflowError, ValueError, OSError):  # a nonsense number in an agent's file
        return None
    hour, minute = _TWO[second // 3600], _TWO[second // 60 % 60]
    return f"{date}T{hour}:{minute}:{_TWO[second % 60]}.{_TWO[millis // 10]}{millis % 10}Z"


_TWO = [f"{number:02d}" for number in range(100)]  # a lookup takes half the time of formatting
_DATES: dict[int, str] = {}  # by day: a long list has few days


def _format_date(day: int) -> str:
    t = time.gmtime(day * 86400)
    return _DATES.setdefault(day, f"{t.tm_year:04d}-{t.tm_mon:02d}-{t.tm_mday:02d}")


def _parse_offset(zone: str) -> float:
    if zone in ("Z", "z", ""):
        return 0.0
    sign = {"+": 1, "-": -1}[zone[0]] if zone[0] in "+-" else 0
    if not sign or len(zone) < 5:
        raise ValueError(zone)
    return sign * (int(zone[1:3]) * 3600.0 + int(zone[-2:]) * 60.0)


def _count_days(year: int, month: int, day: int) -> int:
    """Return the days since 1970-01-01 in the proleptic Gregorian calendar, counting years from
    March."""
    if not (1 <= month <= 12 and 1 <= day <= 31):
        raise ValueError("no such day")
    year -= month <= 2
    era, of_era = divmod(year, 400)
    of_year = (153 * (month + (-3 if month > 2 else 9)) + 2) // 5 + day - 1
    return era * 146097 + of_era * 365 + of_era // 4 - of_era // 100 + of_year - 719468
