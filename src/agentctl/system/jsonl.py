"""Records out of a piece of a JSON-lines file, newest first.

Invariant: a torn or garbled line is counted, never fatal and never silently dropped.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from agentctl.system import files
from agentctl.system.files import Piece

Record = dict[str, Any]
DIGITS = 20  # of a whole number, with its sign: enough for any of 64 bits
MUCH = 1e18


class Line(NamedTuple):
    offset: int  # in the file
    raw: bytes


class Tally:
    """What a reading had to leave out."""

    __slots__ = ("garbled", "torn")

    def __init__(self) -> None:
        self.torn = 0  # a last line that is still being written
        self.garbled = 0  # lines that are no JSON object

    def __bool__(self) -> bool:
        return bool(self.garbled)

    def __str__(self) -> str:
        return f"{self.garbled} line{'s' if self.garbled != 1 else ''} not readable as JSON"


def lines_backwards(piece: Piece) -> Iterator[Line]:
    """Complete lines from last to first. `piece.data` must start at a line."""
    data = piece.data
    end = data.rfind(b"\n")
    while end >= 0:
        start = data.rfind(b"\n", 0, end) + 1
        if end > start:
            yield Line(piece.offset + start, data[start:end])
        end = start - 1


def lines_forwards(piece: Piece) -> Iterator[Line]:
    data, start = piece.data, 0
    while (end := data.find(b"\n", start)) >= 0:
        if end > start:
            yield Line(piece.offset + start, data[start:end])
        start = end + 1


def parse(raw: bytes) -> Record | None:
    """One JSON object, bad UTF-8 replaced; None for anything else."""
    return parse_text(raw.decode("utf-8", "replace"))


def parse_text(text: str) -> Record | None:
    try:
        value = _decoded(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _whole(digits: str) -> int | None:
    return int(digits) if len(digits) <= DIGITS else None


def _number(text: str) -> float | None:
    value = float(text)
    return value if -MUCH < value < MUCH else None


def _no_number(_: str) -> None:
    """NaN and Infinity, which Python reads though no JSON has them."""


# A number that nobody can have meant reads as null. Left as it is, it would stop whoever adds it up,
# prints it or makes a time of it, with everybody else's sessions in hand.
_decoded = json.JSONDecoder(parse_int=_whole, parse_float=_number, parse_constant=_no_number).decode


def newest_first(
    piece: Piece, tally: Tally, wanted: Callable[[bytes], bool] | None = None
) -> Iterator[tuple[int, Record]]:
    """(offset, record) from the end. `wanted` looks at the raw line, so that the bulk of a
    transcript is skipped without parsing it."""
    if piece.data and not piece.data.endswith(b"\n"):
        tally.torn += 1
    yield from _records(lines_backwards(piece), tally, wanted)


def backwards(path: str, tally: Tally) -> Iterator[tuple[int, Record]]:
    """(offset, record) of a whole file from its end, a window at a time: whoever stops early has
    read only the end of it."""
    piece = files.tail(path)
    while True:
        yield from newest_first(piece, tally)
        if piece.offset == 0:
            return
        before = files.before(path, piece.offset)
        if before.offset == piece.offset:  # one line longer than any window: nothing beyond it
            tally.garbled += 1
            return
        piece = before


def oldest_first(
    piece: Piece, tally: Tally, wanted: Callable[[bytes], bool] | None = None
) -> Iterator[tuple[int, Record]]:
    yield from _records(lines_forwards(piece), tally, wanted)


def _records(
    lines: Iterator[Line], tally: Tally, wanted: Callable[[bytes], bool] | None
) -> Iterator[tuple[int, Record]]:
    for offset, raw in lines:
        if wanted is not None and not wanted(raw):
            continue
        record = parse(raw)
        if record is None:
            tally.garbled += 1
        else:
            yield offset, record


# Shapes: other people's JSON may have anything anywhere.


def as_dict(value: object) -> Record:
    return value if isinstance(value, dict) else {}


def as_text(value: object) -> str | None:
    """A string that says something."""
    return value if isinstance(value, str) and value else None
