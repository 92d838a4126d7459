"""What `launch` and `resume` are told, and how they answer."""

from __future__ import annotations

import argparse
import io
import json
import os
from pathlib import Path
from typing import NoReturn

import pytest

from agentctl.cli import launching
from agentctl.cli.parser import find
from agentctl.config import settings as config
from agentctl.errors import UsageError
from agentctl.system.identity import ProcessIdentity
from agentctl.truth.model import HookRun, Launch, Observation, Session, Verdict

NOBODY = ProcessIdentity("", 0, 0)
VERDICT = Verdict("running", "working", None, None, None, "it lives", (), ())


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> config.Config:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    return config.load({"AGENTCTL_HOME": f"{tmp_path}/state"})


def _given(*words: str) -> argparse.Namespace:
    return find("launch").parser().parse_words(list(words))


def _session(*runs: HookRun) -> Session:
    return Session(Observation("demo", "4f2a", ()), VERDICT, Launch("1a", NOBODY, hooks=runs))


# words in


@pytest.mark.parametrize(
    ("text", "pair"), [("K=v", ("K", "v")), ("K=", ("K", "")), ("K=a=b", ("K", "a=b"))]
)
def test_pairs(text: str, pair: tuple[str, str]) -> None:
    assert launching.pair(text) == pair


@pytest.mark.parametrize("text", ["", "K", "=v", "=", "K=\0"])
def test_no_pairs(text: str) -> None:
    with pytest.raises(UsageError, match="not a pair"):
        launching.pair(text)


@pytest.mark.parametrize("text", ["", "  ", "two\nlines", "\x1b[31mred", "\0", "\udcff"])
def test_no_labels(text: str) -> None:
    for option in ("--name", "--group"):
        with pytest.raises(UsageError, match="not a label"):
            _given("demo", option, text)


def test_a_label_may_be_any_words() -> None:
    assert _given("--name", "der große Umbau #2").name == "der große Umbau #2"


def test_slots_are_kept_in_order() -> None:
    given = _given("--adapter", "a", "--model", "m", "--model", "n", "--adapter", "b")
    assert given.pairs == [("adapter", "a"), ("model", "m"), ("model", "n"), ("adapter", "b")]


@pytest.mark.parametrize(
    "text", ["-", "---", "-x", "--help", "--json", "-p", "--prompt=x", "", "a=b", "-1"]
)
def test_a_text_may_look_like_anything(text: str) -> None:
    for option, name in (("-p", "prompt"), ("--prompt", "prompt"), ("--on-complete", "on_complete")):
        given = _given("demo", option, text, "--name", "n", "--", "--json", "--")
        assert (getattr(given, name), given.name, given.json) == (text, "n", False)
        assert given.native == ("--json", "--")


def test_a_text_that_is_missing() -> None:
    with pytest.raises(UsageError, match="expected one argument"):
        _given("demo", "-p")


def test_lengths_and_sizes_are_checked() -> None:
    for words in (("--timeout", "soon"), ("--timeout=-1s",), ("--max-file-size", "big")):
        with pytest.raises(UsageError, match="not a"):
            _given("demo", *words)
    assert _given("--timeout", "0").timeout == 0
    assert _given("--max-file-size", "0").max_file_size == 0


def test_a_wish_by_the_words_of_the_call(settings: config.Config, tmp_path: Path) -> None:
    given = _given(
        "demo", "--cwd", "~", "--name", "n", "--group", "g", "--spec", "s.md", "--meta", "a=1", "--meta",
        "a=2", "--env", "K=v", "--timeout", "3h", "--on-create", "c", "--on-complete", "d", "--force",
        "--append-system-prompt", "be kind", "--permission-mode", "plan", "--", "--x",
    )  # fmt: skip
    wish = launching.wish("demo", given, settings, "do it")
    assert (wish.adapter, wish.prompt, wish.cwd) == ("demo", "do it", str(tmp_path))
    assert (wish.name, wish.group, wish.spec) == ("n", "g", f"{tmp_path}/s.md")
    assert dict(wish.meta) == {"a": "2"}
    assert wish.environ == (("K", "v"),)
    assert (wish.timeout, wish.on_create, wish.on_complete, wish.force) == (10800.0, "c", "d", True)
    assert (wish.system_prompt, wish.permission_mode, wish.native) == ("be kind", "plan", ("--x",))


