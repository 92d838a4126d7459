"""Finding an agent's program, and how a rehearsal breaks. Whole ones: tests/cli/verbs/test_doctor.py."""

from pathlib import Path

import pytest

from agentctl.errors import StartFailed, Unsupported
from agentctl.rehearsal import run, sandbox
from tests.fakes.talking_claude import TalkingStage

REASON = sandbox.find_obstacle(read_only=True)
needs_sandbox = pytest.mark.skipif(REASON is not None, reason=f"no sandbox can be made here: {REASON}")


def test_it_is_found_as_launch_finds_it(tmp_path: Path) -> None:
    stage = TalkingStage(tmp_path)
    program = stage.install()
    assert run.find_agent_program("claude-code", stage.environ) == str(program)
    own = {**stage.environ, "AGENTCTL_ADAPTER_CLAUDE_CODE_BINARY": "/bin/true"}
    assert run.find_agent_program("claude-code", own) == "/bin/true"


def test_an_agent_that_is_not_installed_is_reported_with_the_places_searched(tmp_path: Path) -> None:
    with pytest.raises(StartFailed, match="claude is not installed") as error:
        run.find_agent_program("claude-code", {"PATH": str(tmp_path), "HOME": str(tmp_path)})
    assert str(tmp_path) in error.value.hint


def test_an_agent_without_a_recipe_is_unsupported(tmp_path: Path) -> None:
    with pytest.raises(Unsupported, match="no recipe to rehearse it"):
        run.find_agent_program("demo", {"PATH": str(tmp_path)})


@needs_sandbox
def test_a_rehearsal_that_breaks_reports_its_last_words() -> None:
    lines = list(run.rehearse("demo", "/bin/true", {"PATH": "/usr/bin:/bin"}, 1.0))
    assert lines == [{"broken": ["demo: there is no recipe to rehearse it"]}]
