"""A terminal's screen: what it shows after some bytes, and what it answers. Pure: bytes in, replies out.

It does what agents use: cursor moves, erasing, scrolling, wide characters. Colours are dropped. Agents
ask where the cursor is and what the terminal can do; the pinned versions also start without an answer.
Codex 0.166 needs a size: at 0 by 0, the size of a new pseudo-terminal, it shows nothing.
"""

from __future__ import annotations

import codecs
import re
import unicodedata

from agentctl.light_typing import Callable

COLUMNS, LINES = 180, 50
CELL = (10, 20)  # pixels, width and height: some agents ask before they draw

# One piece of a program's output: text, a control character, or a whole sequence.
PIECE = re.compile(
    r"(?P<text>[^\x00-\x1f\x7f-\x9f]+)"
    r"|\x1b\[(?P<arguments>[0-?]*)(?P<between>[ -/]*)(?P<final>[@-~])"
    r"|\x1b\](?P<command>[^\x07\x1b]*)(?:\x07|\x1b\\)"
    r"|\x1b[PX^_](?P<string>[^\x1b]*)\x1b\\"
    r"|\x1b[ -/]+[0-~]"
    r"|\x1b(?P<escape>[0-OQ-WYZ`-~\\=>])"
    r"|(?P<control>[\x00-\x1a\x1c-\x1f\x7f-\x9f])"
)
UNFINISHED = 4096  # characters without the end of a sequence, after which they are not one


