"""However a launched agent ends: outcome and exit code are right, its hook runs once, its lock is free,
nothing of it is left."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from agentctl.system.pidfd import Handle
from tests.ending import kill
from tests.real.actor import PATIENCE
from tests.real.desk import Desk, Launched
from tests.waiting import until

SIGNALS = ("SIGINT", "SIGTERM", "SIGKILL")
HOOK = 'echo "$AGENTCTL_SESSION_ID $AGENTCTL_OUTCOME $AGENTCTL_EXIT_CODE" >> '


def test_success(desk: Desk) -> None:
    began, ended = desk.work / "began", desk.work / "ended"
    launched = desk.launches(
        "[[gate=%]] count", "--on-create", f"{HOOK}{began}", "--on-complete", f"{HOOK}{ended}"
    )
    assert began.read_text() == f"{launched.id}  \n"  # before launch has returned
    assert desk.locked() == [str(desk.work)]
    desk.held(launched)
    assert not ended.exists()
    desk.opens(launched)
    _it_ends(desk, launched, "success", ended)


def test_an_error_of_the_model(desk: Desk) -> None:
    ended = desk.work / "ended"
    launched = desk.launches("[[mute=%]] [[error=400]] hello", "--on-complete", f"{HOOK}{ended}")
    desk.opens(launched)
    _it_ends(desk, launched, "API error", ended)


def test_stop(desk: Desk) -> None:
    launched, ended = _at_work(desk)
    assert desk.agentctl("stop", launched.id).code == 0
    _it_ends(desk, launched, "stop", ended)


def test_its_time_is_over(desk: Desk) -> None:
    """Its shim's clock rings; we do not wait for that. No daemon is there to be faster."""
    launched, ended = _at_work(desk, "--timeout", "1h")
    over = desk.agentctl("fuse", "extend", launched.id, "--in", "0.001s", "--no-daemon")
    assert over.code == 0, over
    with Handle(desk.shim().identity) as shim:
        shim.signal(signal.SIGALRM)
    _it_ends(desk, launched, "stop", ended)


@pytest.mark.parametrize("name", SIGNALS)
def test_a_signal(desk: Desk, name: str) -> None:
    launched, ended = _at_work(desk)
    desk.signals(launched.id, signal.Signals[name])
    _it_ends(desk, launched, name, ended)


def test_its_shim_is_killed(desk: Desk) -> None:
    """It lives on, its status stays true and its directory held; only its exit code is lost."""
    ended = desk.work / "ended"
    launched = desk.launches("[[gate=%]] count", "--on-complete", f"{HOOK}{ended}")
    desk.held(launched)
    before = desk.row(launched.id)
    kill(desk.shim().identity)
    now = desk.row(launched.id)
    assert (now["status"], now["activity"], now["pid"]) == ("running", before["activity"], before["pid"])
    assert desk.locked() == [str(desk.work)]
    assert not ended.exists()
    desk.opens(launched)
    ran = desk.agentctl("wait", launched.id)
    row = desk.row(launched.id)
    outcome, _ = desk.facts.endings["success"]
    assert (ran.code, row["outcome"], row["exit_code"]) == (0, outcome, None), ran
    assert _runs(desk, ended) == [f"{launched.id} {outcome} "]


def _at_work(desk: Desk, *words: str) -> tuple[Launched, Path]:
    ended, errand = desk.work / "ended", desk.lab.errand(desk.work)
    given = ("--on-complete", f"{HOOK}{ended}", *words)
    launched = desk.launches(f"[[tool={errand.command}]] work", *given)
    errand.has_begun()
    return launched, ended


def _it_ends(desk: Desk, launched: Launched, how: str, ended: Path) -> None:
    outcome, code = desk.facts.endings[how]
    ran = desk.agentctl("wait", launched.id)
    assert ran.code == (0 if outcome == "completed" else 1), ran
    row = desk.row(launched.id)
    assert (row["status"], row["outcome"], row["exit_code"]) == ("stopped", outcome, code)
    assert desk.locked() == []
    left = desk.agentctl("stop", launched.id)  # some signals leave the agent's command running
    assert (left.code, "had stopped already" in left.out) == (0, True), left
    assert _runs(desk, ended) == [f"{launched.id} {outcome} {code}"]


def _runs(desk: Desk, hook: Path) -> list[str]:
    """What the hook wrote, each time it ran: also when all are asked to do what is left to do."""
    until(hook.exists, "the hook runs", PATIENCE)
    assert desk.agentctl("prune").code == 0
    desk.nobody_is_left()
    return hook.read_text().splitlines()
