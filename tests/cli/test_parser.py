"""Parse the words of a verb."""

import argparse

import pytest

from agentctl.cli import parser as verb
from agentctl.cli.catalogue import VERBS
from agentctl.cli.runner import load_verb
from agentctl.errors import UsageError
from agentctl.text import measure_width
from tests.cli import hostile


@pytest.mark.parametrize("name", VERBS)
def test_help_has_examples_and_fits_eighty_columns(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    parser = load_verb(name).parser()
    for each in (parser, *parser.commands.values()):
        text = each.format_help()
        assert "examples:\n" in text, each.verb
        assert [line for line in text.splitlines() if measure_width(line) > 80] == []


@pytest.mark.parametrize("name", VERBS)
def test_help_has_no_colours(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """From Python 3.14 on argparse has its own."""
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert "\x1b" not in load_verb(name).parser().format_help()


def test_a_description_is_folded_and_examples_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    text = verb.Parser("x", f"{'some words ' * 9}\n\nmore", f"  {'long ' * 20}").format_help()
    assert max(map(measure_width, text.partition("options:")[0].splitlines())) <= 40
    assert "\n\nmore\n" in text
    assert "long " * 19 in text


@pytest.mark.parametrize(
    ("words", "read"),
    [
        (("lock", "release", "--force", "~/shop"), ["release", "~/shop"]),
        (("lock", "--ttl", "1h", "acquire", "."), ["acquire", "."]),
        (("lock", "--ttl", "1h", "x"), ["acquire", "x"]),
        (("worktree", "clean", "--dry-run", "shop"), ["clean", "shop"]),
        (("worktree", "--json"), ["list"]),
        (("resume", "4f2a", "--wait", "go on"), ["4f2a", "go on"]),
        (("unlock", "--json", "shop"), ["release", "shop"]),
        (("worktree", "list", "shop", "--json", "more"), ["list", "shop", "more"]),
    ],
    ids=" ".join,
)
def test_options_stand_anywhere(words: tuple[str, ...], read: list[str]) -> None:
    options = vars(load_verb(words[0]).parser().parse_words(list(words[1:])))
    values = [options.get(name) for name in ("action", "command", "id", "message", "directory")]
    assert [value for value in values if value is not None] + options.get("names", []) == read


def group(*, bare: str = "", otherwise: str = "") -> verb.Parser:
    parser = verb.Parser("pot", "A pot.", "  agentctl pot", bare=bare, otherwise=otherwise)
    verb.add_json(parser.add_command("list", "list pots"))
    fill = parser.add_command("fill", "fill a pot", "  agentctl pot fill x")
    fill.add_argument("name", nargs="?", default=".")
    fill.add_argument("--with", dest="content", metavar="TEXT")
    fill.add_argument("--full", action="store_true")
    return parser


@pytest.mark.parametrize(
    ("words", "read"),
    [
        ("", ("list", {"json": False})),
        ("--json", ("list", {"json": True})),
        ("list --json", ("list", {"json": True})),
        ("--json list", ("list", {"json": True})),
        ("fill", ("fill", {"name": ".", "content": None, "full": False})),
        ("fill --with list x", ("fill", {"name": "x", "content": "list", "full": False})),
        ("--with list fill --full x", ("fill", {"name": "x", "content": "list", "full": True})),
        ("--with=a x", ("fill", {"name": "x", "content": "a", "full": False})),
        ("-- list", ("fill", {"name": "list", "content": None, "full": False})),
    ],
)
def test_a_command_is_the_first_word(words: str, read: tuple[str, dict[str, object]]) -> None:
    options = vars(group(bare="list", otherwise="fill").parse_words(words.split()))
    assert (options.pop("command"), options) == read


@pytest.mark.parametrize(
    ("words", "message", "hint"),
    [
        ("fil", "unknown command 'pot fil'", "did you mean 'fill'?"),
        ("xyz", "unknown command 'pot xyz'", "commands: list, fill"),
        ("list --full", "pot list takes no --full", "see: agentctl pot list --help"),
        ("--with=a", "pot list takes no --with", "see: agentctl pot list --help"),
        ("fill a b", "unrecognized arguments: b", "see: agentctl pot fill --help"),
        ("fill --x", "unrecognized arguments: --x", "see: agentctl pot fill --help"),
    ],
)
def test_words_that_no_command_takes_are_usage_errors(words: str, message: str, hint: str) -> None:
    with pytest.raises(UsageError) as error:
        group(bare="list").parse_words(words.split())
    assert (str(error.value), error.value.hint) == (message, hint)


def test_a_missing_command_is_a_usage_error() -> None:
    with pytest.raises(UsageError, match="missing command: one of list, fill"):
        group().parse_words([])


@pytest.mark.parametrize(
    ("words", "usage"),
    [
        ("--help", "usage: agentctl pot [COMMAND]"),
        ("-h", "usage: agentctl pot [COMMAND]"),
        ("fill --help", "usage: agentctl pot fill [-h]"),
        ("--help fill", "usage: agentctl pot fill [-h]"),
    ],
)
def test_help_on_a_command(words: str, usage: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        group(bare="list").parse_words(words.split())
    text = capsys.readouterr().out
    assert text.startswith(usage)
    assert "examples:" in text


def test_help_lists_the_commands() -> None:
    text = group(bare="list").format_help()
    assert "  list  list pots (the default)\n" in text
    assert "  fill  fill a pot\n" in text


@pytest.mark.parametrize("text", ["1", "20"])
def test_counts_are_read(text: str) -> None:
    assert verb.parse_count(text) == int(text)


@pytest.mark.parametrize("text", ["0", "-1", "", "x", "1.5", "²", "9" * 5000])
def test_a_text_that_is_no_count_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="not a whole number above 0"):
        verb.parse_count(text)


def test_a_session_verb_takes_an_id_json_and_a_deadline() -> None:
    parser = argparse.ArgumentParser()
    verb.add_session(parser)
    options = parser.parse_args(["4f2a", "--json", "--deadline", "3s"])
    assert (options.id, options.json, options.deadline) == ("4f2a", True, 3.0)
    assert parser.parse_args(["4f2a"]).deadline is None


def sessions_parser() -> verb.SessionsParser:
    parser = verb.SessionsParser("stop", "", "")
    parser.add_argument("--force", action="store_true")
    return parser


def test_options_may_stand_between_the_ids() -> None:
    options = sessions_parser().parse_words(["a", "--force", "b"])
    assert (options.id, options.force, options.group) == (["a", "b"], True, None)


@pytest.mark.parametrize("words", [[], ["a", "--group", "g"], ["--group", ""]])
def test_either_ids_or_a_group_is_needed(words: list[str]) -> None:
    with pytest.raises(UsageError, match="give either session ids"):
        sessions_parser().parse_words(words)


def test_event_filters_are_read() -> None:
    parser = argparse.ArgumentParser()
    verb.add_event_filters(parser)
    words = ["--adapter", "pi", "--adapter", "codex", "--type", "lock", "--group", "g"]
    options = parser.parse_args(words)
    assert (options.type, options.adapter, options.group) == (["lock.*"], ["pi", "codex"], "g")
    options = parser.parse_args([])
    assert (options.type, options.adapter, options.group) == ([], [], None)


def test_a_warning_is_one_line_on_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    verb.warn("the disk is full:\n\x1b[2Jdelete something")
    verb.warn_if(None)
    output = capsys.readouterr()
    assert (output.out, output.err.count("\n")) == ("", 1)
    assert output.err.startswith("agentctl: the disk is full: ")
    assert hostile.harmful(output.err) == []
