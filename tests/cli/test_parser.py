"""Run one verb: an error is one line, a hint and an exit code."""

import argparse
import subprocess
import sys
import time

import pytest

from agentctl.cli import answer
from agentctl.cli import parser as verb
from agentctl.cli.catalogue import VERBS
from agentctl.errors import NotFound, Refused, StartFailed, UsageError
from agentctl.text import width
from tests.cli import hostile
from tests.fakes.containers import UNSHARE, need_containers
from tests.fakes.demo import DemoStage
from tests.running import Ran, environ_of


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


@pytest.mark.parametrize("name", VERBS)
def test_help_has_no_colours(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """From Python 3.14 on argparse has its own."""
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert "\x1b" not in verb.find(name).parser().format_help()


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
    assert len(shown) <= answer.SAID + 4


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


def sh(stage: DemoStage, script: str, *before: str) -> Ran:
    """A script that calls agentctl as "$@"."""
    done = subprocess.run(
        [*before, "sh", "-c", script, "sh", sys.executable, "-P", "-m", "agentctl"],
        env=environ_of(stage),
        cwd=stage.root,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return Ran(done.returncode, done.stdout, done.stderr)


@pytest.mark.parametrize(
    "words",
    [
        "list --cwd .",
        "list -a --cwd x --json",
        "worktree",
        "worktree clean a-branch",
        "launch demo -p x",
    ],
)
def test_in_a_directory_that_was_deleted(stage: DemoStage, words: str) -> None:
    stage.start()
    ran = sh(stage, f'mkdir gone; cd gone; rmdir ../gone; "$@" {words}')
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith("agentctl: the current directory was deleted\n")
    assert len(ran.err.splitlines()) == 2


def test_elsewhere_a_file_that_is_not_found_is_our_mistake(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verb, "find", lambda _: _Raising(FileNotFoundError("nosuch")))
    with pytest.raises(FileNotFoundError):
        verb.run("x", [])


@pytest.mark.parametrize(
    ("hide", "why"),
    [
        ("mount -t tmpfs none /proc", "No such file or directory"),
        ("mount --bind /dev/null /proc/sys/kernel/random/boot_id", "empty"),
    ],
)
@pytest.mark.parametrize(
    "words", ["list", "list -a --json", "stop pid:1", "wait x", "doctor", "worktree"]
)
def test_where_the_kernel_tells_nothing(stage: DemoStage, hide: str, why: str, words: str) -> None:
    need_containers()
    ran = sh(stage, f'{hide} && "$@" {words}', *UNSHARE)
    assert (ran.code, ran.out) == (5, "")
    assert ran.err.startswith(f"agentctl: /proc/sys/kernel/random/boot_id: {why}\n")
    assert len(ran.err.splitlines()) == 2


def test_an_age_is_the_moment_that_long_ago() -> None:
    before = time.time()
    moment = verb.parse_age("1h")
    assert before - 3600 <= moment <= time.time() - 3600


@pytest.mark.parametrize("text", ["1", "20"])
def test_count(text: str) -> None:
    assert verb.parse_count(text) == int(text)


@pytest.mark.parametrize("text", ["0", "-1", "", "x", "1.5", "²", "9" * 5000])
def test_not_a_count(text: str) -> None:
    with pytest.raises(UsageError, match="not a whole number above 0"):
        verb.parse_count(text)


def test_a_session_verb_takes_an_id_json_and_a_deadline() -> None:
    parser = argparse.ArgumentParser()
    verb.add_session(parser)
    given = parser.parse_args(["4f2a", "--json", "--deadline", "3s"])
    assert (given.id, given.json, given.deadline) == ("4f2a", True, 3.0)
    assert parser.parse_args(["4f2a"]).deadline is None
