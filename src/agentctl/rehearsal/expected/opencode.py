"""OpenCode: its log tells whose session it is, its database what it does."""

from __future__ import annotations

import json

from agentctl.rehearsal.expect import EXITED, GONE, Expected, Signal, Telling, Version

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
            "start": Telling("idle", (_ALIVE, _RESTS), named=False),
            "work": Telling("running", (_LOGGED, _OPEN)),
            "permission": Telling("waiting", (_LOGGED, _ASKS), waiting_for="permission"),
            "tool": Telling("running", (_LOGGED, _OPEN)),
            "idle": Telling("idle", (_LOGGED, _DONE)),
            "end": Telling("stopped", (GONE, _DONE), outcome="completed"),
        },
        headless={
            "work": Telling("running", (_LOGGED, _OPEN)),
            "end": Telling("stopped", (GONE, _DONE, EXITED), outcome="completed"),
        },
        wanted="Permission required",
        environ={"OPENCODE_PERMISSION": json.dumps({"bash": "ask"})},  # it asks for nothing by itself
    )
