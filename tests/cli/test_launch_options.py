"""Options of `launch` and `resume`, and the LaunchSpec that they ask for."""

from __future__ import annotations

import argparse
import io

import pytest

from agentctl.cli import launch_options
from agentctl.cli.launch_options import read_launch_spec, read_resume_spec
from agentctl.cli.runner import load_verb
from agentctl.errors import UsageError
from agentctl.launch.slots import Slot


def _parse(*words: str) -> argparse.Namespace:
    return load_verb("launch").parser().parse_words(list(words))


def _resume(*words: str) -> argparse.Namespace:
    return load_verb("resume").parser().parse_words(list(words))


@pytest.mark.parametrize(
    ("text", "pair"), [("K=v", ("K", "v")), ("K=", ("K", "")), ("K=a=b", ("K", "a=b"))]
)
def test_pairs_are_read(text: str, pair: tuple[str, str]) -> None:
    assert launch_options.parse_pair(text) == pair


@pytest.mark.parametrize("text", ["", "K", "=v", "=", "K=\0"])
def test_a_text_that_is_no_pair_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="not a pair"):
        launch_options.parse_pair(text)


@pytest.mark.parametrize("text", ["", "  ", "two\nlines", "\x1b[31mred", "\0", "\udcff"])
def test_a_text_that_is_no_label_is_refused(text: str) -> None:
    for option in ("--name", "--group"):
        with pytest.raises(UsageError, match="not a label"):
            _parse("demo", option, text)


def test_a_label_may_be_any_words() -> None:
    assert _parse("--name", "der große Umbau #2").name == "der große Umbau #2"


def test_slots_are_kept_in_order() -> None:
    arguments = _parse("--adapter", "a", "--model", "m", "--model", "n", "--adapter", "b")
    assert arguments.pairs == [("adapter", "a"), ("model", "m"), ("model", "n"), ("adapter", "b")]


@pytest.mark.parametrize(
    "text", ["-", "---", "-x", "--help", "--json", "-p", "--prompt=x", "", "a=b", "-1"]
)
def test_a_text_may_look_like_anything(text: str) -> None:
    for option, name in (("-p", "prompt"), ("--prompt", "prompt"), ("--on-complete", "on_complete")):
        arguments = _parse("demo", option, text, "--name", "n", "--", "--json", "--")
        assert (getattr(arguments, name), arguments.name, arguments.json) == (text, "n", False)
        assert arguments.native == ("--json", "--")


def test_a_missing_text_is_a_usage_error() -> None:
    with pytest.raises(UsageError, match="expected one argument"):
        _parse("demo", "-p")


def test_lengths_and_sizes_are_checked() -> None:
    for words in (("--timeout", "soon"), ("--timeout=-1s",), ("--max-file-size", "big")):
        with pytest.raises(UsageError, match="not a"):
            _parse("demo", *words)
    assert _parse("--timeout", "0").timeout == 0
    assert _parse("--max-file-size", "0").max_file_size == 0


def test_a_spec_of_all_options() -> None:
    spec = read_launch_spec(
        _parse(
            "demo", "--model", "m", "--cwd", "~", "--name", "n", "--group", "g", "--spec", "s.md",
            "--meta", "a=1", "--meta", "a=2", "--env", "K=v", "--timeout", "3h", "--on-create", "c",
            "--on-complete", "d", "--force", "--append-system-prompt", "be kind", "--permission-mode",
            "plan", "--worktree", "r", "--branch", "b", "--base-branch", "main", "--issue", "1",
            "--repo", "o/r", "--file", "f", "--max-file-size", "2K", "--", "--x",
        )
    )  # fmt: skip
    assert spec.slots == (Slot("demo", "m"),)
    assert (spec.cwd, spec.name, spec.group, spec.spec) == ("~", "n", "g", "s.md")
    assert (spec.meta, spec.env) == ((("a", "1"), ("a", "2")), (("K", "v"),))
    assert (spec.timeout, spec.on_create, spec.on_complete, spec.force) == (10800.0, "c", "d", True)
    assert (spec.system_prompt, spec.permission_mode, spec.native) == ("be kind", "plan", ("--x",))
    assert (spec.worktree, spec.branch, spec.base_branch) == ("r", "b", "main")
    assert (spec.issue, spec.issue_repository, spec.files, spec.max_file) == ("1", "o/r", ("f",), 2048)
    assert (spec.prompt, spec.prompt_file, spec.stdin) == (None, None, False)


def test_prompts_of_launch() -> None:
    assert read_launch_spec(_parse("-p", "do it")).prompt == "do it"
    assert read_launch_spec(_parse("--prompt-file", "f")).prompt_file == "f"
    spec = read_launch_spec(_parse("demo", "-"))
    assert (spec.stdin, spec.slots) == (True, (Slot("demo"),))
    assert read_launch_spec(_parse("--matrix", "m.yaml"))[:2] == ((), "m.yaml")


def test_a_spec_of_resume() -> None:
    spec = read_resume_spec(_resume("4f2a", "go on", "--model", "m", "--name", "n"))
    assert (spec.prompt, spec.slots, spec.name, spec.stdin) == ("go on", (Slot(model="m"),), "n", False)
    assert read_resume_spec(_resume("4f2a", "-p", "-x")).prompt == "-x"
    assert read_resume_spec(_resume("4f2a", "-")).stdin
    with pytest.raises(UsageError, match="more than one message"):
        read_resume_spec(_resume("4f2a", "go on", "-p", "x"))


def test_at_a_terminal_the_end_of_the_prompt_is_explained(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for is_terminal, text in ((True, "Ctrl-D"), (False, "")):
        stdin = io.TextIOWrapper(io.BytesIO(b"go"))
        monkeypatch.setattr(stdin, "isatty", lambda value=is_terminal: value, raising=False)
        monkeypatch.setattr("sys.stdin", stdin)
        assert read_launch_spec(_parse("demo", "-")).stdin
        err = capsys.readouterr().err
        assert text in err
        assert bool(err) == is_terminal
