"""Other people's text on our terminal. What agents and users wrote is data: it must not move the
cursor, break a row or hide a character."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping

from agentctl import durations

ELLIPSIS = "…"
# Whether an emoji is drawn in colour; terminals disagree on the width it then has.
_PRESENTATION = ("\ufe0e", "\ufe0f")
BEFORE_A_PATH = "'\"`(=:,;[<"
age = durations.age
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
    if character in _PRESENTATION:
        return ""
    if (character.isprintable() and not _unseen(character)) or character == " ":
        return character
    if character.isspace():
        return " "
    return f"\\x{ord(character):02x}" if ord(character) < 256 else f"\\u{ord(character):04x}"


def _unseen(character: str) -> bool:
    """Variation selectors: printable by name, invisible by nature, and able to carry a message."""
    return "\ufe00" <= character <= "\ufe0f" or "\U000e0100" <= character <= "\U000e01ef"


def width(text: str) -> int:
    """Columns it takes."""
    if text.isascii():
        return len(text)
    return sum(map(_columns_of, text))


def _columns_of(character: str) -> int:
    if character.isascii():
        return 1
    from unicodedata import category, east_asian_width

    # marks sit on the letter before them, and so do the vowels and finals of a Hangul syllable
    if category(character) in ("Mn", "Me") or "\u1160" <= character <= "\u11ff":
        return 0
    return 2 if east_asian_width(character) in "WF" else 1


def cut(text: str, columns: int) -> str:
    """At most that many columns, an ellipsis where something is missing."""
    if width(text) <= columns:
        return text
    return _fitting(text, columns - 1).rstrip() + ELLIPSIS if columns > 0 else ""


def cut_front(text: str, columns: int) -> str:
    """The same of a path, whose end tells more than its beginning."""
    if width(text) <= columns:
        return text
    return ELLIPSIS + _fitting(text[::-1], columns - 1)[::-1].lstrip() if columns > 0 else ""


def cut_middle(text: str, columns: int) -> str:
    """The same of a name: several of a kind differ at their beginning or at their end."""
    if width(text) <= columns or columns < 3:
        return cut(text, columns)
    end = _fitting(text[::-1], (columns - 1) // 2)[::-1].lstrip()
    return _fitting(text, columns - 1 - width(end)).rstrip() + ELLIPSIS + end


def _fitting(text: str, columns: int) -> str:
    left = columns
    for index, character in enumerate(text):
        left -= _columns_of(character)
        if left < 0:
            return text[:index]
    return text


def pad(text: str, columns: int) -> str:
    return text + " " * max(0, columns - width(text))


def coloured() -> bool:
    return coloured_in(os.environ, tty=sys.stdout.isatty())


def coloured_in(environ: Mapping[str, str], *, tty: bool) -> bool:
    return tty and not environ.get("NO_COLOR") and environ.get("TERM") != "dumb"


def paint(text: str, colour: str, *, on: bool) -> str:
    return f"\x1b[{COLOURS[colour]}m{text}\x1b[0m" if on and colour else text


def columns(otherwise: int = 200) -> int:
    """Of the terminal; of COLUMNS; wide when neither is there, so that a pipe loses nothing."""
    return columns_in(os.environ, terminal(), otherwise)


def columns_in(environ: Mapping[str, str], terminal: int | None, otherwise: int = 200) -> int:
    given = environ.get("COLUMNS", "")
    if given.isascii() and given.isdigit() and int(given[:6]) > 0:
        return int(given[:6])
    return otherwise if terminal is None else terminal or 80


def terminal() -> int | None:
    """Columns of the terminal that we write to, 0 if it does not know; None: it is none."""
    try:
        return os.get_terminal_size(sys.stdout.fileno()).columns
    except (OSError, ValueError):
        return None


def tilde(path: str, home: str | None) -> str:
    base = (home or "").rstrip("/")
    if base and (path == base or path.startswith(base + "/")):
        return "~" + path[len(base) :]
    return path


def tildes(said: str, home: str | None) -> str:
    """A sentence with each path below the home shortened; not where the home's name is in the middle of
    another path, as in /proc/16/root/home/me/.claude."""
    base = (home or "").rstrip("/") + "/"
    if base == "/":
        return said
    shown, *parts = said.split(base)
    for part in parts:
        begins = not shown or shown[-1].isspace() or shown[-1] in BEFORE_A_PATH
        shown += ("~/" if begins else base) + part
    return shown
