"""Claude Code: its record of each process has the status, and its transcript agrees."""

from __future__ import annotations

from agentctl.rehearsal.signals import EXITED, GONE, Expectation, Expected, Signal, Version

_BOUND = Signal(
    "sessions/PID.json binds the process", "alive", "kernel", note=r"^bound by pid record: .*/sessions/"
)


def _record(claim: str, word: str, detail: str = "") -> Signal:
    what = f"sessions/PID.json says {word}"
    return Signal(what, claim, "record", r"/sessions/\d+\.json$", rf"^status {word}$", detail)


def _transcript(claim: str, word: str, detail: str = "") -> Signal:
    what = f"the transcript's last turn: {word}"
    return Signal(what, claim, "journal", r"/projects/.+\.jsonl@\d+$", rf"^{word}", detail)


_ASKED = _transcript("working", "api-request")
_CALLED = _transcript("working", "stop_reason tool_use")
_DONE = _transcript("idle", "stop_reason end_turn", "completed")
_WORK = Expectation("running", (_BOUND, _record("working", "busy"), _ASKED))


def expected(_: Version) -> Expected:
    waits = _record("waiting", "waiting: permission prompt", "permission")
    return Expected(
        versions=("2.1.325",),
        terminal={
            "start": Expectation("idle", (_BOUND, _record("idle", "idle"))),
            "work": _WORK,
            "permission": Expectation("waiting", (_BOUND, waits, _CALLED), waiting_for="permission"),
            "tool": Expectation("running", (_BOUND, _record("working", "busy"), _CALLED)),
            "idle": Expectation("idle", (_BOUND, _record("idle", "idle"), _DONE)),
            "end": Expectation("stopped", (GONE, _DONE), outcome="completed"),
        },
        headless={
            "work": _WORK,
            "end": Expectation("stopped", (GONE, _DONE, EXITED), outcome="completed"),
        },
        question="Do you want to proceed",
    )
