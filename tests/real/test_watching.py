"""What `wait`, `peek` and `logs -f` promise, on the real agent that this run is about."""

from __future__ import annotations

import pytest

from tests.real.desk import Desk

ASK = '{"bash": "ask"}'  # for OpenCode, which otherwise asks for nothing


def test_following_a_turn_to_its_end(desk: Desk) -> None:
    errand = desk.lab.errand(desk.work)
    launched = desk.launches(f"[[tool={errand.command}]] [[gate=%]] [[say=all is done]]")
    errand.has_begun()
    late = desk.agentctl("wait", launched.id, "--timeout", "1s")
    assert late.code == 124, late
    with desk.follows("logs", "-f", launched.id) as logs, desk.follows("wait", launched.id) as wait:
        logs.says(launched.mark)
        logs.says(errand.command)
        errand.finish()
        desk.wait_for_gate(launched)
        logs.says("done")  # what the command has printed
        assert launched.mark in desk.agentctl("peek", launched.id).out
        assert (logs.child.poll(), wait.child.poll()) == (None, None)
        desk.opens(launched)
        logs.says("all is done")
        assert (logs.ends(), wait.ends()) == (0, 0)
    assert "all is done" in desk.agentctl("peek", launched.id, "-n", "1").out


def test_waiting_for_a_question_and_for_idle(desk: Desk) -> None:
    """In a TUI that we did not start."""
    asking = desk.facts.asking
    if asking is None:
        pytest.skip(f"{desk.adapter} asks for no permission: it never waits")
    actor = desk.lab.tui(OPENCODE_PERMISSION=ASK)
    actor.says(f"[[gate=%]] {asking.script.replace('FILE', '%.made')}")
    actor.heard("held")
    who = f"pid:{actor.process.pid}"
    assert desk.agentctl("wait", who, "--for", "waiting", "--timeout", "1s").code == 124
    with desk.follows("wait", who, "--for", "waiting", "--timeout", "60s") as wait:
        actor.opens()
        assert (wait.ends(), "waiting for permission" in wait.text()) == (0, True), wait.text()
    with desk.follows("wait", who, "--for", "idle", "--timeout", "60s") as wait:
        actor.sees(asking.shows)
        actor.presses("Enter")
        assert (wait.ends(), "idle" in wait.text()) == (0, True), wait.text()
    assert (desk.lab.work / f"{actor.mark}.made").exists()
