"""How every verb asks."""

import signal

import pytest

from agentctl.cli import answer
from agentctl.errors import Ambiguous, NotFound, UsageError
from agentctl.truth.model import Problem
from tests.cli import hostile
from tests.ending import play_on
from tests.fakes.demo import DemoStage


@pytest.fixture(autouse=True)
def on_stage(stage: DemoStage, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ask in this very process, with the stage's environment and nothing else."""
    play_on(stage, monkeypatch)


def test_by_id_by_prefix_and_by_process(stage: DemoStage) -> None:
    puppet = stage.start()
    puppet.do("work")
    session_id = puppet.session_id or ""
    for text in (session_id, session_id[:8], f"pid:{puppet.pid}"):
        session, problems = answer.one(text)
        assert session.seen.session_id == session_id
        assert problems == []


def test_by_prefix_after_its_end(stage: DemoStage) -> None:
    puppet = stage.start()
    puppet.kill(signal.SIGKILL)
    session, _ = answer.one((puppet.session_id or "")[:8])
    assert session.verdict.status == "stopped"
    with pytest.raises(NotFound, match=f"no agent process pid:{puppet.pid}"):
        answer.one(f"pid:{puppet.pid}")


@pytest.mark.parametrize("text", ["", "  ", "\t"])
def test_an_empty_id_is_a_mistake(text: str) -> None:
    with pytest.raises(UsageError, match="an empty id"):
        answer.one(text)


@pytest.mark.parametrize("text", ["nosuch", "pid:", "pid:x", "pid:-1", "pid:1", "*", "../../etc"])
def test_nobody_by_that_name(stage: DemoStage, text: str) -> None:
    stage.start()
    with pytest.raises(NotFound):
        answer.one(text)


def _journal(stage: DemoStage, session_id: str) -> None:
    directory = stage.home / ".demo-agent" / "sessions"
    directory.mkdir(parents=True, exist_ok=True)
    (directory / f"{session_id}.jsonl").write_text('{"type": "session", "at": 1.0}\n')


def test_an_ambiguous_prefix_names_the_candidates(stage: DemoStage) -> None:
    for number in range(7):
        _journal(stage, f"twin-{number}")
    with pytest.raises(Ambiguous, match="could be 7 sessions") as caught:
        answer.one("twin-")
    assert caught.value.hint.count("(demo)") == 5
    assert caught.value.hint.endswith("and 2 more")


def test_a_whole_id_is_never_ambiguous(stage: DemoStage) -> None:
    _journal(stage, "twin")
    _journal(stage, "twin-2")
    assert answer.one("twin")[0].seen.session_id == "twin"


def test_what_could_not_be_read_is_told_beside_not_found(
    stage: DemoStage, capsys: pytest.CaptureFixture[str]
) -> None:
    directory = stage.home / ".demo-agent"
    directory.mkdir()
    (directory / "sessions").symlink_to("sessions")  # unreadable even for root: a loop
    with pytest.raises(NotFound):
        answer.one("4f2a")
    assert "sessions" in capsys.readouterr().err


def test_problems_are_told_in_a_few_harmless_lines(capsys: pytest.CaptureFixture[str]) -> None:
    answer.show_problems(Problem("demo", "malformed", f"{n} {hostile.ALL}", "/x") for n in range(8))
    shown = capsys.readouterr()
    assert shown.out == ""
    assert hostile.harmful(shown.err) == []
    lines = shown.err.splitlines()
    assert len(lines) == 6
    assert lines[0].startswith("agentctl: demo: malformed: 0 ")
    assert lines[-1] == "agentctl: 3 more: agentctl doctor"
    answer.show_problems([Problem("", "malformed", "it is odd", "/state")])
    assert capsys.readouterr().err == "agentctl: malformed: it is odd (/state)\n"
