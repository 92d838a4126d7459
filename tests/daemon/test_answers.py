"""The daemon answers what the caller would see itself, or lets it look itself."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from agentctl.adapters import registry
from agentctl.cli import queries
from agentctl.daemon.answers import Answers, is_harmless
from agentctl.daemon_client import protocol
from agentctl.errors import Fault
from agentctl.wire.session import dump_session as wire_json
from agentctl.wire.session import parse_session
from tests.daemon.serving import Wire, caller_params, daemon_of, home_of
from tests.fakes.demo import DemoStage
from tests.running import agentctl_of, agentctl_on_a_terminal, environ_of
from tests.third_party import install
from tests.waiting import until


def make_question(stage: DemoStage, verb: str = "list", *words: str, **more: Any) -> dict[str, Any]:
    return {**caller_params(stage), "verb": verb, "words": list(words), "terminal": None, **more}


def test_a_list_is_the_same_as_without_a_daemon(stage: DemoStage) -> None:
    stage.start(prompt="a task").do("work")
    response = Answers().ask(make_question(stage), os.getpid())
    here = queries.answer_list(queries.ListOptions(), queries.Asker(environ_of(stage), None))
    assert response == {"code": 0, "stdout": "".join(here.out), "stderr": ""}
    assert "a task" in response["stdout"]


@pytest.mark.few(5)
@pytest.mark.parametrize(
    "words",
    [
        ("list",),
        ("list", "--json", "--adapter", "demo"),
        ("list", "--cwd", "work"),
        ("list", "--cwd", "nowhere"),
        ("list", "--status", "nonsense"),
        ("list", "--adapter", "nosuch"),
        ("list", "surplus"),
        ("status", "zzz"),
        ("status", ""),
        ("status",),
        ("why", "pid:1"),
        ("list", "--deadline", "soon"),
    ],
)
def test_the_command_line_prints_the_same_with_a_daemon(
    stage: DemoStage, words: tuple[str, ...]
) -> None:
    """Errors too, with the same text and exit code."""
    puppet = stage.start(prompt="a task")
    puppet.do("work")
    (stage.home / ".demo-agent" / "live" / "x.json").write_text("rubbish")
    alone = agentctl_of(stage, *words)
    daemon_of(stage)
    assert without_ages(agentctl_of(stage, *words)) == without_ages(alone)
    _check_that_the_daemon_answers(stage, *words)


@pytest.mark.parametrize(
    ("words", "params"),
    [
        ((), {}),
        (("-a",), {"ended": True}),
        (("--since", "2h"), {"since": time.time() - 7200}),
        (("--adapter", "demo", "--adapter", "pi"), {"adapters": ["demo", "pi"]}),
        (("--status", "idle,stopped"), {"statuses": ["idle", "stopped"]}),
        (("--group", "race"), {"group": "race"}),
        (("-a", "--cwd", "/nowhere"), {"ended": True, "directory": "/nowhere"}),
    ],
)
def test_sessions_are_the_rows_of_a_list(
    stage: DemoStage, words: tuple[str, ...], params: dict[str, Any]
) -> None:
    for act, prompt in (("work", "one"), ("ask", "two"), ("work", "three")):
        puppet = stage.start(prompt=prompt)
        puppet.do(act)
    puppet.kill()
    (stage.home / ".demo-agent" / "live" / "x.json").write_text("rubbish")
    daemon_of(stage)
    with Wire(home_of(stage)) as wire:
        envelope = wire.ask("sessions", **caller_params(stage), **params)["result"]
    direct = agentctl_of(stage, "list", "--json", "--no-daemon", *words)
    assert without_ages(direct._replace(out=json.dumps(envelope))) == without_ages(
        direct._replace(out=json.dumps(direct.json()))
    )
    for row in envelope["sessions"]:
        session = parse_session(row)
        assert wire_json(session) == row


def test_sessions_of_a_prefix(stage: DemoStage) -> None:
    first, second = stage.start(prompt="one"), stage.start(prompt="two")
    for puppet in (first, second):
        puppet.do("work")
    answers = Answers()
    assert first.session_id is not None
    for include_ended in (False, True):
        params = {**caller_params(stage), "id": first.session_id, "ended": include_ended}
        rows = answers.sessions(params, os.getpid())["sessions"]
        assert [row["id"] for row in rows] == [first.session_id]
    assert answers.sessions({**caller_params(stage), "id": "zzz"}, os.getpid())["sessions"] == []


@pytest.mark.parametrize(
    ("more", "code"),
    [
        ({"version": "0"}, protocol.ELSEWHERE),
        ({"until": 0.0}, protocol.ELSEWHERE),
        ({"ended": 1}, protocol.BAD_PARAMS),
        ({"since": "7d"}, protocol.BAD_PARAMS),
        ({"since": True}, protocol.BAD_PARAMS),
        ({"deadline": "soon"}, protocol.BAD_PARAMS),
        ({"adapters": "demo"}, protocol.BAD_PARAMS),
        ({"adapters": ["nosuch"]}, protocol.BAD_PARAMS),
        ({"statuses": ["nonsense"]}, protocol.BAD_PARAMS),
        ({"group": 1}, protocol.BAD_PARAMS),
        ({"id": ["x"]}, protocol.BAD_PARAMS),
        ({"directory": "work"}, protocol.BAD_PARAMS),
    ],
)
def test_sessions_with_bad_parameters(stage: DemoStage, more: dict[str, Any], code: int) -> None:
    with pytest.raises(Fault) as fault:
        Answers().sessions({**caller_params(stage), **more}, os.getpid())
    assert fault.value.code == code


def test_status_and_why_are_the_same_as_without_a_daemon(stage: DemoStage) -> None:
    puppet = stage.start(prompt="a task")
    puppet.do("ask")
    daemon_of(stage)
    for verb in ("status", "why"):
        for words in ([verb, puppet.session_id or ""], [verb, f"pid:{puppet.pid}", "--json"]):
            by_daemon, alone = agentctl_of(stage, *words), agentctl_of(stage, *words, "--no-daemon")
            assert without_ages(by_daemon) == without_ages(alone)
            assert by_daemon.code == 0
    _check_that_the_daemon_answers(stage, "why", puppet.session_id or "")


def test_the_width_and_colours_are_those_of_the_caller_s_terminal(stage: DemoStage) -> None:
    stage.start(prompt="a task " * 30).do("work")
    daemon_of(stage)
    for columns in (40, 100):
        wide = agentctl_on_a_terminal(stage, "list", columns=columns)
        alone = agentctl_on_a_terminal(stage, "list", "--no-daemon", columns=columns)
        assert without_ages(wide) == without_ages(alone)
        assert "\x1b[" in wide.out
    plain = agentctl_on_a_terminal(stage, "list", NO_COLOR="1", COLUMNS="60")
    alone = agentctl_on_a_terminal(stage, "list", "--no-daemon", NO_COLOR="1", COLUMNS="60")
    assert without_ages(plain) == without_ages(alone)


def test_the_environment_is_that_of_the_caller(stage: DemoStage, tmp_path: Path) -> None:
    """The daemon was started in another one; a path in it may be relative to the caller's directory."""
    daemon_of(stage)
    stage.start(prompt="a task").do("work")
    for more in ({"AGENTCTL_CONFINE": "NO=BODY"}, {"DEMO_AGENT_HOME": "home/.demo-agent", "HOME": "/x"}):
        by_daemon = agentctl_of(stage, "list", "-a", "--json", **more)
        assert (
            by_daemon.lasting()
            == agentctl_of(stage, "list", "-a", "--json", "--no-daemon", **more).lasting()
        )
    _check_that_the_daemon_answers(stage, "list", "-a", AGENTCTL_CONFINE="NO=BODY")
    late = agentctl_of(stage, "list", AGENTCTL_DEADLINE="soon")
    assert late.code == 2
    assert "AGENTCTL_DEADLINE" in late.err


