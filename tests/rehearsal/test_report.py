"""A step as plain values: both kinds have the documented fields, with the right values."""

from agentctl.rehearsal.report import report_not_reached, report_reached
from agentctl.rehearsal.signals import Expectation, Signal, compare
from agentctl.rehearsal.tracker import Sighting
from agentctl.truth.judge import judge
from agentctl.truth.model import Evidence, Observation, Session
from agentctl.wire.doctor import STEP_FIELDS

NAMES = [name for name, _, _ in STEP_FIELDS]
EVIDENCE = (
    Evidence("alive", "proc:7@9", "kernel"),
    Evidence("working", "/x/7.json", "record", note="status busy"),
)
EXPECTED = Expectation("idle", (Signal("it says idle", "idle", "record"),))


def test_a_step_that_was_reached() -> None:
    session = Session(Observation("x", "one", EVIDENCE), judge(EVIDENCE))
    step = report_reached(
        "terminal", "idle", EXPECTED, Sighting(session, compare(EXPECTED, session, []), 0.5)
    )
    assert list(step) == NAMES
    assert (step["state"], step["expected"], step["told"]) == ("drifted", "idle", "running")
    assert step["differs"] == ["status running, not idle"]
    (signal,) = step["signals"]
    assert (signal["state"], signal["found"]) == ("otherwise", "status busy")
    assert signal["address"] == "/x/7.json"
    assert [piece["claim"] for piece in step["evidence"]] == ["alive", "working"]


def test_a_step_whose_session_is_not_listed() -> None:
    step = report_reached("headless", "work", EXPECTED, Sighting(None, compare(EXPECTED, None, []), 0.5))
    assert (step["told"], step["evidence"]) == (None, [])
    assert step["signals"][0]["state"] == "missing"


def test_a_step_that_was_not_reached() -> None:
    step = report_not_reached("terminal", "start", EXPECTED, ["boom"], 30.0)
    assert list(step) == NAMES
    assert (step["state"], step["said"], step["seconds"]) == ("not reached", ["boom"], 30.0)
