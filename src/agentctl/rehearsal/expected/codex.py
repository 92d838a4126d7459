"""Codex: the lock that a thread's process holds binds it, the rollout tells of its turns."""

from __future__ import annotations

from agentctl.rehearsal.expect import EXITED, GONE, Expected, Signal, Telling, Version

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
# Of its own accord it asks for nothing that its sandbox allows.
_CALL = (
    '[[call=exec_command:{"cmd": "{command}", "sandbox_permissions": "require_escalated", '
    '"justification": "a rehearsal", "yield_time_ms": 30000}]]'
)


def expected(_: Version) -> Expected:
    return Expected(
        versions=("0.166.0",),
        terminal={
            "start": Telling("idle", (_BOUND, _UNUSED)),
            "work": Telling("running", (_BOUND, _OPEN)),
            "permission": Telling("waiting", (_BOUND, _ASKS), waiting_for="permission"),
            "tool": Telling("running", (_BOUND, _OPEN)),
            "idle": Telling("idle", (_BOUND, _DONE)),
            "end": Telling("stopped", (GONE, _DONE), outcome="completed"),
        },
        headless={
            "work": Telling("running", (_BOUND, _OPEN)),
            "end": Telling("stopped", (GONE, _DONE, EXITED), outcome="completed"),
        },
        call=_CALL,
        wanted="Would you like to run",
        allow="y",
    )
