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
def test_a_clean_line_is_one_harmless_line(given_text: str) -> None:
    line = text.clean_line(given_text)
    assert hostile.harmful(line) == []
    assert len(line.splitlines()) <= 1
    line.encode()  # no lone surrogate is left


@given(ANY_TEXT)
def test_a_clean_line_stays_as_it_is(given_text: str) -> None:
    line = text.clean_line(given_text)
    assert text.clean_line(line) == line


@given(ANY_TEXT)
def test_clean_lines_are_harmless(given_text: str) -> None:
    for line in text.clean_lines(given_text):
        assert hostile.harmful(line) == []
        assert "\n" not in line


def test_what_is_hidden_is_shown_as_its_code() -> None:
    assert text.clean_line("a\x1b[0m\u202eb\ud800\x00") == "a\\x1b[0m\\u202eb\\ud800\\x00"
    assert text.clean_line("x\ufe01\U000e0100") == "x\\ufe01\\ue0100"


def test_white_space_is_folded() -> None:
    assert text.clean_line("  a\n\n b\t\u2028c\u3000d ") == "a b c d"


def test_lines_and_tabs_are_kept() -> None:
    assert text.clean_lines("a\n\tb\n\n\x1bc") == ["a", "    b", "", "\\x1bc"]


def test_an_emoji_keeps_its_shape_without_its_selector() -> None:
    assert text.clean_line("❤\ufe0f") == "❤"


