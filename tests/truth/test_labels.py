"""What launch notes add to a verdict. How they find their session: test_survey.py."""

import pytest

from agentctl.truth import labels, procfs
from agentctl.truth.judge import judge
from agentctl.truth.labels import labelled
from agentctl.truth.model import Evidence, Exit, Facts, Launch, Observation, ProcessIdentity

GONE = ProcessIdentity("b", 7, 1)
OPEN = (
    Evidence("gone", "/proc", "kernel"),
    Evidence("working", "/journal@1", "journal"),
)


def test_an_exit_code_tells_how_it_ended() -> None:
    seen = Observation("demo", "s", OPEN)
    note = Launch("l1", GONE, "s", ended=Exit(3, 1000.0, "/exit"))
    found = labelled(seen, judge(seen.evidence), note)
    assert (found.verdict.outcome, found.verdict.exit_code) == ("failed", 3)
    assert found.launch == note


def test_the_living_have_no_exit() -> None:
    alive = Observation("demo", "s", (Evidence("alive", "proc:7@1", "kernel"),))
    note = Launch("l1", GONE, "s", ended=Exit(3, 1000.0, "/exit"))
    assert labelled(alive, judge(alive.evidence), note).verdict == judge(alive.evidence)


def test_one_of_another_container_is_not_dead_for_being_absent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(procfs, "elsewhere", lambda *_: True)
    seen = Observation("demo", "s", OPEN)
    found = labelled(seen, judge(seen.evidence), Launch("l1", GONE, "s"))
    assert (found.verdict.status, found.verdict.reason) == ("unknown", labels.ELSEWHERE)


@pytest.mark.parametrize(("back", "believed"), [(0.0, False), (7200.0, True)])
def test_a_clock_that_was_set_back_makes_no_later_owner(back: float, believed: bool) -> None:
    """What the agent wrote before that seems to be later than its end."""
    told = labels._exited(Exit(0, 1000.0, "/exit", back), Facts(last_activity_at=8000.0))
    assert told.trusted is believed