def test_a_question_leaves_the_state_of_the_process_unchanged(stage: DemoStage) -> None:
    before = (dict(os.environ), os.getcwd(), sys.argv, sys.stdout, sys.stderr)
    answers = Answers()
    for words in ((), ("--json",), ("--nonsense",), ("-a", "--since", "1d")):
        answers.ask(make_question(stage, "list", *words, cwd="/tmp"), os.getpid())
    assert (dict(os.environ), os.getcwd(), sys.argv, sys.stdout, sys.stderr) == before


@pytest.mark.parametrize(
    ("more", "code"),
    [
        ({"protocol": 0}, protocol.ELSEWHERE),
        ({"version": "0"}, protocol.ELSEWHERE),
        ({"until": 0.0}, protocol.ELSEWHERE),
        ({"words": ["--help"]}, protocol.ELSEWHERE),
        ({"words": ["-aah"]}, protocol.ELSEWHERE),
        ({"words": ["--watch"]}, protocol.ELSEWHERE),
        ({"verb": "stop"}, protocol.BAD_PARAMS),
        ({"verb": None}, protocol.BAD_PARAMS),
        ({"verb": ["list"]}, protocol.BAD_PARAMS),
        ({"words": ["x"] * 65}, protocol.BAD_PARAMS),
        ({"words": ["x" * 10_000]}, protocol.BAD_PARAMS),
        ({"words": [1]}, protocol.BAD_PARAMS),
        ({"words": "list"}, protocol.BAD_PARAMS),
        ({"environ": {"A": 1}}, protocol.BAD_PARAMS),
        ({"environ": []}, protocol.BAD_PARAMS),
        ({"cwd": "here"}, protocol.BAD_PARAMS),
        ({"terminal": True}, protocol.BAD_PARAMS),
        ({"terminal": -1}, protocol.BAD_PARAMS),
        ({"path": None}, protocol.BAD_PARAMS),
        ({"until": "never"}, protocol.BAD_PARAMS),
    ],
)
def test_a_bad_question_is_refused(stage: DemoStage, more: dict[str, Any], code: int) -> None:
    with pytest.raises(Fault) as fault:
        Answers().ask(make_question(stage, **more), os.getpid())
    assert fault.value.code == code


