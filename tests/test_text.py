"""Other people's text on our terminal."""

import io
import os
import pty
import sys
import unicodedata
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import agentctl
from agentctl import text
from tests.cli import hostile
from tests.cli.printed import offences, respell

ANY_TEXT = st.text(st.characters(exclude_categories=()), max_size=60)


@given(ANY_TEXT)
def test_one_line_is_one_harmless_line(given_text: str) -> None:
    shown = text.one_line(given_text)
    assert hostile.harmful(shown) == []
    assert len(shown.splitlines()) <= 1
    shown.encode()  # no lone surrogate is left


@given(ANY_TEXT)
def test_one_line_of_one_line_is_itself(given_text: str) -> None:
    shown = text.one_line(given_text)
    assert text.one_line(shown) == shown


@given(ANY_TEXT)
def test_many_lines_are_harmless_lines(given_text: str) -> None:
    for line in text.many_lines(given_text):
        assert hostile.harmful(line) == []
        assert "\n" not in line


def test_what_is_hidden_is_shown_as_its_code() -> None:
    assert text.one_line("a\x1b[0m\u202eb\ud800\x00") == "a\\x1b[0m\\u202eb\\ud800\\x00"
    assert text.one_line("x\ufe01\U000e0100") == "x\\ufe01\\ue0100"


def test_white_space_is_folded() -> None:
    assert text.one_line("  a\n\n b\t\u2028c\u3000d ") == "a b c d"


def test_lines_and_tabs_are_kept() -> None:
    assert text.many_lines("a\n\tb\n\n\x1bc") == ["a", "    b", "", "\\x1bc"]


def test_an_emoji_keeps_its_shape_without_its_selector() -> None:
    assert text.one_line("❤\ufe0f") == "❤"


@pytest.mark.parametrize(
    ("shown", "columns"),
    [
        ("", 0),
        ("abc", 3),
        ("漢字", 4),
        ("\uff46", 2),
        ("e\u0301\u0302", 1),
        ("ก\u0e34\u0e48", 1),  # Thai marks: of combining class 0 or not, they take no column
        ("a\u20dd", 1),
        ("\u1112\u1161\u11ab", 2),  # one Hangul syllable in three pieces
        ("👍", 2),
        ("שלום", 4),
        ("…", 1),
    ],
)
def test_width(shown: str, columns: int) -> None:
    assert text.width(shown) == columns


@given(ANY_TEXT, st.integers(0, 40))
def test_a_cut_text_fits(given_text: str, columns: int) -> None:
    shown = text.one_line(given_text)
    for fit in (text.cut, text.cut_front, text.cut_middle):
        cut = fit(shown, columns)
        assert text.width(cut) <= columns
        assert text.width(shown) > columns or cut == shown  # cut only if it must be
        assert columns == 0 or cut == shown or text.ELLIPSIS in cut  # and it shows


def test_cutting_keeps_the_beginning_or_the_end() -> None:
    assert text.cut("abcdef", 4) == "abc…"
    assert text.cut_front("/home/me/work", 6) == "…/work"
    assert text.cut("漢字漢字", 4) == "漢…"  # half a character is none
    assert text.cut_middle("model-number-10-long", 12) == "model-…-long"
    assert text.cut_middle("abc", 2) == "a…"


@given(ANY_TEXT, st.integers(0, 40))
def test_a_padded_text_fills(given_text: str, columns: int) -> None:
    cut = text.cut(text.one_line(given_text), columns)
    assert text.width(text.pad(cut, columns)) == columns


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(-5, "0s"), (0, "0s"), (59.9, "59s"), (60, "1m"), (3599, "59m"), (7200, "2h"), (86400 * 9, "9d")],
)
def test_age(seconds: float, shown: str) -> None:
    assert text.age(seconds) == shown


@pytest.mark.parametrize(
    ("path", "home", "shown"),
    [
        ("/home/me/x", "/home/me", "~/x"),
        ("/home/me/x", "/home/me/", "~/x"),
        ("/home/me", "/home/me", "~"),
        ("/home/melanie", "/home/me", "/home/melanie"),
        ("/etc", "/", "/etc"),
        ("/etc", None, "/etc"),
    ],
)
def test_tilde(path: str, home: str | None, shown: str) -> None:
    assert text.tilde(path, home) == shown


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("bound by pid record: /home/me/.claude/1.json", "bound by pid record: ~/.claude/1.json"),
        ("/home/me/a and '/home/me/b'", "~/a and '~/b'"),
        ("bound by held open: /proc/16/root/home/me/.codex/x", None),
        ("/mnt/home/me/x, /home/meme/x", None),
    ],
)
def test_tildes_in_a_sentence(said: str, shown: str | None) -> None:
    assert text.tildes(said, "/home/me") == (shown or said)
    assert text.tildes(said, None) == text.tildes(said, "/") == said


