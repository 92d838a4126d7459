"""Run one verb: an error is one line, a hint and an exit code."""

import argparse
import subprocess
import sys

import pytest

from agentctl.cli import parser, runner
from agentctl.cli.catalogue import ALIASES, VERBS
from agentctl.errors import NotFound, Refused, StartFailed, UsageError
from tests.cli import hostile
from tests.fakes.containers import UNSHARE, need_containers
from tests.fakes.demo import DemoStage
from tests.running import Ran, environ_of


@pytest.mark.parametrize("name", VERBS)
def test_every_verb_of_the_catalogue_is_there(name: str) -> None:
    module = runner.load_verb(name)
    parser = module.parser()
    assert parser.prog == f"agentctl {name}"
    assert "examples:" in parser.format_help()


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
def test_an_unknown_verb_has_a_hint(name: str, hint: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert runner.run_verb(name, []) == 2
    output = capsys.readouterr()
    assert output.out == ""
    assert f"agentctl: no verb {name!r}" in output.err
    assert hint in output.err


def test_names_from_other_tools_lead_to_our_verbs() -> None:
    assert set(runner.OTHER_NAMES.values()) <= set(VERBS)
    assert not set(runner.OTHER_NAMES) & set(VERBS)


def test_a_module_that_is_no_verb_is_refused() -> None:
    for name in ("__init__", "../verb", "os", "-"):
        with pytest.raises(UsageError):
            runner.load_verb(name)


class _Raising:
    def __init__(self, error: Exception) -> None:
        self._error = error

    def parser(self) -> argparse.ArgumentParser:
        return parser.Parser("x", "x", "x")

    def run(self, arguments: argparse.Namespace) -> int:
        raise self._error


@pytest.mark.parametrize(
    ("error", "code"), [(NotFound("a", "b"), 3), (Refused("a", "b"), 4), (UsageError("a", "b"), 2)]
)
def test_an_error_is_a_line_a_hint_and_a_code(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], error: Exception, code: int
) -> None:
    monkeypatch.setattr(runner, "load_verb", lambda _: _Raising(error))
    assert runner.run_verb("x", []) == code
    assert capsys.readouterr().err == "agentctl: a\n  b\n"


def test_a_long_line_of_an_agents_output_is_cut(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    output = ("no such model" + " at x" * 999,)
    monkeypatch.setattr(runner, "load_verb", lambda _: _Raising(StartFailed("a", output=output)))
    assert runner.run_verb("x", []) == 1
    line = capsys.readouterr().err.splitlines()[1]
    assert line.startswith("  | no such model at x")
    assert len(line) <= runner.OUTPUT_COLUMNS + 4


def test_an_error_with_hostile_text_is_harmless(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(runner, "load_verb", lambda _: _Raising(NotFound(hostile.ALL, hostile.ALL)))
    assert runner.run_verb("x", []) == 3
    err = capsys.readouterr().err
    assert hostile.harmful(err) == []
    assert len(err.splitlines()) == 2


def test_debugging_raises_the_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENTCTL_DEBUG", "1")
    with pytest.raises(UsageError):
        runner.run_verb("nosuch", [])


def test_wrong_words_are_usage_errors(capsys: pytest.CaptureFixture[str]) -> None:
    assert runner.run_verb("status", []) == 2
    err = capsys.readouterr().err
    assert err == "agentctl: missing ID\n  see: agentctl status --help\n"
    assert runner.run_verb("list", ["--cwd"]) == 2
    assert capsys.readouterr().err.startswith("agentctl: --cwd: expected one argument\n")
    assert runner.run_verb("list", ["--jso"]) == 2  # an abbreviation today is an ambiguity tomorrow


def sh(stage: DemoStage, script: str, *before: str) -> Ran:
    """Run a script that calls agentctl as "$@"."""
    child = subprocess.run(
        [*before, "sh", "-c", script, "sh", sys.executable, "-P", "-m", "agentctl"],
        env=environ_of(stage),
        cwd=stage.root,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return Ran(child.returncode, child.stdout, child.stderr)


@pytest.mark.few(2)
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
def test_a_deleted_current_directory_is_named_as_the_error(stage: DemoStage, words: str) -> None:
    stage.start()
    ran = sh(stage, f'mkdir gone; cd gone; rmdir ../gone; "$@" {words}')
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith("agentctl: the current directory was deleted\n")
    assert len(ran.err.splitlines()) == 2


def test_any_other_missing_file_is_a_bug_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "load_verb", lambda _: _Raising(FileNotFoundError("nosuch")))
    with pytest.raises(FileNotFoundError):
        runner.run_verb("x", [])


@pytest.mark.few(3)
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
def test_an_unreadable_proc_is_an_error_of_one_line(
    stage: DemoStage, hide: str, why: str, words: str
) -> None:
    need_containers()
    ran = sh(stage, f'{hide} && "$@" {words}', *UNSHARE)
    assert (ran.code, ran.out) == (5, "")
    assert ran.err.startswith(f"agentctl: /proc/sys/kernel/random/boot_id: {why}\n")
    assert len(ran.err.splitlines()) == 2


@pytest.mark.parametrize(("name", "verb_and_command"), ALIASES.items())
def test_an_alias_is_a_command_of_another_verb(name: str, verb_and_command: tuple[str, str]) -> None:
    parser = runner.load_verb(name).parser()
    command = runner.load_verb(verb_and_command[0]).parser().commands[verb_and_command[1]]
    assert list(parser.flags()) == list(command.flags())
    assert parser.parse_words([]).command == verb_and_command[1]
