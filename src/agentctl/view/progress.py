"""Show the progress of several things, one line each: rewritten in place on a terminal, elsewhere a new
line for each change. Written to standard error, because standard output is data."""

from __future__ import annotations

import os
import sys
from typing import TextIO

from agentctl.light_typing import NamedTuple, Sequence
from agentctl.text import clean_line, cut, cut_middle, measure_width, pad, paint

MARKS = {"waiting": "·", "starting": "…", "started": "✓", "failed": "✗", "not started": "-"}
COLOURS = {
    "waiting": "dim",
    "starting": "cyan",
    "started": "green",
    "failed": "red",
    "not started": "yellow",
}
STATE = 11  # columns of the longest state
DETAIL = 46  # columns for an id and a time; names are cut to leave this room
SHORTEST = 8  # columns that a name keeps
GAPS = 7  # columns of the mark and the gaps


class _Line(NamedTuple):
    state: str
    detail: str


class Progress:
    """Lines on a stream. Call `update` from one thread only."""

    def __init__(self, names: Sequence[str], stream: TextIO | None = None) -> None:
        self._stream = stream if stream is not None else sys.stderr
        self._names = [clean_line(name) for name in names]
        self._lines = [_Line("waiting", "") for _ in names]
        self._drawn = 0  # lines that we have drawn on the screen
        self._note = ""
        self._columns, height = self._terminal_size()
        room = max(SHORTEST, self._columns - STATE - DETAIL - GAPS)
        self._widest = min(room, max(map(measure_width, self._names), default=0))
        # One line more for the note. A line that has scrolled away cannot be rewritten.
        self._in_place = height > len(names) + 1
        self._colour = self._in_place and not os.environ.get("NO_COLOR")
        if self._in_place:
            self._draw()

    @property
    def is_complete(self) -> bool:
        """True if the user sees every line whole: nothing has to be repeated below."""
        return self._in_place and self._columns >= SHORTEST + STATE + DETAIL + GAPS

    def show_note(self, note: str) -> None:
        """Show a line about all of them, below them."""
        self._note = clean_line(note)
        if self._in_place:
            self._draw()
        else:
            self._write(f"{self._note}\n")

    def update(self, index: int, state: str, detail: str = "") -> None:
        self._lines[index] = _Line(state, clean_line(detail))
        if self._in_place:
            self._draw()
        elif state != "waiting":
            self._write(f"{self._line_text(index, 1 << 16)}\n")

    def _draw(self) -> None:
        up = f"\x1b[{self._drawn}A" if self._drawn else ""
        rows = [self._line_text(i, self._columns) for i in range(len(self._lines))]
        if self._note:
            rows.append(cut(self._note, self._columns - 1))
        self._write(up + "".join(f"\r{row}\x1b[K\n" for row in rows))
        self._drawn = len(rows)

    def _line_text(self, index: int, columns: int) -> str:
        state, detail = self._lines[index]
        mark = MARKS.get(state, "·") if self._has_unicode() else ""
        name = cut_middle(self._names[index], self._widest)
        head = f"{mark} {pad(name, self._widest)}  ".lstrip()
        text = cut(f"{head}{pad(state, STATE)}  {detail}".rstrip(), columns - 1)
        return paint(text, COLOURS.get(state, ""), on=self._colour)

    def _has_unicode(self) -> bool:
        return "utf" in (getattr(self._stream, "encoding", None) or "").lower()

    def _terminal_size(self) -> tuple[int, int]:
        """Return columns and lines; no lines if lines cannot be rewritten."""
        if not self._stream.isatty() or os.environ.get("TERM", "dumb") == "dumb":
            return 1 << 16, 0
        try:
            size = os.get_terminal_size(self._stream.fileno())
        except (OSError, ValueError):
            return 80, 0
        return size.columns or 80, size.lines or 24

    def _write(self, text: str) -> None:
        try:
            self._stream.write(text)
            self._stream.flush()
        except OSError:  # the terminal is gone, and with it the only reader
            self._in_place = False
