"""What a column takes: text, which is UTF-8. A path may hold bytes that are no text, which no column
does."""

from __future__ import annotations


def as_text(path: str) -> str:
    """Each such byte becomes a NUL, which no path holds, and two digits."""
    return "".join(f"\0{ord(c) - 0xDC00:02x}" if "\udc80" <= c <= "\udcff" else c for c in path)


def as_path(text: str) -> str:
    first, *rest = text.split("\0")
    return first + "".join(chr(0xDC00 + int(part[:2], 16)) + part[2:] for part in rest)


def is_text(given: str) -> bool:
    """Whether it is UTF-8. What the system hands us may hold any bytes."""
    try:
        given.encode()
    except UnicodeEncodeError:
        return False
    return True