class Screen:
    def __init__(self, columns: int = COLUMNS, lines: int = LINES) -> None:
        self.columns, self.lines = columns, lines
        self.title = ""
        self._cells = self._blank()
        self._row = self._column = 0
        self._top, self._bottom = 0, lines - 1  # the scroll region
        self._saved = (0, 0)
        self._main: list[list[str]] | None = None  # the main screen, while the alternate one is shown
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._rest = ""
        self._replies: list[str] = []

    @property
    def text(self) -> str:
        """The text that a user sees, without the blanks at the ends."""
        return "\n".join("".join(line).rstrip() for line in self._cells).rstrip()

    def feed(self, output: bytes) -> bytes:
        """Take the output of the program. Return what a terminal would answer."""
        self._rest += self._decoder.decode(output)
        while self._rest:
            piece = PIECE.match(self._rest)
            if piece is None:
                if len(self._rest) < UNFINISHED:
                    break
                self._rest = self._rest[1:]
                continue
            self._rest = self._rest[piece.end() :]
            self._take(piece)
        replies, self._replies = self._replies, []
        return "".join(replies).encode()

    def _take(self, piece: re.Match[str]) -> None:
        if piece["text"] is not None:
            for character in piece["text"]:
                self._put(character)
        elif piece["final"] is not None:
            self._sequence(piece["arguments"], piece["between"], piece["final"])
        elif piece["command"] is not None:
            self._system_command(piece["command"])
        elif piece["string"] is not None:
            self._device_string(piece[0][1], piece["string"])
        elif piece["escape"] is not None:
            self._escape(piece["escape"])
        elif piece["control"] is not None:
            self._control(piece["control"])

    # writing

    def _put(self, character: str) -> None:
        if unicodedata.combining(character):
            return
        is_wide = unicodedata.east_asian_width(character) in ("W", "F")
        if self._column + is_wide >= self.columns:
            self._column = 0
            self._feed_line()
        line = self._cells[self._row]
        line[self._column] = character
        self._column += 1
        if is_wide:  # the second cell holds no character
            line[self._column] = ""
            self._column += 1

    def _control(self, character: str) -> None:
        if character == "\r":
            self._column = 0
        elif character in "\n\x0b\x0c":
            self._feed_line()
        elif character == "\b":
            self._column = max(0, self._column - 1)
        elif character == "\t":
            self._column = min(self.columns - 1, (self._column // 8 + 1) * 8)

    def _escape(self, final: str) -> None:
        match final:
            case "7":
                self._saved = (self._row, self._column)
            case "8":
                self._row, self._column = self._saved
            case "D" | "E":
                self._column = self._column if final == "D" else 0
                self._feed_line()
            case "M":
                if self._row == self._top:
                    self._scroll(-1)
                else:
                    self._row = max(0, self._row - 1)
            case "c":
                self._cells, self._row, self._column = self._blank(), 0, 0

    def _feed_line(self) -> None:
        if self._row == self._bottom:
            self._scroll(1)
        else:
            self._row = min(self.lines - 1, self._row + 1)

    def _scroll(self, count: int, start: int | None = None) -> None:
        """Scroll up for a positive count, down for a negative one."""
        top = self._top if start is None else start
        count = max(-self.lines, min(self.lines, count))
        part = self._cells[top : self._bottom + 1]
        new = [[" "] * self.columns for _ in range(min(abs(count), len(part)))]
        scrolled = part[count:] + new if count > 0 else new + part[:count]
        self._cells[top : self._bottom + 1] = scrolled[: len(part)]

    def _blank(self) -> list[list[str]]:
        return [[" "] * self.columns for _ in range(self.lines)]

    # sequences

    def _sequence(self, arguments: str, between: str, final: str) -> None:
        if between or arguments[:1] in ("<", "=", ">", "?"):
            self._private(arguments, between, final)
            return
        numbers = [int(n) if n.isdecimal() else 0 for n in re.split("[;:]", arguments)]
        first = numbers[0]
        count = max(1, first)
        line = self._cells[self._row]
        if (move := _MOVES.get(final)) is not None:
            row, column = move(self._row, self._column, numbers)
            self._row = max(0, min(self.lines - 1, row))
            self._column = max(0, min(self.columns - 1, column))
        elif final == "J":
            self._erase_display(first)
        elif final == "K":
            start, end = ((self._column, self.columns), (0, self._column + 1), (0, self.columns))[
                first % 3
            ]
            line[start:end] = [" "] * (end - start)
        elif final == "X":
            end = min(self.columns, self._column + count)
            line[self._column : end] = [" "] * (end - self._column)
        elif final in "@P":
            count = min(count, self.columns)
            blank = [" "] * count
            at = self._column
            line[at:] = blank + line[at:] if final == "@" else line[at + count :] + blank
            del line[self.columns :]
            line += [" "] * (self.columns - len(line))
        elif final in "LM" and self._top <= self._row <= self._bottom:
            self._scroll(count if final == "M" else -count, self._row)
        elif final in "ST":
            self._scroll(count if final == "S" else -count)
        elif final == "r":
            bottom = numbers[1] if len(numbers) > 1 and numbers[1] else self.lines
            self._top, self._bottom = count - 1, min(bottom, self.lines) - 1
            self._row = self._column = 0
        elif final == "s":
            self._saved = (self._row, self._column)
        elif final == "u":
            self._row, self._column = self._saved
        else:
            self._answer_query(first, final)

    def _erase_display(self, how: int) -> None:
        here, end = self._row, self.lines
        line = self._cells[here]
        if how == 0:
            line[self._column :] = [" "] * (self.columns - self._column)
        elif how == 1:
            line[: self._column + 1] = [" "] * (self._column + 1)
        first, last = ((here + 1, end), (0, here), (0, end), (0, 0))[how % 4]
        for row in range(first, last):
            self._cells[row] = [" "] * self.columns

    def _private(self, arguments: str, between: str, final: str) -> None:
        if arguments[:1] == "?" and final in "hl" and not between:
            if {"1049", "1047", "47"} & set(arguments[1:].split(";")):
                self._switch_screen(alternate=final == "h")
        elif arguments == "?6" and final == "n":
            self._replies.append(f"\x1b[?{self._row + 1};{self._column + 1}R")
        elif arguments in (">", ">0") and final == "c":
            self._replies.append("\x1b[>0;276;0c")
        elif arguments in (">", ">0") and final == "q":
            self._replies.append("\x1bP>|agentctl\x1b\\")
        elif between == "$" and final == "p":  # a query for a mode: we know none
            self._replies.append(f"\x1b[{arguments};0$y")
        # No answer to `CSI ? u`, the kitty keyboard: an agent without an answer uses plain keys.

    def _answer_query(self, first: int, final: str) -> None:
        wide, high = CELL
        match final, first:
            case "n", 5:
                self._replies.append("\x1b[0n")
            case "n", 6:
                self._replies.append(f"\x1b[{self._row + 1};{self._column + 1}R")
            case "c", 0:
                self._replies.append("\x1b[?62;22c")
            case "t", 14:
                self._replies.append(f"\x1b[4;{self.lines * high};{self.columns * wide}t")
            case "t", 16:
                self._replies.append(f"\x1b[6;{high};{wide}t")
            case "t", 18:
                self._replies.append(f"\x1b[8;{self.lines};{self.columns}t")

    def _system_command(self, command: str) -> None:
        kind, _, value = command.partition(";")
        if kind in ("0", "2"):
            self.title = value
        elif value == "?" and kind in ("10", "11", "12"):
            colour = "0000/0000/0000" if kind == "11" else "ffff/ffff/ffff"
            self._replies.append(f"\x1b]{kind};rgb:{colour}\x1b\\")
        elif kind == "4" and value.endswith(";?"):
            self._replies.append(f"\x1b]4;{value[:-1]}rgb:8080/8080/8080\x1b\\")

    def _device_string(self, kind: str, string: str) -> None:
        if kind == "P" and string[:2] in ("+q", "$q"):  # a capability or a setting: we know none
            self._replies.append(f"\x1bP0{string[0]}r\x1b\\")

    def _switch_screen(self, *, alternate: bool) -> None:
        if alternate and self._main is None:
            self._main, self._cells = self._cells, self._blank()
        elif not alternate and self._main is not None:
            self._cells, self._main = self._main, None


Move = Callable[[int, int, list[int]], tuple[int, int]]
_MOVES: dict[str, Move] = {
    "A": lambda row, column, n: (row - max(1, n[0]), column),
    "B": lambda row, column, n: (row + max(1, n[0]), column),
    "C": lambda row, column, n: (row, column + max(1, n[0])),
    "D": lambda row, column, n: (row, column - max(1, n[0])),
    "E": lambda row, _, n: (row + max(1, n[0]), 0),
    "F": lambda row, _, n: (row - max(1, n[0]), 0),
    "G": lambda row, _, n: (row, max(1, n[0]) - 1),
    "`": lambda row, _, n: (row, max(1, n[0]) - 1),
    "d": lambda _, column, n: (max(1, n[0]) - 1, column),
    "H": lambda _row, _column, n: (max(1, n[0]) - 1, (max(1, n[1]) if len(n) > 1 else 1) - 1),
    "f": lambda _row, _column, n: (max(1, n[0]) - 1, (max(1, n[1]) if len(n) > 1 else 1) - 1),
}
