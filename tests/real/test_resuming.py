"""What `resume` promises, on the real agent that this run is about."""

from __future__ import annotations

import signal

from tests.real.actor import make_prompt
from tests.real.desk import AT_ONCE, Desk, Launch


def test_resume_after_a_kill_from_another_directory(desk: Desk) -> None:
    """Same id, its own directory, and the message arrives. A second resume is refused while it lives."""
    errand = desk.lab.errand(desk.work)
    first = desk.launches(f"[[tool={errand.command}]] work", "--name", "checkout")
    errand.has_begun()
    desk.signals(first.id, signal.SIGKILL)
    desk.clear()  # its command survives it, and has no session by now
    elsewhere = desk.directory()
    again = _resume(desk, first.id, "[[tool=pwd -P > where]] [[gate=%]] go on")
    desk.wait_for_gate(again)
    row = desk.row(first.id)
    assert (row["status"], row["cwd"]) == ("running", str(desk.work))
    assert row["launch"]["name"] == "checkout"
    refused = desk.agentctl("resume", first.id, "me too", cwd=elsewhere)
    assert (refused.code, refused.out) == (4, ""), refused
    desk.opens(again)
    assert desk.agentctl("wait", first.id).code == 0
    assert (desk.work / "where").read_text() == f"{desk.work}\n"
    assert desk.native_id(again) == first.id
    assert desk.row(first.id)["outcome"] == "completed"


def test_resume_of_a_session_that_a_person_began(desk: Desk) -> None:
    actor = desk.lab.headless("[[say=hello]]", cwd=desk.work)
    assert actor.exit_code == 0
    session_id = actor.who().session_id
    assert session_id is not None
    mark, message = make_prompt("[[say=once more]]")
    ran = desk.agentctl("resume", session_id, message, "--wait")
    assert (ran.code, ran.lines) == (0, [session_id]), ran
    assert desk.native_id(Launch("", mark)) == session_id
    logs = desk.agentctl("logs", session_id).out
    assert all(text in logs for text in (actor.mark, "hello", mark, "once more"))


def _resume(desk: Desk, session_id: str, script: str) -> Launch:
    mark, message = make_prompt(script)
    words = ("resume", session_id, message, *desk.facts.unasked)
    ran = desk.agentctl(*words, cwd=desk.directory(), environ=AT_ONCE)
    assert (ran.code, ran.lines) == (0, [session_id]), ran
    return Launch(session_id, mark)