def test_where_the_words_are_silent_the_settings_speak(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text(
        f'[defaults]\ncwd = "{tmp_path}"\nname = "n"\ntimeout = "1h"\non_complete = "make"\n'
        '[adapters.demo]\nargs = ["--late", "1"]\nbinary = "other"\nmodel = "m"\n'
    )
    settings = config.load({"AGENTCTL_HOME": str(tmp_path)})
    wish = launching.wish("demo", _given("demo", "--", "--x"), settings, "p")
    assert (wish.cwd, wish.name, wish.timeout, wish.on_complete) == (str(tmp_path), "n", 3600.0, "make")
    assert (wish.native, wish.binary, wish.model) == (("--late", "1", "--x"), "other", "m")
    louder = launching.wish("demo", _given("--timeout", "0", "--name", "o", "--cwd", "/"), settings, "p")
    assert (louder.timeout, louder.name, louder.cwd) == (0.0, "o", "/")


def test_a_relative_directory_is_from_here(settings: config.Config, tmp_path: Path) -> None:
    assert launching.directory(_given("--cwd", "sub/.."), settings) == str(tmp_path)
    assert launching.directory(_given(), settings) == str(tmp_path)


def test_from_a_directory_that_was_deleted(
    settings: config.Config, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    for words in ((), ("--cwd", "sub")):
        with pytest.raises(UsageError, match="the current directory was deleted"):
            launching.directory(_given(*words), settings)
    assert launching.directory(_given("--cwd", "/tmp"), settings) == "/tmp"


def test_an_issue_is_asked_for_where_the_agent_will_be(
    settings: config.Config, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "shop").mkdir()
    gh = tmp_path / "gh"
    gh.write_text('#!/bin/sh\nprintf \'{"number":1,"title":"%s","url":"u","body":"b"}\' "$PWD"\n')
    gh.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    given = _given("-p", "fix it", "--issue", "1", "--cwd", "~/shop")
    told = launching.prompt(given, launching.issue(given, settings))
    assert told == f"Issue #1: {tmp_path}/shop\nu\n\nb\n\nfix it"


def test_which_agent(settings: config.Config, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"which agent\?") as told:
        launching.default_adapter(settings)
    assert "demo" in told.value.hint
    given = {"AGENTCTL_HOME": f"{tmp_path}/state", "AGENTCTL_DEFAULT_ADAPTER": "demo"}
    assert launching.default_adapter(config.load(given)) == "demo"


# answers out


def test_an_id_is_told_as_soon_as_it_is_known(capfd: pytest.CaptureFixture[str]) -> None:
    tell = launching.teller(_given("demo"))
    assert tell is not None
    tell(_session())
    assert capfd.readouterr().out == "4f2a\n"  # and not kept back until we end
    assert launching.teller(_given("demo", "--json")) is None  # that is one document, told at the end


def test_what_went_wrong_is_not_among_the_ids(capsys: pytest.CaptureFixture[str]) -> None:
    failed = HookRun("on-create", "false", 3, 0.1, "/f/on-create")
    late = HookRun("on-create", "false", None, 0.1, "/f/on-create")
    fine = HookRun("on-create", "true", 0, 0.1, "/f/on-create")
    assert launching.finished([_session(failed), _session(late, fine)], _given("demo")) == 0
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.splitlines() == [
        "agentctl: on-create failed: exit code 3; see /f/on-create",
        "agentctl: on-create failed: took too long; see /f/on-create",
    ]


def test_an_answer_for_scripts(capsys: pytest.CaptureFixture[str]) -> None:
    assert launching.finished([_session()], _given("demo", "--json")) == 0
    told = json.loads(capsys.readouterr().out)
    assert set(told) == {"version", "sessions", "problems"}
    assert [session["id"] for session in told["sessions"]] == ["4f2a"]


def test_ctrl_c_while_waiting_tells_who_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    class Interrupted:
        def __init__(self, *_: object) -> None: ...
        def __enter__(self) -> Interrupted:
            return self

        def __exit__(self, *_: object) -> None: ...
        def keep(self, _: object) -> NoReturn:
            raise KeyboardInterrupt

    monkeypatch.setattr("agentctl.watch.wait.Vigil", Interrupted)
    with pytest.raises(KeyboardInterrupt, match="still at work; to end it: agentctl stop 4f2a"):
        launching.finished([_session()], _given("demo", "--wait"))


def test_who_types_a_prompt_is_told_how_to_end(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for terminal, told in ((True, "Ctrl-D"), (False, "")):
        stdin = io.TextIOWrapper(io.BytesIO(b"go"))
        monkeypatch.setattr(stdin, "isatty", lambda terminal=terminal: terminal, raising=False)
        monkeypatch.setattr("sys.stdin", stdin)
        assert launching.prompt(_given("demo", "-"), None, stdin=True) == "go"
        shown = capsys.readouterr().err
        assert told in shown
        assert bool(shown) == terminal
