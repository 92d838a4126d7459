"""How `launch` and `resume` answer."""

from __future__ import annotations

import argparse
import json
from typing import NoReturn

import pytest

from agentctl.cli import launch_answer
from agentctl.cli.runner import load_verb
from agentctl.system.proc import ProcessIdentity
from agentctl.truth.model import HookRun, Launch, Observation, Session, Verdict

NO_PROCESS = ProcessIdentity("", 0, 0)
VERDICT = Verdict("running", "working", None, None, None, "it lives", (), ())


def _parse(*words: str) -> argparse.Namespace:
    return load_verb("launch").parser().parse_words(list(words))


def _session(*runs: HookRun) -> Session:
    return Session(Observation("demo", "4f2a", ()), VERDICT, Launch("1a", NO_PROCESS, hooks=runs))


def test_an_id_is_printed_as_soon_as_it_is_known(capfd: pytest.CaptureFixture[str]) -> None:
    print_id = launch_answer.id_printer(_parse("demo"))
    assert print_id is not None
    print_id(_session())
    assert capfd.readouterr().out == "4f2a\n"  # printed at once, and not when we end
    # one JSON document is printed at the end
    assert launch_answer.id_printer(_parse("demo", "--json")) is None


def test_failed_hooks_go_to_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    failed = HookRun("on-create", "false", 3, 0.1, "/f/on-create")
    late = HookRun("on-create", "false", None, 0.1, "/f/on-create")
    fine = HookRun("on-create", "true", 0, 0.1, "/f/on-create")
    assert launch_answer.finish_answer([_session(failed), _session(late, fine)], _parse("demo")) == 0
    output = capsys.readouterr()
    assert output.out == ""
    assert output.err.splitlines() == [
        "agentctl: on-create failed: exit code 3; see /f/on-create",
        "agentctl: on-create failed: took too long; see /f/on-create",
    ]


def test_a_json_answer_has_the_sessions(capsys: pytest.CaptureFixture[str]) -> None:
    assert launch_answer.finish_answer([_session()], _parse("demo", "--json")) == 0
    answer = json.loads(capsys.readouterr().out)
    assert set(answer) == {"version", "sessions", "problems"}
    assert [session["id"] for session in answer["sessions"]] == ["4f2a"]


def test_ctrl_c_while_waiting_names_the_sessions_that_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    class Interrupted:
        def __init__(self, *_: object) -> None: ...
        def __enter__(self) -> Interrupted:
            return self

        def __exit__(self, *_: object) -> None: ...
        def iterate(self, _: object) -> NoReturn:
            raise KeyboardInterrupt

    monkeypatch.setattr("agentctl.watch.wait.SessionWait", Interrupted)
    with pytest.raises(KeyboardInterrupt, match="still at work; to end it: agentctl stop 4f2a"):
        launch_answer.finish_answer([_session()], _parse("demo", "--wait"))


def test_a_json_dry_run_has_the_launches(capsys: pytest.CaptureFixture[str]) -> None:
    launch_answer.print_dry_run([{"adapter": "demo"}, {"adapter": "pi"}], as_json=True)
    answer = json.loads(capsys.readouterr().out)
    assert answer == {"version": 1, "launches": [{"adapter": "demo"}, {"adapter": "pi"}]}
