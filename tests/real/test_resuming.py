"""What `resume` promises, on the real agent that this run is about."""

from __future__ import annotations

import signal

from tests.real.actor import marked
from tests.real.desk import AT_ONCE, Desk, Launched


def test_after_a_kill_from_another_directory(desk: Desk) -> None:
    """Same id, its own directory, the message; while it lives, nobody else goes on with it."""
    errand = desk.lab.errand(desk.work)
    first = desk.launches(f"[[tool={errand.command}]] work", "--name", "checkout")
    errand.has_begun()
    desk.signals(first.id, signal.SIGKILL)
    desk.clear()  # its command lives on, and is nobody's by now
    elsewhere = desk.directory()
    again = _resumed(desk, first.id, "[[tool=pwd -P > where]] [[gate=%]] go on")
    desk.held(again)
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


def test_one_that_a_person_began(desk: Desk) -> None:
    actor = desk.lab.headless("[[say=hello]]", cwd=desk.work)
    assert actor.exit_code == 0
    session_id = actor.who().session_id
    assert session_id is not None
    mark, message = marked("[[say=once more]]")
    ran = desk.agentctl("resume", session_id, message, "--wait")
    assert (ran.code, ran.lines) == (0, [session_id]), ran
    assert desk.native_id(Launched("", mark)) == session_id
    said = desk.agentctl("logs", session_id).out
    assert all(text in said for text in (actor.mark, "hello", mark, "once more"))


def _resumed(desk: Desk, session_id: str, script: str) -> Launched:
    mark, message = marked(script)
    words = ("resume", session_id, message, *desk.facts.unasked)
    ran = desk.agentctl(*words, cwd=desk.directory(), environ=AT_ONCE)
    assert (ran.code, ran.lines) == (0, [session_id]), ran
    return Launched(session_id, mark)
