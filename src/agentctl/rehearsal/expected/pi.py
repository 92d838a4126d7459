"""Pi: the last line of its session file tells. It asks for no permission, ever.

Before 0.99 that file is written after the first answer: until then nothing tells what it does. Before
0.82 it does not say to its commands which session they are of.
"""

from __future__ import annotations

from agentctl.rehearsal.expect import EXITED, GONE, Expected, Signal, Telling, Version

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
_UNSEEN = Telling("running", (_ALIVE,), named=False, blind=True)


def expected(version: Version) -> Expected:
    late = bool(version) and version < (0, 99)
    tells_children = not version or version >= (0, 82)
    return Expected(
        versions=("0.73.1",) if late else ("1.5.0",),
        terminal={
            "start": _UNSEEN._replace(status="idle"),
            "work": _UNSEEN if late else Telling("running", (_INFERRED, _OPEN)),
            "tool": Telling("running", (_BY_CHILD if tells_children else _INFERRED, _CALLED)),
            "idle": Telling("idle", (_INFERRED, _DONE)),
            "end": Telling("stopped", (GONE, _DONE), outcome="completed"),
        },
        headless={
            "work": Telling("running", (_NOTED,) if late else (_NOTED, _OPEN), blind=late),
            "end": Telling("stopped", (GONE, _DONE, EXITED), outcome="completed"),
        },
    )
