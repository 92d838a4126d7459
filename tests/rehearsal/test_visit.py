"""Finding an agent's program, and what a walk tells. (Whole visits: tests/cli/verbs/test_doctor.py.)"""

from pathlib import Path

import pytest

from agentctl.errors import StartFailed, Unsupported
from agentctl.rehearsal import sandbox, visit
from tests.fakes.talking_claude import TalkingStage

REASON = sandbox.obstacle(read_only=True)
needs_a_room = pytest.mark.skipif(REASON is not None, reason=f"no room can be had here: {REASON}")


def test_it_is_found_as_launch_finds_it(tmp_path: Path) -> None:
    stage = TalkingStage(tmp_path)
    program = stage.install()
    assert visit.program("claude-code", stage.environ) == str(program)
    own = {**stage.environ, "AGENTCTL_ADAPTER_CLAUDE_CODE_BINARY": "/bin/true"}
    assert visit.program("claude-code", own) == "/bin/true"


def test_what_is_not_installed_is_told_with_where_we_looked(tmp_path: Path) -> None:
    with pytest.raises(StartFailed, match="claude is not installed") as told:
        visit.program("claude-code", {"PATH": str(tmp_path), "HOME": str(tmp_path)})
    assert str(tmp_path) in told.value.hint


def test_what_nobody_wrote_a_recipe_for_is_told(tmp_path: Path) -> None:
    with pytest.raises(Unsupported, match="how to rehearse it"):
        visit.program("demo", {"PATH": str(tmp_path)})


@needs_a_room
def test_a_walk_that_breaks_is_told_in_its_last_words() -> None:
    lines = list(visit.visit("demo", "/bin/true", {"PATH": "/usr/bin:/bin"}, 1.0))
    assert lines == [{"broken": ["demo: nobody has written down how to rehearse it"]}]
