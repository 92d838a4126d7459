"""Records of a JSON-lines file, newest first.

Invariant: an incomplete or garbled line is counted. It is never fatal and never silently dropped.
"""

from __future__ import annotations

from agentctl.json_text import Decoder
from agentctl.light_typing import Any, Callable, Iterator, NamedTuple
from agentctl.system import files
from agentctl.system.files import Piece

Record = dict[str, Any]
DIGITS = 20  # of a whole number, with its sign: enough for 64 bits
MUCH = 1e18


class Line(NamedTuple):
    offset: int  # in the file
    raw: bytes


class SkippedLines:
    """Counts the lines that a reader had to skip."""

    __slots__ = ("garbled",)

    def __init__(self) -> None:
        self.garbled = 0  # lines that are not a JSON object

    def __bool__(self) -> bool:
        return bool(self.garbled)

    def __str__(self) -> str:
        return f"{self.garbled} line{'s' if self.garbled != 1 else ''} not readable as JSON"


def lines_backwards(piece: Piece) -> Iterator[Line]:
    """Yield the complete lines from last to first. `piece.data` must start at a line."""
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


def parse_record(raw: bytes) -> Record | None:
    """Return one JSON object, with bad UTF-8 replaced; None for anything else."""
    return parse_record_text(raw.decode("utf-8", "replace"))


def parse_record_text(text: str) -> Record | None:
    try:
        value = _decode(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _parse_whole(digits: str) -> int | None:
    return int(digits) if len(digits) <= DIGITS else None


def _parse_number(text: str) -> float | None:
    value = float(text)
    return value if -MUCH < value < MUCH else None


def _parse_constant(_: str) -> None:
    """Drop NaN and Infinity, which Python reads although JSON does not have them."""


# A nonsense number reads as null. Otherwise the code that adds it up, prints it or makes a time of it
# would fail, and with it the whole list.
_decode = Decoder(
    parse_int=_parse_whole, parse_float=_parse_number, parse_constant=_parse_constant
).decode


def records_newest_first(
    piece: Piece, tally: SkippedLines, is_relevant: Callable[[bytes], bool] | None = None
) -> Iterator[tuple[int, Record]]:
    """Yield (offset, record) from the end. `is_relevant` gets the raw line, so that most of a
    transcript is skipped without parsing."""
    yield from _parse_lines(lines_backwards(piece), tally, is_relevant)


def read_backwards(path: str, tally: SkippedLines) -> Iterator[tuple[int, Record]]:
    """Yield (offset, record) of a whole file from its end, and read one window at a time: a caller that
    stops early has read only the end. Raises SourceError."""
    piece = files.read_tail(path)
    while True:
        yield from records_newest_first(piece, tally)
        if piece.offset == 0:
            return
        before = files.read_before(path, piece.offset)
        if before.offset == piece.offset:  # a line is longer than any window: stop there
            tally.garbled += 1
            return
        piece = before


def records_oldest_first(
    piece: Piece, tally: SkippedLines, is_relevant: Callable[[bytes], bool] | None = None
) -> Iterator[tuple[int, Record]]:
    yield from _parse_lines(lines_forwards(piece), tally, is_relevant)


def _parse_lines(
    lines: Iterator[Line], tally: SkippedLines, is_relevant: Callable[[bytes], bool] | None
) -> Iterator[tuple[int, Record]]:
    for offset, raw in lines:
        if is_relevant is not None and not is_relevant(raw):
            continue
        record = parse_record(raw)
        if record is None:
            tally.garbled += 1
        else:
            yield offset, record


# Shapes: an agent's JSON may have any type in any place.


def as_dict(value: object) -> Record:
    return value if isinstance(value, dict) else {}


def as_text(value: object) -> str | None:
    """Return a string that is not empty, else None."""
    return value if isinstance(value, str) and value else None
