"""The daemon answers as the asker would have found it, or lets it look itself."""

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from agentctl import __version__
from agentctl.cli import answer
from agentctl.cli.verbs import list as list_verb
from agentctl.daemon import answers
from agentctl.daemon.answers import Answers, Modules, harmless, place_of
from agentctl.daemon_client import protocol
from agentctl.errors import Fault
from agentctl.system import clock
from tests.daemon.serving import daemon_of
from tests.fakes.demo import DemoStage
from tests.namespaces import unshare
from tests.running import agentctl_of, agentctl_on_a_terminal, environ_of
from tests.waiting import until


def asked(stage: DemoStage, verb: str = "list", *words: str, **more: Any) -> dict[str, Any]:
    return {
        "protocol": protocol.PROTOCOL,
        "version": __version__,
        "verb": verb,
        "words": list(words),
        "environ": environ_of(stage),
        "cwd": "/",
        "terminal": None,
        "path": sys.path,
        "until": time.monotonic() + 60,
        **more,
    }


def test_the_same_as_looking(stage: DemoStage) -> None:
    stage.start(prompt="a task").do("work")
    told = Answers().answer(asked(stage), os.getpid())
    here = list_verb.answer(list_verb.parser().parse_words([]), answer.Asker(environ_of(stage), None))
    assert told == {"code": 0, "stdout": "".join(here.out), "stderr": ""}
    assert "a task" in told["stdout"]


@pytest.mark.parametrize(
    "words",
    [
        ("list",),
        ("list", "--json", "--adapter", "demo"),
        ("list", "--cwd", "work"),
        ("list", "--cwd", "nowhere"),
        ("list", "--status", "nonsense"),
        ("list", "--adapter", "nobody"),
        ("list", "surplus"),
        ("status", "zzz"),
        ("status", ""),
        ("status",),
        ("why", "pid:1"),
        ("list", "--deadline", "soon"),
    ],
)
def test_by_the_command_line(stage: DemoStage, words: tuple[str, ...]) -> None:
    """Errors too, to the letter and with their exit code."""
    puppet = stage.start(prompt="a task")
    puppet.do("work")
    (stage.home / ".demo-agent" / "live" / "x.json").write_text("rubbish")
    alone = agentctl_of(stage, *words)
    daemon_of(stage)
    assert _steady(agentctl_of(stage, *words)) == _steady(alone)
    _answered_by_the_daemon(stage, *words)


def test_of_one_session(stage: DemoStage) -> None:
    puppet = stage.start(prompt="a task")
    puppet.do("ask")
    daemon_of(stage)
    for verb in ("status", "why"):
        for words in ([verb, puppet.session_id or ""], [verb, f"pid:{puppet.pid}", "--json"]):
            by_daemon, alone = agentctl_of(stage, *words), agentctl_of(stage, *words, "--no-daemon")
            assert _steady(by_daemon) == _steady(alone)
            assert by_daemon.code == 0
    _answered_by_the_daemon(stage, "why", puppet.session_id or "")


def test_for_the_asker_s_terminal(stage: DemoStage) -> None:
    stage.start(prompt="a task " * 30).do("work")
    daemon_of(stage)
    for columns in (40, 100):
        wide = agentctl_on_a_terminal(stage, "list", columns=columns)
        alone = agentctl_on_a_terminal(stage, "list", "--no-daemon", columns=columns)
        assert _steady(wide) == _steady(alone)
        assert "\x1b[" in wide.out
    plain = agentctl_on_a_terminal(stage, "list", NO_COLOR="1", COLUMNS="60")
    alone = agentctl_on_a_terminal(stage, "list", "--no-daemon", NO_COLOR="1", COLUMNS="60")
    assert _steady(plain) == _steady(alone)


def test_in_the_asker_s_environment(stage: DemoStage, tmp_path: Path) -> None:
    """The daemon was started in another one; a name in it may be relative to the asker's directory."""
    daemon_of(stage)
    stage.start(prompt="a task").do("work")
    for more in ({"AGENTCTL_CONFINE": "NO=BODY"}, {"DEMO_AGENT_HOME": "home/.demo-agent", "HOME": "/x"}):
        by_daemon = agentctl_of(stage, "list", "-a", "--json", **more)
        assert (
            by_daemon.lasting()
            == agentctl_of(stage, "list", "-a", "--json", "--no-daemon", **more).lasting()
        )
    _answered_by_the_daemon(stage, "list", "-a", AGENTCTL_CONFINE="NO=BODY")
    late = agentctl_of(stage, "list", AGENTCTL_DEADLINE="soon")
    assert late.code == 2
    assert "AGENTCTL_DEADLINE" in late.err


