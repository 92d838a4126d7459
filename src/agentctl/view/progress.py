"""How several things fare, one line each: rewritten in place on a terminal, a new line for each piece of
news elsewhere. On standard error, so that standard output is data."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import NamedTuple, TextIO

from agentctl.text import cut, cut_middle, one_line, pad, paint, width

MARKS = {"waiting": "·", "starting": "…", "started": "✓", "failed": "✗", "not started": "-"}
COLOURS = {
    "waiting": "dim",
    "starting": "cyan",
    "started": "green",
    "failed": "red",
    "not started": "yellow",
}
STATE = 11  # columns of the longest state
# Columns that a detail has beside the names, before the names are cut: room for an id and a time.
DETAIL = 46
SHORTEST = 8  # columns that a name keeps


class _Line(NamedTuple):
    state: str
    detail: str


class Progress:
    """`tell` is called from one thread only."""

    def __init__(self, names: Sequence[str], stream: TextIO | None = None) -> None:
        self._stream = stream if stream is not None else sys.stderr
        self._names = [one_line(name) for name in names]
        self._lines = [_Line("waiting", "") for _ in names]
        self._drawn = 0  # lines on the screen that are ours
        self._note = ""
        self._columns, high = self._size()
        room = max(SHORTEST, self._columns - STATE - DETAIL - 7)  # 7: the mark and the gaps
        self._widest = min(room, max(map(width, self._names), default=0))
        self._in_place = (
            high > len(names) + 1
        )  # and a note; a line that has scrolled away cannot be rewritten
        self._colour = self._in_place and not os.environ.get("NO_COLOR")
        if self._in_place:
            self._draw()

    @property
    def whole(self) -> bool:
        """Whether a person sees all of it: nothing has to be said again below."""
        return self._in_place and self._columns >= SHORTEST + STATE + DETAIL + 7

    def say(self, note: str) -> None:
        """Something about all of them, below them."""
        self._note = one_line(note)
        if self._in_place:
            self._draw()
        else:
            self._write(f"{self._note}\n")

    def tell(self, index: int, state: str, detail: str = "") -> None:
        self._lines[index] = _Line(state, one_line(detail))
        if self._in_place:
            self._draw()
        elif state != "waiting":
            self._write(f"{self._shown(index, 1 << 16)}\n")

    def _draw(self) -> None:
        up = f"\x1b[{self._drawn}A" if self._drawn else ""
        rows = [self._shown(i, self._columns) for i in range(len(self._lines))]
        if self._note:
            rows.append(cut(self._note, self._columns - 1))
        self._write(up + "".join(f"\r{row}\x1b[K\n" for row in rows))
        self._drawn = len(rows)

    def _shown(self, index: int, columns: int) -> str:
        state, detail = self._lines[index]
        mark = MARKS.get(state, "·") if self._speaks() else ""
        name = cut_middle(self._names[index], self._widest)
        head = f"{mark} {pad(name, self._widest)}  ".lstrip()
        told = cut(f"{head}{pad(state, STATE)}  {detail}".rstrip(), columns - 1)
        return paint(told, COLOURS.get(state, ""), on=self._colour)

    def _speaks(self) -> bool:
        return "utf" in (getattr(self._stream, "encoding", None) or "").lower()

    def _size(self) -> tuple[int, int]:
        """Columns and lines; no lines where nothing can be rewritten."""
        if not self._stream.isatty() or os.environ.get("TERM", "dumb") == "dumb":
            return 1 << 16, 0
        try:
            size = os.get_terminal_size(self._stream.fileno())
        except (OSError, ValueError):
            return 80, 0
        return size.columns or 80, size.lines or 24

    def _write(self, told: str) -> None:
        try:
            self._stream.write(told)
            self._stream.flush()
        except OSError:  # nobody looks any more: what is told is told for them alone
            self._in_place = False
