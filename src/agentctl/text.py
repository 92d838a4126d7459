"""Text for a terminal. What agents and users wrote must not move the cursor, break a row or hide a
character."""

from __future__ import annotations

import os
import sys

from agentctl.light_typing import Mapping, Sequence

ELLIPSIS = "…"
# They choose whether an emoji is drawn in colour. Terminals disagree on its width then.
_PRESENTATION = ("\ufe0e", "\ufe0f")
BEFORE_A_PATH = "'\"`(=:,;[<"
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


def clean_line(text: str) -> str:
    """Return the text on one line, safe for a terminal: white space folded, control and format
    characters (escapes, bidirectional overrides, lone surrogates) shown as their codes."""
    if text.isascii() and text.isprintable():
        return text
    return " ".join("".join(_escape(c) for c in text).split())


def clean_lines(text: str) -> list[str]:
    """Return the lines of the text, safe for a terminal, with tabs expanded."""
    return ["".join(_escape(c) for c in line.expandtabs(4)).rstrip() for line in text.splitlines()]


def _escape(character: str) -> str:
    if character in _PRESENTATION:
        return ""
    if (character.isprintable() and not _is_invisible(character)) or character == " ":
        return character
    if character.isspace():
        return " "
    return f"\\x{ord(character):02x}" if ord(character) < 256 else f"\\u{ord(character):04x}"


def _is_invisible(character: str) -> bool:
    """Return True for variation selectors: Python calls them printable, but they are invisible and can
    carry a hidden message."""
    return "\ufe00" <= character <= "\ufe0f" or "\U000e0100" <= character <= "\U000e01ef"


def measure_width(text: str) -> int:
    """Return the number of terminal columns."""
    if text.isascii():
        return len(text)
    return sum(map(_count_columns, text))


def _count_columns(character: str) -> int:
    if character.isascii():
        return 1
    from unicodedata import category, east_asian_width

    # Marks are drawn on the letter before them; so are the vowels and finals of a Hangul syllable.
    if category(character) in ("Mn", "Me") or "\u1160" <= character <= "\u11ff":
        return 0
    return 2 if east_asian_width(character) in "WF" else 1


def cut(text: str, columns: int) -> str:
    """Return the text in at most this many columns. An ellipsis marks a cut at the end."""
    if measure_width(text) <= columns:
        return text
    return _take_columns(text, columns - 1).rstrip() + ELLIPSIS if columns > 0 else ""


def cut_front(text: str, columns: int) -> str:
    """Cut at the front: the end of a path says more than its beginning."""
    if measure_width(text) <= columns:
        return text
    return ELLIPSIS + _take_columns(text[::-1], columns - 1)[::-1].lstrip() if columns > 0 else ""


def cut_middle(text: str, columns: int) -> str:
    """Cut in the middle: similar names differ at the beginning or at the end."""
    if measure_width(text) <= columns or columns < 3:
        return cut(text, columns)
    end = _take_columns(text[::-1], (columns - 1) // 2)[::-1].lstrip()
    return _take_columns(text, columns - 1 - measure_width(end)).rstrip() + ELLIPSIS + end


def _take_columns(text: str, columns: int) -> str:
    remaining = columns
    for index, character in enumerate(text):
        remaining -= _count_columns(character)
        if remaining < 0:
            return text[:index]
    return text


def pad(text: str, columns: int) -> str:
    return text + " " * max(0, columns - measure_width(text))


def has_colour() -> bool:
    """Return True if we may write colours to standard output."""
    return may_colour(os.environ, tty=sys.stdout.isatty())


def may_colour(environ: Mapping[str, str], *, tty: bool) -> bool:
    return tty and not environ.get("NO_COLOR") and environ.get("TERM") != "dumb"


def paint(text: str, colour: str, *, on: bool) -> str:
    return f"\x1b[{COLOURS[colour]}m{text}\x1b[0m" if on and colour else text


def terminal_columns(otherwise: int = 200) -> int:
    """Return COLUMNS, else the width of the terminal. A pipe has neither: it gets `otherwise`, which is
    wide, so that nothing is cut."""
    return choose_columns(os.environ, terminal_width(), otherwise)


def choose_columns(environ: Mapping[str, str], terminal: int | None, otherwise: int = 200) -> int:
    columns = environ.get("COLUMNS", "")
    if columns.isascii() and columns.isdigit() and int(columns[:6]) > 0:
        return int(columns[:6])
    return otherwise if terminal is None else terminal or 80


def terminal_width() -> int | None:
    """Return the columns of the terminal on standard output, 0 if the terminal does not know them; None
    if there is no terminal."""
    try:
        return os.get_terminal_size(sys.stdout.fileno()).columns
    except (OSError, ValueError):
        return None


def shorten_home(path: str, home: str | None) -> str:
    """Return the path with `~` for the home directory."""
    base = (home or "").rstrip("/")
    if base and (path == base or path.startswith(base + "/")):
        return "~" + path[len(base) :]
    return path


def shorten_homes(sentence: str, home: str | None) -> str:
    """Return the sentence with `~` in each path below the home directory. The home in the middle of
    another path stays, as in /proc/16/root/home/me/.claude."""
    base = (home or "").rstrip("/") + "/"
    if base == "/":
        return sentence
    result, *parts = sentence.split(base)
    for part in parts:
        is_start = not result or result[-1].isspace() or result[-1] in BEFORE_A_PATH
        result += ("~/" if is_start else base) + part
    return result


def join_some(words: Sequence[str], most: int) -> str:
    """Return the first `most` words, as in "a, b and 3 more"."""
    more = f" and {len(words) - most} more" if len(words) > most else ""
    return ", ".join(words[:most]) + more
