"""How verbs find sessions, and what they show beside their answer."""

import argparse
import signal

import pytest

from agentctl.cli import answer
from agentctl.errors import Ambiguous, NotFound, Refused, UsageError
from agentctl.truth.model import Problem
from tests.cli import hostile
from tests.ending import play_on
from tests.fakes.demo import DemoStage


@pytest.fixture(autouse=True)
def on_stage(stage: DemoStage, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ask in this very process, with the stage's environment and nothing else."""
    play_on(stage, monkeypatch)


def test_a_session_is_found_by_id_prefix_or_process(stage: DemoStage) -> None:
    puppet = stage.start()
    puppet.do("work")
    session_id = puppet.session_id or ""
    for text in (session_id, session_id[:8], f"pid:{puppet.pid}"):
        session, problems = answer.find_session(text)
        assert session.observation.session_id == session_id
        assert problems == []


def test_an_ended_session_is_found_by_prefix(stage: DemoStage) -> None:
    puppet = stage.start()
    puppet.kill(signal.SIGKILL)
    session, _ = answer.find_session((puppet.session_id or "")[:8])
    assert session.verdict.status == "stopped"
    with pytest.raises(NotFound, match=f"no agent process pid:{puppet.pid}"):
        answer.find_session(f"pid:{puppet.pid}")


@pytest.mark.parametrize("text", ["", "  ", "\t"])
def test_an_empty_id_is_a_usage_error(text: str) -> None:
    with pytest.raises(UsageError, match="an empty id"):
        answer.find_session(text)


@pytest.mark.parametrize("text", ["nosuch", "pid:", "pid:x", "pid:-1", "pid:1", "*", "../../etc"])
def test_an_unknown_id_is_not_found(stage: DemoStage, text: str) -> None:
    stage.start()
    with pytest.raises(NotFound):
        answer.find_session(text)


def _journal(stage: DemoStage, session_id: str) -> None:
    directory = stage.home / ".demo-agent" / "sessions"
    directory.mkdir(parents=True, exist_ok=True)
    (directory / f"{session_id}.jsonl").write_text('{"type": "session", "at": 1.0}\n')


def test_an_ambiguous_prefix_names_the_candidates(stage: DemoStage) -> None:
    for number in range(7):
        _journal(stage, f"twin-{number}")
    with pytest.raises(Ambiguous, match="could be 7 sessions") as caught:
        answer.find_session("twin-")
    assert caught.value.hint.count("(demo)") == 5
    assert caught.value.hint.endswith("and 2 more")


def test_a_whole_id_is_never_ambiguous(stage: DemoStage) -> None:
    _journal(stage, "twin")
    _journal(stage, "twin-2")
    assert answer.find_session("twin")[0].observation.session_id == "twin"


def test_an_unknown_id_is_reported_with_what_could_not_be_read(
    stage: DemoStage, capsys: pytest.CaptureFixture[str]
) -> None:
    directory = stage.home / ".demo-agent"
    directory.mkdir()
    (directory / "sessions").symlink_to("sessions")  # unreadable even for root: a loop
    with pytest.raises(NotFound):
        answer.find_session("4f2a")
    assert "sessions" in capsys.readouterr().err


def test_problems_are_shown_in_a_few_harmless_lines(capsys: pytest.CaptureFixture[str]) -> None:
    answer.show_problems(Problem("demo", "malformed", f"{n} {hostile.ALL}", "/x") for n in range(8))
    output = capsys.readouterr()
    assert output.out == ""
    assert hostile.harmful(output.err) == []
    lines = output.err.splitlines()
    assert len(lines) == 6
    assert lines[0].startswith("agentctl: demo: malformed: 0 ")
    assert lines[-1] == "agentctl: 3 more: agentctl doctor"
    answer.show_problems([Problem("", "malformed", "it is odd", "/state")])
    assert capsys.readouterr().err == "agentctl: malformed: it is odd (/state)\n"


def select_ids(*ids: str, answers: answer.Results) -> list[str | None]:
    arguments = argparse.Namespace(id=ids, group=None, deadline=None)
    choices = answer.select_sessions(arguments, answers)
    return [choice.session.observation.session_id for choice in choices]


def test_a_failed_id_is_reported_and_the_others_are_selected(
    stage: DemoStage, capsys: pytest.CaptureFixture[str]
) -> None:
    puppet, answers = stage.start(), answer.Results()
    assert select_ids("nosuch", puppet.session_id or "", answers=answers) == [puppet.session_id]
    assert answers.code == NotFound.exit_code
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "agentctl: nosuch: no session 'nosuch'"
    assert lines[1].startswith("  agentctl list -a")


def test_the_highest_code_is_kept_and_a_problem_is_added_once(
    capsys: pytest.CaptureFixture[str],
) -> None:
    answers = answer.Results()
    answers.report_failure("a", Refused("locked", "do\nthis"))
    answers.report_failure("b", NotFound("none"))
    assert answers.code == 4
    assert capsys.readouterr().err == "agentctl: a: locked\n  do this\nagentctl: b: none\n"
    for _ in range(2):
        answers.add_problems([Problem("demo", "broken", "x")])
    assert len(answers.problems) == 1
