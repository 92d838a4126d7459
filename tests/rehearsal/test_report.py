"""A step as plain values: both kinds have the documented fields, and say what is to be said."""

from agentctl.rehearsal.expect import Signal, Telling, compare
from agentctl.rehearsal.follow import Sighting
from agentctl.rehearsal.report import not_reached, reached
from agentctl.truth.judge import judge
from agentctl.truth.model import Evidence, Observation, Session
from agentctl.wire.doctor import STEP_FIELDS

NAMES = [name for name, _, _ in STEP_FIELDS]
EVIDENCE = (
    Evidence("alive", "proc:7@9", "kernel"),
    Evidence("working", "/x/7.json", "record", note="status busy"),
)
TELLING = Telling("idle", (Signal("it says idle", "idle", "record"),))


def test_a_step_that_was_reached() -> None:
    session = Session(Observation("x", "one", EVIDENCE), judge(EVIDENCE))
    step = reached("terminal", "idle", TELLING, Sighting(session, compare(TELLING, session, []), 0.5))
    assert list(step) == NAMES
    assert (step["state"], step["expected"], step["told"]) == ("drifted", "idle", "running")
    assert step["differs"] == ["status running, not idle"]
    (signal,) = step["signals"]
    assert (signal["state"], signal["found"]) == ("otherwise", "status busy")
    assert signal["address"] == "/x/7.json"
    assert [piece["claim"] for piece in step["evidence"]] == ["alive", "working"]


def test_a_step_whose_session_is_not_listed() -> None:
    step = reached("headless", "work", TELLING, Sighting(None, compare(TELLING, None, []), 0.5))
    assert (step["told"], step["evidence"]) == (None, [])
    assert step["signals"][0]["state"] == "missing"


def test_a_step_that_was_not_reached() -> None:
    step = not_reached("terminal", "start", TELLING, ["boom"], 30.0)
    assert list(step) == NAMES
    assert (step["state"], step["said"], step["seconds"]) == ("not reached", ["boom"], 30.0)
