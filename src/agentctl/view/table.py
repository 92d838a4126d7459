"""Columns that fit the terminal. Our own, because a table of the usual library costs more to import
than all the sessions cost to read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from agentctl.text import cut, cut_front, cut_middle, one_line, pad, paint, width

GAP = 2
WHOLE = 1 << 16  # a `least` that no text exceeds: this column is never cut to make room


class Cell(NamedTuple):
    text: str
    colour: str = ""
    keep_end: bool = False  # a path: when it is too long, its beginning goes
    keep_ends: bool = False  # a name: its middle


class Column(NamedTuple):
    title: str
    least: int  # columns it keeps, if its texts are that long
    goes: int = 0  # in a terminal too narrow for every column's least, the highest goes first; 0: stays


def render(
    layout: Sequence[Column], rows: Sequence[Sequence[Cell]], columns: int, *, colour: bool
) -> list[str]:
    """Lines of at most `columns`, a header first."""
    shown = [[_harmless(cell) for cell in row] for row in rows]
    widths = _widths(layout, shown, columns)
    header = [Cell(column.title, "dim") for column in layout]
    return [_line(row, widths, colour=colour) for row in (header, *shown)]


def _harmless(cell: Cell) -> Cell:
    """Whoever made the cell may have forgotten it."""
    text = cell.text
    return cell if text.isascii() and text.isprintable() else cell._replace(text=one_line(text))


def _line(row: Sequence[Cell], widths: Sequence[int], *, colour: bool) -> str:
    shown = [(cell, size) for cell, size in zip(row, widths, strict=True) if size]
    last = len(shown) - 1
    parts = []
    for index, (cell, size) in enumerate(shown):
        text = cell.text
        if len(text) <= size and text.isascii():  # nearly all
            text = text if index == last else text.ljust(size)
        else:
            fit = cut_front if cell.keep_end else cut_middle if cell.keep_ends else cut
            text = fit(text, size)
            text = text if index == last else pad(text, size)
        parts.append(paint(text, cell.colour, on=colour) if colour else text)
    return (" " * GAP).join(parts).rstrip()


def _widths(layout: Sequence[Column], rows: Sequence[Sequence[Cell]], columns: int) -> list[int]:
    """Natural widths where they fit; else the widest give way first, down to their least; else whole
    columns go. 0: not shown."""
    natural = [
        max(width(column.title), *(width(row[i].text) for row in rows), 0)
        for i, column in enumerate(layout)
    ]
    least = [min(column.least, wanted) for column, wanted in zip(layout, natural, strict=True)]
    for i in sorted(range(len(layout)), key=lambda i: -layout[i].goes):
        if _total(least) <= columns or not layout[i].goes:
            break
        least[i] = natural[i] = 0
    if _total(least) > columns:
        return _squeezed(least, columns)
    fitting, level = natural, min(columns, max(natural)) + 1
    while _total(fitting) > columns:
        level -= 1
        fitting = [max(low, min(high, level)) for low, high in zip(least, natural, strict=True)]
    return fitting


def _squeezed(least: Sequence[int], columns: int) -> list[int]:
    """No room even for what must stay: from the left, as far as it goes."""
    widths, left = [], columns
    for size in least:
        widths.append(max(0, min(size, left)))
        left -= size + GAP if size else 0
    return widths


def _total(widths: Sequence[int]) -> int:
    shown = [size for size in widths if size]
    return sum(shown) + GAP * (len(shown) - 1)
