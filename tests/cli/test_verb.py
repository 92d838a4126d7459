"""Run one verb: an error is one line, a hint and an exit code."""

import argparse

import pytest

from agentctl.cli import ask, verb
from agentctl.cli.catalogue import VERBS
from agentctl.cli.text import width
from agentctl.errors import NotFound, Refused, StartFailed, UsageError
from tests.cli import hostile


@pytest.mark.parametrize("name", VERBS)
def test_every_verb_of_the_catalogue_is_there(name: str) -> None:
    found = verb.find(name)
    parser = found.parser()
    assert parser.prog == f"agentctl {name}"
    assert "examples:" in parser.format_help()


@pytest.mark.parametrize("name", VERBS)
def test_help_fits_a_terminal_of_eighty_columns(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    shown = verb.find(name).parser().format_help().splitlines()
    assert [line for line in shown if width(line) > 80] == []


def test_a_description_is_folded_and_examples_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    shown = verb.Parser("x", f"{'some words ' * 9}\n\nmore", f"  {'long ' * 20}").format_help()
    assert max(map(width, shown.partition("options:")[0].splitlines())) <= 40
    assert "\n\nmore\n" in shown
    assert "long " * 19 in shown


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("statsu", "did you mean 'status'?"),
        ("lanch", "did you mean 'launch'?"),
        ("tsop", "did you mean 'stop'?"),
        ("start", "did you mean 'launch'?"),
        ("kill", "did you mean 'stop'?"),
        ("ps", "did you mean 'list'?"),
        ("xyz", "agentctl --help lists the verbs"),
        ("", "agentctl --help lists the verbs"),
    ],
)
def test_an_unknown_verb(name: str, hint: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert verb.run(name, []) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert f"agentctl: no verb {name!r}" in shown.err
    assert hint in shown.err


def test_what_other_tools_call_it_is_a_verb_of_ours() -> None:
    assert set(verb.ELSEWHERE.values()) <= set(VERBS)
    assert not set(verb.ELSEWHERE) & set(VERBS)


@pytest.mark.parametrize(
    ("words", "read"),
    [
        (("lock", "release", "--force", "~/shop"), ["release", "~/shop"]),
        (("lock", "--ttl", "1h", "acquire", "."), ["acquire", "."]),
        (("worktree", "clean", "--dry-run", "shop"), ["clean", "shop"]),
        (("worktree", "--json"), ["list"]),
        (("resume", "4f2a", "--wait", "go on"), ["4f2a", "go on"]),
        (("unlock", "--json", "shop"), ["shop"]),
        (("worktree", "list", "shop", "--json", "more"), ["list", "shop", "more"]),
    ],
    ids=" ".join,
)
def test_options_stand_anywhere(words: tuple[str, ...], read: list[str]) -> None:
    given = verb.find(words[0]).parser().parse_words(list(words[1:]))
    told = [vars(given).get(name) for name in ("action", "id", "message", "directory")]
    several = [*vars(given).get("words", ()), *vars(given).get("names", ())]
    assert [word for word in told if word is not None] + several == read


def test_no_module_is_a_verb_by_accident() -> None:
    for name in ("__init__", "../verb", "os", "-"):
        with pytest.raises(UsageError):
            verb.find(name)


class _Raising:
    def __init__(self, error: Exception) -> None:
        self._error = error

    def parser(self) -> argparse.ArgumentParser:
        return verb.Parser("x", "x", "x")

    def run(self, arguments: argparse.Namespace) -> int:
        raise self._error


@pytest.mark.parametrize(
    ("error", "code"), [(NotFound("a", "b"), 3), (Refused("a", "b"), 4), (UsageError("a", "b"), 2)]
)
def test_an_error_is_a_line_a_hint_and_a_code(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], error: Exception, code: int
) -> None:
    monkeypatch.setattr(verb, "find", lambda _: _Raising(error))
    assert verb.run("x", []) == code
    assert capsys.readouterr().err == "agentctl: a\n  b\n"


def test_what_an_agent_said_is_cut(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    said = ("no such model" + " at x" * 999,)
    monkeypatch.setattr(verb, "find", lambda _: _Raising(StartFailed("a", said=said)))
    assert verb.run("x", []) == 1
    shown = capsys.readouterr().err.splitlines()[1]
    assert shown.startswith("  | no such model at x")
    assert len(shown) <= ask.SAID + 4


def test_an_error_carries_no_harm(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(verb, "find", lambda _: _Raising(NotFound(hostile.ALL, hostile.ALL)))
    assert verb.run("x", []) == 3
    err = capsys.readouterr().err
    assert hostile.harmful(err) == []
    assert len(err.splitlines()) == 2


def test_debugging_shows_where_it_came_from(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENTCTL_DEBUG", "1")
    with pytest.raises(UsageError):
        verb.run("nosuch", [])


def test_what_a_parser_dislikes_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert verb.run("status", []) == 2
    err = capsys.readouterr().err
    assert "required: ID" in err
    assert "see: agentctl status --help" in err
    assert verb.run("list", ["--jso"]) == 2  # an abbreviation today is an ambiguity tomorrow
