"""Columns that fit the terminal. Our own, because a table of the usual library costs more to import
than all the sessions cost to read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from agentctl.cli.text import cut, pad, paint, width

GAP = 2


class Cell(NamedTuple):
    text: str
    colour: str = ""


class Column(NamedTuple):
    title: str
    least: int  # columns it keeps however narrow the terminal
    stretches: bool = False  # takes what is left


def render(
    layout: Sequence[Column], rows: Sequence[Sequence[Cell]], columns: int, *, colour: bool
) -> list[str]:
    """Lines of at most `columns`, a header first."""
    widths = _widths(layout, rows, columns)
    header = [Cell(column.title, "dim") for column in layout]
    return [_line(row, widths, colour=colour) for row in (header, *rows)]


def _line(row: Sequence[Cell], widths: Sequence[int], *, colour: bool) -> str:
    shown = [(cell, size) for cell, size in zip(row, widths, strict=True) if size]
    last = len(shown) - 1
    parts = []
    for index, (cell, size) in enumerate(shown):
        text = cut(cell.text, size)
        parts.append(paint(text if index == last else pad(text, size), cell.colour, on=colour))
    return (" " * GAP).join(parts).rstrip()


def _widths(layout: Sequence[Column], rows: Sequence[Sequence[Cell]], columns: int) -> list[int]:
    """Natural widths where they fit; else the widest shrink first, down to their least."""
    wanted = [
        max(width(column.title), max((width(row[i].text) for row in rows), default=0))
        for i, column in enumerate(layout)
    ]
    excess = sum(wanted) + GAP * (len(layout) - 1) - columns
    order = sorted(range(len(layout)), key=lambda i: (not layout[i].stretches, -wanted[i]))
    for i in order:
        if excess <= 0:
            break
        given = min(excess, max(0, wanted[i] - layout[i].least))
        wanted[i] -= given
        excess -= given
    for i in order:  # a terminal too narrow even for the least: drop what stretches, then the widest
        if excess <= 0 or i == 0:
            continue
        excess -= wanted[i] + GAP
        wanted[i] = 0
    return wanted