def test_its_own_state_is_untouched(stage: DemoStage) -> None:
    before = (dict(os.environ), os.getcwd(), sys.argv, sys.stdout, sys.stderr)
    found = Answers()
    for words in ((), ("--json",), ("--nonsense",), ("-a", "--since", "1d")):
        found.answer(asked(stage, "list", *words, cwd="/tmp"), os.getpid())
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
def test_what_is_no_question(stage: DemoStage, more: dict[str, Any], code: int) -> None:
    with pytest.raises(Fault) as told:
        Answers().answer(asked(stage, **more), os.getpid())
    assert told.value.code == code


def test_an_error_to_be_debugged_is_the_asker_s(stage: DemoStage) -> None:
    question = asked(stage, "status", "zzz")
    question["environ"]["AGENTCTL_DEBUG"] = "1"
    with pytest.raises(Fault, match="where it is from"):
        Answers().answer(question, os.getpid())


def test_an_adapter_of_another_is_not_run_here(stage: DemoStage, tmp_path: Path) -> None:
    place, modules = tmp_path / "installed", Modules()
    place.mkdir()
    question = asked(stage, path=[*sys.path, str(place)])
    found = Answers()
    assert found.answer(question, os.getpid())["code"] == 0
    until(lambda: place.stat().st_ctime < time.time() - clock.GRAIN, "it is old enough")
    assert not modules.adapters_in(str(place))
    information = place / "other-1.0.dist-info"
    information.mkdir()
    (information / "entry_points.txt").write_text("[agentctl.adapters]\nother = other:Other\n")
    assert modules.adapters_in(str(place))
    with pytest.raises(Fault, match="not agentctl's own"):
        found.answer(question, os.getpid())


@pytest.mark.parametrize("way", [["-m"], ["-p", "-f"], ["-U", "-r"], ["-T"]], ids=" ".join)
def test_who_is_elsewhere_looks_itself(stage: DemoStage, way: list[str]) -> None:
    program = "print(open('/proc/self/stat').read()); input()"
    with subprocess.Popen(
        [*unshare(*way), sys.executable, "-c", program],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as child:
        assert child.stdout is not None
        assert child.stdout.readline() != b""
        children = Path(f"/proc/{child.pid}/task/{child.pid}/children").read_text().split()
        pid = int(children[0]) if children else child.pid
        assert place_of(pid) != place_of(os.getpid())
        with pytest.raises(Fault, match="another namespace"):
            Answers().answer(asked(stage), pid)
        child.communicate(b"\n")


def test_who_is_here_is_in_no_other_namespace() -> None:
    assert place_of(os.getppid())[1:4] == place_of(os.getpid())[1:4]


def test_one_that_is_gone_is_not_answered(stage: DemoStage) -> None:
    child = subprocess.Popen(["true"])
    child.wait()
    with pytest.raises(Fault) as told:
        Answers().answer(asked(stage), child.pid)
    assert told.value.code == protocol.ELSEWHERE


def test_words_that_print_are_told_apart() -> None:
    assert all(map(harmless, ["-a", "--json", "--cwd", "high", "pid:1", "--group", "-"]))
    assert not any(map(harmless, ["-h", "-ah", "-aah", "--help", "--watch"]))


def test_one_memory_for_all_questions(stage: DemoStage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answers, "_answers", None)
    answers.answer(asked(stage), os.getpid())
    first = answers._answers
    answers.answer(asked(stage), os.getpid())
    assert answers._answers is first


def _steady(ran: Any) -> Any:
    """Without ages, which go on, and the millisecond by which a start differs from look to look."""
    import re

    text = re.sub(r"\d+(\.\d+)?(ms|s|m)\b", "·", ran.out)
    return (ran.code, re.sub(r"\.\d\d\dZ", "Z", text), ran.err)


def _answered_by_the_daemon(stage: DemoStage, *words: str, **more: str) -> None:
    """Not by falling back: with AGENTCTL_DEBUG that would be told."""
    ran = agentctl_of(stage, *words, AGENTCTL_DEBUG="1", **more)
    fell_back = "not by the daemon" in ran.err
    assert not fell_back or "where it is from" in ran.err, ran.err


@pytest.mark.parametrize("limit", [34, 40, 64])
def test_without_descriptors_for_a_whole_look_the_asker_looks_itself(
    stage: DemoStage, limit: int
) -> None:
    """It would list some of them, and call that an answer."""
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
    wanted = sorted(puppet.session_id or "" for puppet in puppets)
    for _ in range(5):  # while it takes more and more of them
        listed = agentctl_of(stage, "list", "--json").json()
        assert sorted(row["id"] for row in listed["sessions"]) == wanted
        assert listed["problems"] == []

    def says_so() -> bool:
        told = agentctl_of(stage, "daemon", "status")
        return told.code == 0 and "ulimit -n" in told.out and "ulimit -n" in told.err

    until(says_so, "the daemon says what is wrong")