@pytest.mark.parametrize("given_columns", ["", "0", "-3", "x", "²", "٣", " 7"])
def test_columns_that_are_none(monkeypatch: pytest.MonkeyPatch, given_columns: str) -> None:
    monkeypatch.setenv("COLUMNS", given_columns)
    monkeypatch.setattr(sys, "stdout", io.StringIO())
    assert text.columns() == 200


@pytest.mark.parametrize(("given_columns", "columns"), [("72", 72), ("9" * 5000, 999999)])
def test_columns_that_are_given(
    monkeypatch: pytest.MonkeyPatch, given_columns: str, columns: int
) -> None:
    monkeypatch.setenv("COLUMNS", given_columns)
    assert text.columns() == columns


def test_colour_only_on_a_terminal_that_wants_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    ours, theirs = pty.openpty()
    with os.fdopen(theirs, "w") as terminal:
        monkeypatch.setattr(sys, "stdout", terminal)
        assert text.coloured()
        monkeypatch.setenv("TERM", "dumb")
        assert not text.coloured()
        monkeypatch.setenv("TERM", "xterm")
        monkeypatch.setenv("NO_COLOR", "1")
        assert not text.coloured()
    os.close(ours)
    monkeypatch.delenv("NO_COLOR")
    monkeypatch.setattr(sys, "stdout", io.StringIO())
    assert not text.coloured()


def test_paint() -> None:
    assert text.paint("x", "red", on=True) == "\x1b[31mx\x1b[0m"
    assert text.paint("x", "red", on=False) == "x"
    assert text.paint("x", "", on=True) == "x"


def test_the_hostile_text_is_hostile() -> None:
    """Lest the tests that use it prove nothing."""
    kinds = {unicodedata.category(c) for c in hostile.ALL}
    assert {"Cc", "Cf", "Cs", "Zl", "Zp", "Mn", "Me"} <= kinds


# Printed as it is, and why.
AS_IT_IS = {
    # harmless where it is raised, which is looked at as well
    ("__main__.py", "''.join((f'agentctl: {told}\\n' for told in interrupt.args))"),
    ("answer.py", "answer.err"),  # made of `footer` and `failed`
    # the daemon's answer, made by the same functions; our own word
    ("fast_client.py", "out"),
    ("fast_client.py", "err"),
    ("fast_client.py", "f'agentctl: not by the daemon: {why or type(why).__name__}\\n'"),
    # others are left out
    ("completion.py", "''.join((f'{name}\\n' for name in names if name and harmless(name)))"),
    ("config.py", "file"),  # the path of our own settings, for a script to use
    # words of our own recipes
    ("rehearsed.py", "f'{head} {told}'"),
    ("rehearsed.py", "f\"  {act:<16}{step['step']:<12}{step['expected']:<9}{state}{more}\""),
    ("rehearsed.py", "f\"{agent['adapter']} {state}{count}{text.one_line(why)}\""),
}


def test_whatever_is_printed_is_made_harmless_first() -> None:
    """Looks into the source for prints of what others wrote, as it is."""
    sources = [Path(agentctl.__file__).parent / "__main__.py"]
    sources += sorted((Path(agentctl.__file__).parent / "cli").rglob("*.py"))
    found = {each for path in sources for each in offences(path)}
    assert found == {(name, respell(expression)) for name, expression in AS_IT_IS}


def test_a_print_of_what_others_wrote_is_found(tmp_path: Path) -> None:
    source = tmp_path / "verb.py"
    source.write_text(
        "def run(session, title):\n"
        "    print('ours', 3, f'{len(title)} of {session.pid}')\n"
        "    print(one_line(title))\n"
        "    shown = one_line(title)\n"
        "    print(f'  {shown}', '\\n'.join(one_line(each) for each in session))\n"
        "    print(f'took {session.length:.1f} s')\n"
        "    print(title)\n"
        "    raw = title\n"
        "    print(f'its title is {raw}')\n"
        "    print('\\n'.join(f'- {each}' for each in session), file=sys.stderr)\n"
        "    sys.stdout.write(paint(title, 'red'))\n"
    )
    assert set(offences(source)) == {
        ("verb.py", "title"),
        ("verb.py", "f'its title is {raw}'"),
        ("verb.py", "'\\n'.join((f'- {each}' for each in session))"),
        ("verb.py", "paint(title, 'red')"),
    }