@pytest.mark.parametrize(
    ("line", "columns"),
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
def test_width(line: str, columns: int) -> None:
    assert text.measure_width(line) == columns


@given(ANY_TEXT, st.integers(0, 40))
def test_a_cut_text_fits(given_text: str, columns: int) -> None:
    line = text.clean_line(given_text)
    for fit in (text.cut, text.cut_front, text.cut_middle):
        cut = fit(line, columns)
        assert text.measure_width(cut) <= columns
        assert text.measure_width(line) > columns or cut == line  # cut only if it must be
        assert columns == 0 or cut == line or text.ELLIPSIS in cut  # and it shows


def test_cutting_keeps_the_beginning_or_the_end() -> None:
    assert text.cut("abcdef", 4) == "abc…"
    assert text.cut_front("/home/me/work", 6) == "…/work"
    assert text.cut("漢字漢字", 4) == "漢…"  # half a character is none
    assert text.cut_middle("model-number-10-long", 12) == "model-…-long"
    assert text.cut_middle("abc", 2) == "a…"


@given(ANY_TEXT, st.integers(0, 40))
def test_a_padded_text_fills(given_text: str, columns: int) -> None:
    cut = text.cut(text.clean_line(given_text), columns)
    assert text.measure_width(text.pad(cut, columns)) == columns


@pytest.mark.parametrize(
    ("path", "home", "short"),
    [
        ("/home/me/x", "/home/me", "~/x"),
        ("/home/me/x", "/home/me/", "~/x"),
        ("/home/me", "/home/me", "~"),
        ("/home/melanie", "/home/me", "/home/melanie"),
        ("/etc", "/", "/etc"),
        ("/etc", None, "/etc"),
    ],
)
def test_tilde(path: str, home: str | None, short: str) -> None:
    assert text.shorten_home(path, home) == short


@pytest.mark.parametrize(
    ("sentence", "short"),
    [
        ("bound by pid record: /home/me/.claude/1.json", "bound by pid record: ~/.claude/1.json"),
        ("/home/me/a and '/home/me/b'", "~/a and '~/b'"),
        ("bound by held open: /proc/16/root/home/me/.codex/x", None),
        ("/mnt/home/me/x, /home/meme/x", None),
    ],
)
def test_tildes_in_a_sentence(sentence: str, short: str | None) -> None:
    assert text.shorten_homes(sentence, "/home/me") == (short or sentence)
    assert text.shorten_homes(sentence, None) == text.shorten_homes(sentence, "/") == sentence


@pytest.mark.parametrize("given_columns", ["", "0", "-3", "x", "²", "٣", " 7"])
def test_columns_that_are_none(monkeypatch: pytest.MonkeyPatch, given_columns: str) -> None:
    monkeypatch.setenv("COLUMNS", given_columns)
    monkeypatch.setattr(sys, "stdout", io.StringIO())
    assert text.terminal_columns() == 200


@pytest.mark.parametrize(("given_columns", "columns"), [("72", 72), ("9" * 5000, 999999)])
def test_columns_that_are_given(
    monkeypatch: pytest.MonkeyPatch, given_columns: str, columns: int
) -> None:
    monkeypatch.setenv("COLUMNS", given_columns)
    assert text.terminal_columns() == columns


def test_colour_only_on_a_terminal_that_wants_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    ours, theirs = pty.openpty()
    with os.fdopen(theirs, "w") as terminal:
        monkeypatch.setattr(sys, "stdout", terminal)
        assert text.has_colour()
        monkeypatch.setenv("TERM", "dumb")
        assert not text.has_colour()
        monkeypatch.setenv("TERM", "xterm")
        monkeypatch.setenv("NO_COLOR", "1")
        assert not text.has_colour()
    os.close(ours)
    monkeypatch.delenv("NO_COLOR")
    monkeypatch.setattr(sys, "stdout", io.StringIO())
    assert not text.has_colour()


def test_paint() -> None:
    assert text.paint("x", "red", on=True) == "\x1b[31mx\x1b[0m"
    assert text.paint("x", "red", on=False) == "x"
    assert text.paint("x", "", on=True) == "x"


def test_the_hostile_text_is_hostile() -> None:
    """Otherwise the tests that use it would prove nothing."""
    kinds = {unicodedata.category(c) for c in hostile.ALL}
    assert {"Cc", "Cf", "Cs", "Zl", "Zp", "Mn", "Me"} <= kinds


# Printed as it is, and why.
AS_IT_IS = {
    # harmless where it is raised, which is looked at as well
    ("__main__.py", "''.join((f'agentctl: {message}\\n' for message in interrupt.args))"),
    ("runner.py", "answer.err"),  # from `format_problems` and `error_answer`
    # the daemon's answer, made by the same functions; our own word
    ("fast_client.py", "out"),
    ("fast_client.py", "err"),
    ("fast_client.py", "f'agentctl: not answered by the daemon: {reason or type(reason).__name__}\\n'"),
    # others are left out
    ("completion.py", "''.join((f'{name}\\n' for name in names if name and is_plain(name)))"),
    ("config.py", "file"),  # the path of our own settings, for a script to use
    (
        "doctor.py",
        "f\"\\n{report['wrong']} wrong\" if report['wrong'] else '\\nnothing is wrong'",
    ),  # a number
    # names of adapters that we know, and words of our own recipes
    ("doctor.py", "f'{name} {rest}'"),
    ("doctor.py", "f\"  {act:<16}{step['step']:<12}{step['expected']:<9}{state}{more}\""),
    ("doctor.py", "f\"{agent['adapter']} {state}{count}{text.clean_line(reason)}\""),
}


def test_everything_printed_is_made_harmless_first() -> None:
    """Look into the source for prints of other people's text as it is."""
    sources = [Path(agentctl.__file__).parent / "__main__.py"]
    sources += sorted((Path(agentctl.__file__).parent / "cli").rglob("*.py"))
    prints = {each for path in sources for each in offences(path)}
    assert prints == {(name, respell(expression)) for name, expression in AS_IT_IS}


def test_a_print_of_what_others_wrote_is_found(tmp_path: Path) -> None:
    source = tmp_path / "verb.py"
    source.write_text(
        "def run(session, title):\n"
        "    print('ours', 3, f'{len(title)} of {session.pid}')\n"
        "    print(clean_line(title))\n"
        "    shown = clean_line(title)\n"
        "    print(f'  {shown}', '\\n'.join(clean_line(each) for each in session))\n"
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


def test_a_long_list_says_how_many_more() -> None:
    assert text.join_some(["a", "b"], 2) == "a, b"
    assert text.join_some(["a", "b", "c", "d"], 2) == "a, b and 2 more"
    assert text.join_some([], 2) == ""
