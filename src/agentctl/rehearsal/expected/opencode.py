"""OpenCode: its log says which process runs a session, its database what the session does."""

from __future__ import annotations

import json

from agentctl.rehearsal.signals import EXITED, GONE, Expectation, Expected, Signal, Version

_ANSWER = r"/opencode\.db#ses_\w+/msg_\w+$"
_ALIVE = Signal("its process is there", "alive", "kernel")
_RESTS = Signal("no turn is open in its database", "idle", "derived", note="^no turn is open")
_LOGGED = Signal(
    "its own lines in the log name the session",
    "alive",
    "kernel",
    note=r"^bound by held open: .*/opencode\.log@",
)
_OPEN = Signal(
    "the last answer has no end", "working", "journal", _ANSWER, r"^answer without time\.completed$"
)
_DONE = Signal(
    "the last answer says finish stop", "idle", "journal", _ANSWER, "^finish stop$", "completed"
)
_ASKS = Signal(
    "a command that runs without metadata",
    "waiting",
    "derived",
    _ANSWER,
    r"is running without state\.metadata",
    "permission",
)


def expected(_: Version) -> Expected:
    return Expected(
        versions=("1.18.33",),
        terminal={
            "start": Expectation("idle", (_ALIVE, _RESTS), has_id=False),
            "work": Expectation("running", (_LOGGED, _OPEN)),
            "permission": Expectation("waiting", (_LOGGED, _ASKS), waiting_for="permission"),
            "tool": Expectation("running", (_LOGGED, _OPEN)),
            "idle": Expectation("idle", (_LOGGED, _DONE)),
            "end": Expectation("stopped", (GONE, _DONE), outcome="completed"),
        },
        headless={
            "work": Expectation("running", (_LOGGED, _OPEN)),
            "end": Expectation("stopped", (GONE, _DONE, EXITED), outcome="completed"),
        },
        question="Permission required",
        environ={"OPENCODE_PERMISSION": json.dumps({"bash": "ask"})},  # it does not ask otherwise
    )
