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
    header = [Cell(column.title, "dim") for column in layout]
    table = list(
        zip(header, *map(_clean, rows), strict=True)
    )  # by column: hundreds of rows, six columns
    widths = _widths(layout, table, columns)
    visible = [(cells, size) for cells, size in zip(table, widths, strict=True) if size]
    last = len(visible) - 1
    parts = [
        _fit_column(cells, size, is_last=index == last, colour=colour)
        for index, (cells, size) in enumerate(visible)
    ]
    return [(" " * GAP).join(line).rstrip() for line in zip(*parts, strict=True)]


def _clean(row: Sequence[Cell]) -> Sequence[Cell]:
    """Escape control characters, in case the caller did not."""
    text = "".join([cell.text for cell in row])
    if text.isascii() and text.isprintable():  # most rows
        return row
    return [cell._replace(text=clean_line(cell.text)) for cell in row]


def _fit_column(cells: Sequence[Cell], size: int, *, is_last: bool, colour: bool) -> list[str]:
    """Return the texts in this width, coloured. Nothing follows the last column: it is not padded."""
    texts = [cell.text for cell in cells]
    if _widest(texts) > size or not "".join(texts).isascii():
        texts = [_fit(cell, size, is_last=is_last) for cell in cells]
    elif not is_last:
        texts = [text.ljust(size) for text in texts]
    if not colour:
        return texts
    return [paint(text, cell.colour, on=True) for text, cell in zip(texts, cells, strict=True)]


def _fit(cell: Cell, size: int, *, is_last: bool) -> str:
    cut_text = cut_front if cell.keep_end else cut_middle if cell.keep_ends else cut
    text = cut_text(cell.text, size)
    return text if is_last else pad(text, size)


def _widest(texts: Sequence[str]) -> int:
    return max(map(len if "".join(texts).isascii() else measure_width, texts))


def _widths(layout: Sequence[Column], table: Sequence[Sequence[Cell]], columns: int) -> list[int]:
    """Return the natural widths if they fit. Otherwise shrink the widest columns first, down to their
    least; if that is not enough, drop columns. 0: dropped."""
    natural = [_widest([cell.text for cell in cells]) for cells in table]
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
