"""For how long what is seen must hold before it is told."""

import pytest

from agentctl.system.identity import ProcessIdentity
from agentctl.truth.judge import judge
from agentctl.truth.model import Evidence, Launch, Observation, Session
from agentctl.truth.observe import SETTLED_AFTER
from agentctl.watch.patience import DOUBT, wanted_patience
from agentctl.watch.story import Word

ALIVE = Evidence("alive", "proc:1@1", "kernel")
GONE = Evidence("gone", "proc:1@1", "kernel")
ASKS = Evidence("waiting", "/s", "derived", 5.0, "permission")
CHOOSES = Evidence("waiting", "/s", "derived", 5.0, "startup")
SAYS = Evidence("waiting", "/s.json", "record", 5.0, "permission")
WORKS = Evidence("working", "/s", "journal", 5.0)
HIDDEN = Evidence("hidden", "/s", "journal")


def seen(*evidence: Evidence, launch: Launch | None = None) -> Session:
    return Session(Observation("x", "s", evidence), judge(evidence), launch)


def word(status: str, activity: str = "") -> Word:
    return Word(status, None, None, 1.0, activity=activity)


@pytest.mark.parametrize(
    ("session", "before", "patience"),
    [
        (seen(ALIVE, ASKS), word("running", "working"), SETTLED_AFTER),
        (seen(ALIVE, ASKS), word("waiting"), 0.0),
        (seen(ALIVE, CHOOSES), word("running", "unknown"), 0.0),
        (seen(ALIVE, SAYS), word("running", "working"), 0.0),
        (seen(ALIVE, WORKS), word("waiting"), 0.0),
        (seen(ALIVE, WORKS), word("running", "unknown"), 0.0),
        (seen(ALIVE), word("running", "working"), SETTLED_AFTER),
        (seen(ALIVE), word("running", "unknown"), 0.0),
        (seen(ALIVE), word("idle"), DOUBT),
        (seen(ALIVE), word("waiting"), DOUBT),
        (seen(ALIVE), word("stopped"), 0.0),
        (seen(ALIVE), None, 0.0),
        (seen(HIDDEN), word("running", "working"), DOUBT),
        (seen(HIDDEN), word("unknown"), 0.0),
        (seen(GONE), word("running", "working"), 0.0),
    ],
)
def test_by_what_was_told_before(session: Session, before: Word | None, patience: float) -> None:
    assert wanted_patience(session, before, begun=True) == patience


@pytest.mark.parametrize("evidence", [(HIDDEN,), (ALIVE, ASKS)])
def test_the_first_look_tells_what_there_is(evidence: tuple[Evidence, ...]) -> None:
    assert wanted_patience(seen(*evidence), None, begun=False) == 0.0
    assert wanted_patience(seen(*evidence), None, begun=True) > 0.0


def test_the_end_of_a_launch_waits_for_its_exit_code() -> None:
    launch = Launch("l", ProcessIdentity("b", 1, 1))
    assert wanted_patience(seen(GONE, launch=launch), word("running"), begun=True) == DOUBT
