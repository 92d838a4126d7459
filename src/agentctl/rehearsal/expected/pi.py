"""Pi: the last line of its session file shows what it does. It never asks for permission.

Before 0.99 it creates that file only after the first answer: until then its activity cannot be seen.
Before 0.82 the environment of its commands does not name the session.
"""

from __future__ import annotations

from agentctl.rehearsal.signals import EXITED, GONE, Expectation, Expected, Signal, Version

_LINE = r"/sessions/.+\.jsonl@\d+$"
_ALIVE = Signal("its process is there", "alive", "kernel")
_INFERRED = Signal(
    "directory and start time point to the session",
    "alive",
    "kernel",
    note=r"^bound by inferred: .*\.jsonl$",
)
_BY_CHILD = Signal(
    "its command's environment names the session",
    "alive",
    "kernel",
    note=r"^bound by child's environment: ",
)
_NOTED = Signal("agentctl noted whom it launched", "alive", "kernel", note=r"^bound by launch note: ")
_OPEN = Signal("the last line is a question", "working", "journal", _LINE, "^last message: user$")
_CALLED = Signal("the last line says toolUse", "working", "journal", _LINE, "^stopReason toolUse$")
_DONE = Signal("the last line says stop", "idle", "journal", _LINE, "^stopReason stop$", "completed")
_BLIND = Expectation("running", (_ALIVE,), has_id=False, is_blind=True)


def expected(version: Version) -> Expected:
    has_late_file = bool(version) and version < (0, 99)
    names_session = not version or version >= (0, 82)
    return Expected(
        versions=("0.73.1",) if has_late_file else ("1.5.0",),
        terminal={
            "start": _BLIND._replace(status="idle"),
            "work": _BLIND if has_late_file else Expectation("running", (_INFERRED, _OPEN)),
            "tool": Expectation("running", (_BY_CHILD if names_session else _INFERRED, _CALLED)),
            "idle": Expectation("idle", (_INFERRED, _DONE)),
            "end": Expectation("stopped", (GONE, _DONE), outcome="completed"),
        },
        headless={
            "work": Expectation(
                "running", (_NOTED,) if has_late_file else (_NOTED, _OPEN), is_blind=has_late_file
            ),
            "end": Expectation("stopped", (GONE, _DONE, EXITED), outcome="completed"),
        },
    )
