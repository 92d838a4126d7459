"""Other people's text on our terminal. What agents and users wrote is data: it must not move the
cursor, break a row or hide a character."""

from __future__ import annotations

import os
import sys

ELLIPSIS = "…"
COLOURS = {
    "red": 31,
    "green": 32,
    "yellow": 33,
    "blue": 34,
    "magenta": 35,
    "cyan": 36,
    "dim": 2,
    "bold": 1,
}


def one_line(text: str) -> str:
    """On one line, harmless to a terminal: white space folded, control and format characters
    (escapes, bidirectional overrides, lone surrogates) shown as their code."""
    if text.isascii() and text.isprintable():
        return text
    return " ".join("".join(_harmless(c) for c in text).split())


def many_lines(text: str) -> list[str]:
    """Lines and tabs kept, all else harmless."""
    return ["".join(_harmless(c) for c in line.expandtabs(4)).rstrip() for line in text.splitlines()]


def _harmless(character: str) -> str:
    if character.isprintable() or character == " ":
        return character
    if character.isspace():
        return " "
    return f"\\x{ord(character):02x}" if ord(character) < 256 else f"\\u{ord(character):04x}"


def width(text: str) -> int:
    """Columns it takes."""
    if text.isascii():
        return len(text)
    from unicodedata import combining, east_asian_width

    wide = sum(east_asian_width(c) in "WF" for c in text)
    return len(text) + wide - sum(bool(combining(c)) for c in text)


def cut(text: str, columns: int) -> str:
    """At most that many columns, an ellipsis where something is missing."""
    if width(text) <= columns:
        return text
    kept, left = [], columns - 1
    for character in text:
        left -= width(character)
        if left < 0:
            break
        kept.append(character)
    return "".join(kept).rstrip() + ELLIPSIS


def pad(text: str, columns: int) -> str:
    return text + " " * max(0, columns - width(text))


def coloured() -> bool:
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def paint(text: str, colour: str, *, on: bool) -> str:
    return f"\x1b[{COLOURS[colour]}m{text}\x1b[0m" if on and colour else text


def columns() -> int:
    """Of the terminal; of COLUMNS; wide when neither is there, so that a pipe loses nothing."""
    given = os.environ.get("COLUMNS", "")
    if given.isdigit() and int(given) > 0:
        return int(given)
    try:
        return os.get_terminal_size(sys.stdout.fileno()).columns or 80
    except (OSError, ValueError):
        return 200


def age(seconds: float) -> str:
    """`3s`, `12m`, `5h`, `9d`: one unit, always rounded down."""
    for unit, size in (("d", 86400), ("h", 3600), ("m", 60)):
        if seconds >= size:
            return f"{int(seconds // size)}{unit}"
    return f"{max(0, int(seconds))}s"


def tilde(path: str, home: str | None) -> str:
    if home and home != "/" and (path == home or path.startswith(home + "/")):
        return "~" + path[len(home) :]
    return path
