"""Tables that fit the terminal. To import a library for them takes longer than to read all sessions."""

from __future__ import annotations

from agentctl.light_typing import NamedTuple, Sequence
from agentctl.text import clean_line, cut, cut_front, cut_middle, measure_width, pad, paint

GAP = 2
WHOLE = 1 << 16  # a `least` that no text exceeds: this column is never cut to make room


class Screen(NamedTuple):
    """The terminal of the reader, and the time of the look."""

    columns: int
    colour: bool
    home: str | None
    now: float


class Cell(NamedTuple):
    text: str
    colour: str = ""
    keep_end: bool = False  # cut the beginning, not the end: a path
    keep_ends: bool = False  # cut the middle: a name


class Column(NamedTuple):
    title: str
    least: int  # its smallest width, if its texts are that long
    goes: int = 0  # a narrow terminal drops the column with the highest number first; 0: never


def render(
    layout: Sequence[Column], rows: Sequence[Sequence[Cell]], columns: int, *, colour: bool
) -> list[str]:
    """Return lines of at most `columns`, the header first."""
    clean = [_clean(row) for row in rows]
    widths = _widths(layout, clean, columns)
    header = [Cell(column.title, "dim") for column in layout]
    return [_line(row, widths, colour=colour) for row in (header, *clean)]


def _clean(row: Sequence[Cell]) -> Sequence[Cell]:
    """Escape control characters, in case the caller did not."""
    text = "".join([cell.text for cell in row])
    if text.isascii() and text.isprintable():  # most rows
        return row
    return [cell._replace(text=clean_line(cell.text)) for cell in row]


def _line(row: Sequence[Cell], widths: Sequence[int], *, colour: bool) -> str:
    visible = [(cell, size) for cell, size in zip(row, widths, strict=True) if size]
    last = len(visible) - 1
    parts = []
    for index, (cell, size) in enumerate(visible):
        text = cell.text
        if len(text) <= size and text.isascii():  # most cells
            text = text if index == last else text.ljust(size)
        else:
            fit = cut_front if cell.keep_end else cut_middle if cell.keep_ends else cut
            text = fit(text, size)
            text = text if index == last else pad(text, size)
        parts.append(paint(text, cell.colour, on=colour) if colour else text)
    return (" " * GAP).join(parts).rstrip()


def _widths(layout: Sequence[Column], rows: Sequence[Sequence[Cell]], columns: int) -> list[int]:
    """Return the natural widths if they fit. Otherwise shrink the widest columns first, down to their
    least; if that is not enough, drop columns. 0: dropped."""
    natural = [
        max(measure_width(column.title), *[measure_width(row[i].text) for row in rows], 0)
        for i, column in enumerate(layout)
    ]
    least = [min(column.least, size) for column, size in zip(layout, natural, strict=True)]
    for i in sorted(range(len(layout)), key=lambda i: -layout[i].goes):
        if _total(least) <= columns or not layout[i].goes:
            break
        least[i] = natural[i] = 0
    if _total(least) > columns:
        return _squeeze(least, columns)
    fitting, level = natural, min(columns, max(natural)) + 1
    while _total(fitting) > columns:
        level -= 1
        fitting = [max(low, min(high, level)) for low, high in zip(least, natural, strict=True)]
    return fitting


def _squeeze(least: Sequence[int], columns: int) -> list[int]:
    """Fill the screen from the left: there is not enough room for all columns."""
    widths, room = [], columns
    for size in least:
        widths.append(max(0, min(size, room)))
        room -= size + GAP if size else 0
    return widths


def _total(widths: Sequence[int]) -> int:
    visible = [size for size in widths if size]
    return sum(visible) + GAP * (len(visible) - 1)
