"""Law 3: an agent that was started with its prompt is not idle because the turn before its own is over.
Until it begins its own turn, its activity is unknown."""

from pathlib import Path

from agentctl.testing import Puppet, Stage
from tests.fakes.claude import ClaudeStage
from tests.fakes.codex import CodexStage
from tests.fakes.opencode import OpenCodeStage

STAGES = (ClaudeStage, CodexStage, OpenCodeStage)


def resume_with_prompt(stage: Stage, session_id: str) -> Puppet:
    """Resume the session without a terminal, with a prompt."""
    if isinstance(stage, ClaudeStage):
        return stage.start(resume=session_id, argv=("-p", "--resume", session_id, "go on"))
    if isinstance(stage, CodexStage):
        words = f"exec\nresume\n{session_id}\ngo on"
        return stage.start(resume=session_id, environ={"PUPPET_ARGV": words})
    assert isinstance(stage, OpenCodeStage)
    return stage.run(None, "--session", session_id)


def test_a_resumed_agent_is_not_idle_before_its_own_turn(stage: Stage) -> None:
    first = stage.start()
    first.do("work")
    first.do("rest")
    assert first.session_id is not None
    session_id = first.session_id
    first.finish()
    again = resume_with_prompt(stage, session_id)
    verdict = stage.session(session_id).verdict
    assert (verdict.status, verdict.activity) == ("running", "unknown"), verdict.reason
    assert any("not begun its own turn" in piece.note for piece in verdict.overruled)
    again.do("work")
    assert stage.session(session_id).verdict.activity == "working"
    again.do("rest")
    assert stage.session(session_id).verdict.status == "idle"


def test_an_agent_that_reads_messages_from_a_stream_is_idle_at_first(tmp_path: Path) -> None:
    """It has no prompt until one is sent."""
    stage = ClaudeStage(tmp_path)
    try:
        puppet = stage.start(argv=("-p", "--input-format", "stream-json"))
        row = stage.find_row(puppet)
        assert row is not None
        assert row.verdict.status == "idle"
    finally:
        stage.close()