def test_an_error_to_be_debugged_is_left_to_the_caller(stage: DemoStage) -> None:
    question = make_question(stage, "status", "zzz")
    question["environ"]["AGENTCTL_DEBUG"] = "1"
    with pytest.raises(Fault, match="where it is from"):
        Answers().ask(question, os.getpid())


def test_a_third_party_adapter_that_both_have_is_asked(
    stage: DemoStage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    modules = {
        "other_agent.py": "ADAPTER = 'other_adapter:Other'\nPROCESSES = frozenset({'nosuch'})\n",
        "other_adapter.py": "1 / 0\n",
    }
    install(tmp_path / "site", "[agentctl.adapters]\nother = other_agent\n", modules)
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    monkeypatch.setattr(registry, "_imported", {})
    answers = Answers()
    live = answers.ask(make_question(stage, "list", path=sys.path), os.getpid())
    assert (live["code"], live["stderr"]) == (0, "")  # its agent does not run: it is not imported
    every = answers.ask(make_question(stage, "list", "-a", path=sys.path), os.getpid())
    assert "ZeroDivisionError" in every["stderr"]
    for file in (tmp_path / "site").glob("*.dist-info"):
        file.rename(file.with_name("other-2.0.dist-info"))
    with pytest.raises(Fault, match="installed again"):
        answers.ask(make_question(stage, "list", path=sys.path), os.getpid())


def test_words_that_print_are_not_harmless() -> None:
    assert all(map(is_harmless, ["-a", "--json", "--cwd", "high", "pid:1", "--group", "-"]))
    assert not any(map(is_harmless, ["-h", "-ah", "-aah", "--help", "--watch"]))


def without_ages(ran: Any) -> Any:
    """Remove ages, which grow, and the millisecond by which a start differs from look to look."""
    import re

    text = re.sub(r"\d+(\.\d+)?(ms|s|m)\b", "·", ran.out)
    return (ran.code, re.sub(r"\.\d\d\dZ", "Z", text), ran.err)


def _check_that_the_daemon_answers(stage: DemoStage, *words: str, **more: str) -> None:
    """With AGENTCTL_DEBUG the client says so if it looks itself."""
    ran = agentctl_of(stage, *words, AGENTCTL_DEBUG="1", **more)
    fell_back = "not answered by the daemon" in ran.err
    assert not fell_back or "where it is from" in ran.err, ran.err


@pytest.mark.few(1)
@pytest.mark.parametrize("limit", [34, 40, 64])
def test_without_descriptors_for_a_whole_look_the_caller_looks_itself(
    stage: DemoStage, limit: int
) -> None:
    """Otherwise the daemon would list only some of the sessions."""
    puppets = [stage.start() for _ in range(20)]
    program = (
        "import resource, runpy, sys; resource.setrlimit(resource.RLIMIT_NOFILE, ({0}, {0}));"
        "sys.argv[1:] = ['daemon', 'start']; runpy.run_module('agentctl', run_name='__main__')"
    )
    started = subprocess.run(
        [sys.executable, "-c", program.format(limit)],
        env=environ_of(stage),
        cwd=stage.root,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert started.returncode == 0, started.stderr
    session_ids = sorted(puppet.session_id or "" for puppet in puppets)
    for _ in range(5):  # the daemon uses more descriptors each time
        listed = agentctl_of(stage, "list", "--json").json()
        assert sorted(row["id"] for row in listed["sessions"]) == session_ids
        assert listed["problems"] == []

    def shows_shortage() -> bool:
        ran = agentctl_of(stage, "daemon", "status")
        return ran.code == 0 and "ulimit -n" in ran.out and "ulimit -n" in ran.err

    until(shows_shortage, "the daemon shows what is wrong")
