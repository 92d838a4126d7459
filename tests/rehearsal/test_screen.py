"""The screen shows what a terminal would, and answers the queries of programs as one."""

import pytest

from agentctl.rehearsal.screen import UNFINISHED, Screen


def render(text: str, columns: int = 20, lines: int = 4) -> str:
    screen = Screen(columns, lines)
    screen.feed(text.encode())
    return screen.text


@pytest.mark.parametrize(
    ("output", "text"),
    [
        ("one\r\ntwo", "one\ntwo"),
        ("one\rtwo", "two"),
        ("colour \x1b[1;31mred\x1b[0m", "colour red"),
        ("\x1b[2;3Hhere", "\n  here"),
        ("\x1b[2;3fhere", "\n  here"),
        ("abc\x1b[Db", "abb"),
        ("abc\x1b[2Gx", "axc"),
        ("a\x1b[3dx", "a\n\n x"),
        ("a\x1b[3Cx", "a   x"),
        ("a\x1b[Bx\x1b[Ay", "a y\n x"),
        ("a\x1b[Ex\x1b[Fy", "y\nx"),
        ("abcdef\x1b[3G\x1b[K", "ab"),
        ("abcdef\x1b[3G\x1b[1K", "   def"),
        ("abcdef\x1b[2K", ""),
        ("abcdef\x1b[3G\x1b[2P", "abef"),
        ("abcdef\x1b[3G\x1b[2@", "ab  cdef"),
        ("abcdef\x1b[3G\x1b[2X", "ab  ef"),
        ("a\r\nb\r\nc\x1b[2;1H\x1b[J", "a"),
        ("a\r\nb\r\nc\x1b[2;1H\x1b[1J", "\n\nc"),
        ("a\r\nb\x1b[2J", ""),
        ("a\r\nb\r\nc\x1b[1;1H\x1b[M", "b\nc"),
        ("a\r\nb\r\nc\x1b[2;1H\x1b[Lx", "a\nx\nb\nc"),
        ("a\r\nb\r\nc\r\nd\r\ne", "b\nc\nd\ne"),
        ("a\r\nb\x1b[S", "b"),
        ("a\r\nb\x1b[T", "\na\nb"),
        ("a\r\nb\x1b[H\x1bMc", "c\na\nb"),
        ("\x1b[2;3rx\x1b[3;1Hy\nz\nw", "x\n z\n  w"),
        ("a\x1b7b\x1b8c", "ac"),
        ("a\x1b[sb\x1b[uc", "ac"),
        ("abcd\b\bx", "abxd"),
        ("a\tb", "a       b"),
        ("12345678901234567890ab", "12345678901234567890\nab"),
        ("\N{CJK UNIFIED IDEOGRAPH-4E2D}x\x1b[3Gy", "\N{CJK UNIFIED IDEOGRAPH-4E2D}y"),
        ("e\N{COMBINING ACUTE ACCENT}x", "ex"),
        ("\x1b(B\x1b=\x1b>plain", "plain"),
        ("\x1b]8;;http://x\x1b\\link\x1b]8;;\x07", "link"),
        ("\x1bPq#0;2\x1b\\after", "after"),
        ("kept\x1b[?1049hother\x1b[?1049l", "kept"),
        ("kept\x1b[?1049hother", "    other"),
        ("gone\x1bcnew", "new"),
    ],
)
def test_it_shows_what_a_terminal_shows(output: str, text: str) -> None:
    assert render(output) == text


def test_a_sequence_cut_into_bytes_is_put_together() -> None:
    screen = Screen(20, 4)
    output = "\x1b[31m\N{HEAVY RIGHT-POINTING ANGLE QUOTATION MARK ORNAMENT}\x1b]0;a title\x07".encode()
    for byte in output:
        screen.feed(bytes([byte]))
    assert (screen.text, screen.title) == (
        "\N{HEAVY RIGHT-POINTING ANGLE QUOTATION MARK ORNAMENT}",
        "a title",
    )


def test_a_sequence_without_an_end_is_given_up() -> None:
    screen = Screen(20, 4)
    screen.feed(b"\x1b]0;" + b"x" * UNFINISHED + b"\x1b[Hhere")
    assert "here" in screen.text


@pytest.mark.parametrize(
    ("query", "answer"),
    [
        ("ab\x1b[6n", "\x1b[1;3R"),
        ("ab\x1b[?6n", "\x1b[?1;3R"),
        ("\x1b[5n", "\x1b[0n"),
        ("\x1b[c", "\x1b[?62;22c"),
        ("\x1b[>c", "\x1b[>0;276;0c"),
        ("\x1b[>0q", "\x1bP>|agentctl\x1b\\"),
        ("\x1b[?2026$p", "\x1b[?2026;0$y"),
        ("\x1b[18t", "\x1b[8;4;20t"),
        ("\x1b[14t", "\x1b[4;80;200t"),
        ("\x1b[16t", "\x1b[6;20;10t"),
        ("\x1b]10;?\x07", "\x1b]10;rgb:ffff/ffff/ffff\x1b\\"),
        ("\x1b]11;?\x1b\\", "\x1b]11;rgb:0000/0000/0000\x1b\\"),
        ("\x1b]4;7;?\x07", "\x1b]4;7;rgb:8080/8080/8080\x1b\\"),
        ("\x1bP+q544e\x1b\\", "\x1bP0+r\x1b\\"),
        ("\x1bP$qm\x1b\\", "\x1bP0$r\x1b\\"),
        ("\x1b[?u", ""),  # no kitty keyboard: plain keys will do
        ("\x1b[31mred", ""),
    ],
)
def test_it_answers_as_a_terminal_answers(query: str, answer: str) -> None:
    assert Screen(20, 4).feed(query.encode()).decode() == answer
