"""Codex: the lock that a process holds open binds it to its thread; the rollout has the turns."""

from __future__ import annotations

from agentctl.rehearsal.signals import EXITED, GONE, Expectation, Expected, Signal, Version

_LOCK = r"/thread-writer-locks/[-0-9a-f]+\.lock$"
_BOUND = Signal(
    "the writer lock is held open", "alive", "kernel", note=rf"^bound by held open: .*{_LOCK}"
)
_UNUSED = Signal("a lock without a rollout", "idle", "derived", _LOCK, "^never prompted$")
_ROLLOUT = r"/sessions/.+/rollout-.+\.jsonl@\d+$"
_OPEN = Signal(
    "the rollout's turn is open: task_started", "working", "journal", _ROLLOUT, "^task_started$"
)
_DONE = Signal(
    "the rollout's turn is over: task_complete",
    "idle",
    "journal",
    _ROLLOUT,
    "^task_complete$",
    "completed",
)
_ASKS = Signal(
    "a call that asks to leave the sandbox, and no process runs it",
    "waiting",
    "derived",
    _ROLLOUT,
    "^asks to run outside the sandbox",
    "permission",
)
# Codex does not ask for what its sandbox allows.
_CALL = (
    '[[call=exec_command:{"cmd": "{command}", "sandbox_permissions": "require_escalated", '
    '"justification": "a rehearsal", "yield_time_ms": 30000}]]'
)


def expected(_: Version) -> Expected:
    return Expected(
        versions=("0.166.0",),
        terminal={
            "start": Expectation("idle", (_BOUND, _UNUSED)),
            "work": Expectation("running", (_BOUND, _OPEN)),
            "permission": Expectation("waiting", (_BOUND, _ASKS), waiting_for="permission"),
            "tool": Expectation("running", (_BOUND, _OPEN)),
            "idle": Expectation("idle", (_BOUND, _DONE)),
            "end": Expectation("stopped", (GONE, _DONE), outcome="completed"),
        },
        headless={
            "work": Expectation("running", (_BOUND, _OPEN)),
            "end": Expectation("stopped", (GONE, _DONE, EXITED), outcome="completed"),
        },
        call=_CALL,
        question="Would you like to run",
        allow="y",
    )
