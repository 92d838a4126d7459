"""Progress of several things at once."""

import io
import os
import pty

import pytest

from agentctl.view.progress import Progress


class Terminal(io.StringIO):
    """One of that size, as far as anybody asks; `screen` is what a person sees."""

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
        at = 0
        for part in self.getvalue().replace("\x1b[K", "").split("\n"):
            text = part
            while text.startswith("\x1b[") and "A" in text[:6]:
                up, _, text = text[2:].partition("A")
                at -= int(up)
            if text or at < len(rows):
                rows[at : at + 1] = [_plain(text)] if text else rows[at : at + 1]
            at += 1
        return rows


def _plain(text: str) -> str:
    for code in (*range(31, 37), 2, 1, 0):
        text = text.replace(f"\x1b[{code}m", "")
    return text.removeprefix("\r").rstrip()


def test_one_line_each_rewritten_in_place(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal(80, 24, monkeypatch)
    shown = Progress(["opus", "haiku"], terminal)
    assert terminal.screen() == ["· opus   waiting", "· haiku  waiting"]
    shown.tell(1, "starting")
    shown.tell(0, "failed", "not logged in")
    shown.tell(1, "started", "4f2a")
    assert terminal.screen() == ["✗ opus   failed       not logged in", "✓ haiku  started      4f2a"]
    assert "\x1b[31m" in terminal.getvalue()


def test_no_line_is_wrapped(monkeypatch: pytest.MonkeyPatch) -> None:
    """A line that takes two would be missed by the next step up."""
    terminal = Terminal(20, 24, monkeypatch)
    Progress(["a"], terminal).tell(0, "failed", "x" * 100)
    assert all(len(line) < 20 for line in terminal.screen())


ID = "f0470c63-d984-4201-aa12-c3debd98fdcf  12.6 s"


def test_a_long_name_makes_room_for_an_id(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal(80, 24, monkeypatch)
    shown = Progress(["a-rather-long-model-name-1", "a-rather-long-model-name-2"], terminal)
    for n in (0, 1):
        shown.tell(n, "started", ID)
    lines = terminal.screen()
    assert [line.endswith(f"  {ID}") for line in lines] == [True, True]
    assert lines[0] != lines[1]
    assert shown.whole
    assert not Progress(["a"], Terminal(60, 24, monkeypatch)).whole
    assert not Progress(["a"], io.StringIO()).whole


def test_a_note_stands_below(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal(80, 24, monkeypatch)
    shown = Progress(["a"], terminal)
    shown.say("interrupted")
    shown.tell(0, "started")
    assert terminal.screen() == ["✓ a  started", "interrupted"]
    stream = io.StringIO()
    Progress(["a"], stream).say("interrupted")
    assert stream.getvalue() == "interrupted\n"


def test_more_than_the_screen_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal(80, 3, monkeypatch)
    Progress(["a", "b", "c"], terminal).tell(2, "started", "x")
    assert terminal.getvalue() == "✓ c  started      x\n"


def test_without_a_terminal() -> None:
    stream = io.StringIO()
    shown = Progress(["opus", "haiku"], stream)
    shown.tell(0, "starting")
    shown.tell(0, "failed", "it said\n\x1b[31mno")
    assert stream.getvalue() == "opus   starting\nopus   failed       it said \\x1b[31mno\n"


def test_no_colour(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal(80, 24, monkeypatch)
    monkeypatch.setenv("NO_COLOR", "1")
    Progress(["a"], terminal).tell(0, "started")
    assert "\x1b[3" not in terminal.getvalue()


def test_nobody_looks_any_more() -> None:
    ours, theirs = pty.openpty()
    stream = os.fdopen(theirs, "w")
    shown = Progress(["a"], stream)
    os.close(ours)
    shown.tell(0, "started")
    shown.tell(0, "failed")
    try:
        stream.close()
    except OSError:  # what was not written cannot be
        pass
