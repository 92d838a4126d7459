"""However a launched agent ends: outcome and exit code are right, its hook runs once, its lock is free,
and no process is left."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from agentctl.system.pidfd import Handle
from tests.ending import kill
from tests.real.actor import PATIENCE
from tests.real.desk import Desk, Launch
from tests.waiting import until

SIGNALS = ("SIGINT", "SIGTERM", "SIGKILL")
HOOK = 'echo "$AGENTCTL_SESSION_ID $AGENTCTL_OUTCOME $AGENTCTL_EXIT_CODE" >> '


def test_success(desk: Desk) -> None:
    began, hook = desk.work / "began", desk.work / "ended"
    launched = desk.launches(
        "[[gate=%]] count", "--on-create", f"{HOOK}{began}", "--on-complete", f"{HOOK}{hook}"
    )
    assert began.read_text() == f"{launched.id}  \n"  # before launch has returned
    assert desk.locked_directories() == [str(desk.work)]
    desk.wait_for_gate(launched)
    assert not hook.exists()
    desk.opens(launched)
    _check_end(desk, launched, "success", hook)


def test_an_error_of_the_model(desk: Desk) -> None:
    hook = desk.work / "ended"
    launched = desk.launches("[[mute=%]] [[error=400]] hello", "--on-complete", f"{HOOK}{hook}")
    desk.opens(launched)
    _check_end(desk, launched, "API error", hook)


def test_stop(desk: Desk) -> None:
    launched, hook = _start_work(desk)
    assert desk.agentctl("stop", launched.id).code == 0
    _check_end(desk, launched, "stop", hook)


def test_a_timeout(desk: Desk) -> None:
    """The shim's timer, without the wait: its signal is sent at once. No daemon can be faster."""
    launched, hook = _start_work(desk, "--timeout", "1h")
    over = desk.agentctl("fuse", "extend", launched.id, "--in", "0.001s", "--no-daemon")
    assert over.code == 0, over
    with Handle(desk.shim().identity) as shim:
        shim.signal(signal.SIGALRM)
    _check_end(desk, launched, "stop", hook)


@pytest.mark.parametrize("name", SIGNALS)
def test_a_signal(desk: Desk, name: str) -> None:
    launched, hook = _start_work(desk)
    desk.signals(launched.id, signal.Signals[name])
    _check_end(desk, launched, name, hook)


def test_a_killed_shim(desk: Desk) -> None:
    """The agent lives on, its status stays true and its directory locked; only its exit code is lost."""
    hook = desk.work / "ended"
    launched = desk.launches("[[gate=%]] count", "--on-complete", f"{HOOK}{hook}")
    desk.wait_for_gate(launched)
    before = desk.row(launched.id)
    kill(desk.shim().identity)
    now = desk.row(launched.id)
    assert (now["status"], now["activity"], now["pid"]) == ("running", before["activity"], before["pid"])
    assert desk.locked_directories() == [str(desk.work)]
    assert not hook.exists()
    desk.opens(launched)
    ran = desk.agentctl("wait", launched.id)
    row = desk.row(launched.id)
    outcome, _ = desk.facts.endings["success"]
    assert (ran.code, row["outcome"], row["exit_code"]) == (0, outcome, None), ran
    assert _read_runs(desk, hook) == [f"{launched.id} {outcome} "]


def _start_work(desk: Desk, *words: str) -> tuple[Launch, Path]:
    hook, errand = desk.work / "ended", desk.lab.errand(desk.work)
    more = ("--on-complete", f"{HOOK}{hook}", *words)
    launched = desk.launches(f"[[tool={errand.command}]] work", *more)
    errand.has_begun()
    return launched, hook


def _check_end(desk: Desk, launched: Launch, how: str, hook: Path) -> None:
    outcome, code = desk.facts.endings[how]
    ran = desk.agentctl("wait", launched.id)
    assert ran.code == (0 if outcome == "completed" else 1), ran
    row = desk.row(launched.id)
    assert (row["status"], row["outcome"], row["exit_code"]) == ("stopped", outcome, code)
    assert desk.locked_directories() == []
    again = desk.agentctl("stop", launched.id)  # some signals leave the agent's command running
    assert (again.code, "had stopped already" in again.out) == (0, True), again
    assert _read_runs(desk, hook) == [f"{launched.id} {outcome} {code}"]


def _read_runs(desk: Desk, hook: Path) -> list[str]:
    """The lines of the hook, one for each run; also after agentctl was asked to finish open work."""
    until(hook.exists, "the hook runs", PATIENCE)
    assert desk.agentctl("prune").code == 0
    desk.check_room_is_empty()
    return hook.read_text().splitlines()
