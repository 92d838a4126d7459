"""Progress of several things at once."""

import io
import os
import pty

import pytest

from agentctl.view.progress import Progress


class Terminal(io.StringIO):
    """A stream that claims to be a terminal of that size; `screen` returns what a person sees."""

    encoding = "utf-8"

    def __init__(self, columns: int, lines: int, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__()
        monkeypatch.setenv("TERM", "xterm")
        monkeypatch.delenv("NO_COLOR", raising=False)
        monkeypatch.setattr(os, "get_terminal_size", lambda _: os.terminal_size((columns, lines)))

    def isatty(self) -> bool:
        return True

    def fileno(self) -> int:
        return 0

    def screen(self) -> list[str]:
        rows: list[str] = []
        row = 0
        for part in self.getvalue().replace("\x1b[K", "").split("\n"):
            text = part
            while text.startswith("\x1b[") and "A" in text[:6]:
                up, _, text = text[2:].partition("A")
                row -= int(up)
            if text or row < len(rows):
                rows[row : row + 1] = [_plain(text)] if text else rows[row : row + 1]
            row += 1
        return rows


def _plain(text: str) -> str:
    for code in (*range(31, 37), 2, 1, 0):
        text = text.replace(f"\x1b[{code}m", "")
    return text.removeprefix("\r").rstrip()


def test_each_thing_has_a_line_that_is_rewritten_in_place(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal(80, 24, monkeypatch)
    progress = Progress(["opus", "haiku"], terminal)
    assert terminal.screen() == ["· opus   waiting", "· haiku  waiting"]
    progress.update(1, "starting")
    progress.update(0, "failed", "not logged in")
    progress.update(1, "started", "4f2a")
    assert terminal.screen() == ["✗ opus   failed       not logged in", "✓ haiku  started      4f2a"]
    assert "\x1b[31m" in terminal.getvalue()


def test_no_line_is_wrapped(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a wrapped line the cursor would go up too few rows."""
    terminal = Terminal(20, 24, monkeypatch)
    Progress(["a"], terminal).update(0, "failed", "x" * 100)
    assert all(len(line) < 20 for line in terminal.screen())


ID = "f0470c63-d984-4201-aa12-c3debd98fdcf  12.6 s"


def test_a_long_name_makes_room_for_an_id(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal(80, 24, monkeypatch)
    progress = Progress(["a-rather-long-model-name-1", "a-rather-long-model-name-2"], terminal)
    for n in (0, 1):
        progress.update(n, "started", ID)
    lines = terminal.screen()
    assert [line.endswith(f"  {ID}") for line in lines] == [True, True]
    assert lines[0] != lines[1]
    assert progress.is_complete
    assert not Progress(["a"], Terminal(60, 24, monkeypatch)).is_complete
    assert not Progress(["a"], io.StringIO()).is_complete


def test_a_note_is_shown_below(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal(80, 24, monkeypatch)
    progress = Progress(["a"], terminal)
    progress.show_note("interrupted")
    progress.update(0, "started")
    assert terminal.screen() == ["✓ a  started", "interrupted"]
    stream = io.StringIO()
    Progress(["a"], stream).show_note("interrupted")
    assert stream.getvalue() == "interrupted\n"


def test_more_lines_than_the_screen_has_are_printed_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal(80, 3, monkeypatch)
    Progress(["a", "b", "c"], terminal).update(2, "started", "x")
    assert terminal.getvalue() == "✓ c  started      x\n"


def test_without_a_terminal_each_update_is_a_line() -> None:
    stream = io.StringIO()
    progress = Progress(["opus", "haiku"], stream)
    progress.update(0, "starting")
    progress.update(0, "failed", "it said\n\x1b[31mno")
    assert stream.getvalue() == "opus   starting\nopus   failed       it said \\x1b[31mno\n"


def test_no_color_removes_colours(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal(80, 24, monkeypatch)
    monkeypatch.setenv("NO_COLOR", "1")
    Progress(["a"], terminal).update(0, "started")
    assert "\x1b[3" not in terminal.getvalue()


def test_a_closed_terminal_raises_nothing() -> None:
    ours, theirs = pty.openpty()
    stream = os.fdopen(theirs, "w")
    progress = Progress(["a"], stream)
    os.close(ours)
    progress.update(0, "started")
    progress.update(0, "failed")
    try:
        stream.close()
    except OSError:  # what is buffered cannot be written
        pass
