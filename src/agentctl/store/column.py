"""A path as a column takes it. It may hold bytes that are no text, which no column does."""

from __future__ import annotations


def as_text(path: str) -> str:
    """Each such byte becomes a NUL, which no path holds, and two digits."""
    return "".join(f"\0{ord(c) - 0xDC00:02x}" if "\udc80" <= c <= "\udcff" else c for c in path)


def as_path(text: str) -> str:
    first, *rest = text.split("\0")
    return first + "".join(chr(0xDC00 + int(part[:2], 16)) + part[2:] for part in rest)
