"""The journal of the fake model: what it received and sent, in order. The driver relies on it."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from typing import Literal

from agentctl.light_typing import Callable

Kind = Literal["asked", "began", "held", "called", "answered", "refused", "dropped", "left"]
KEPT_TEXT = 2000  # characters of the prompt that a note keeps
TAIL = 15  # notes in the error of a wait that timed out


@dataclass(frozen=True, slots=True)
class Note:
    """One event.

    asked     a request was read
    began     the first byte of its answer is sent
    held      the answer waits at a gate, a silence or a mute
    called    a message with tool calls is sent
    answered  the final answer is sent
    refused   an error status, or an error event, is sent
    dropped   we closed the connection in the middle
    left      the client went away
    """

    seq: int
    at: float  # time.time()
    kind: Kind
    text: str  # the last user text
    round: int  # 0 is the first
    helper: bool
    gate: str


class Journal:
    def __init__(self, sink: Callable[[Note], None] | None = None) -> None:
        self._notes: list[Note] = []
        self._change = threading.Condition()
        self._sink = sink

    def add(
        self, kind: Kind, text: str, *, round_: int = 0, helper: bool = False, gate: str = ""
    ) -> Note:
        with self._change:
            seq = len(self._notes) + 1
            note = Note(seq, time.time(), kind, text[:KEPT_TEXT], round_, helper, gate)
            self._notes.append(note)
            if self._sink:
                self._sink(note)
            self._change.notify_all()
        return note

    def notes(self) -> tuple[Note, ...]:
        with self._change:
            return tuple(self._notes)

    @property
    def last(self) -> int:
        """The number of the newest note. Pass it as `after` to wait for later notes only."""
        with self._change:
            return len(self._notes)

    def wait(
        self,
        kind: Kind,
        containing: str = "",
        *,
        after: int = 0,
        deadline: float = 20.0,
        helper: bool | None = False,
        gate: str | None = None,
    ) -> Note:
        """Wait for the first such note and return it. `helper=None` accepts both kinds of request,
        `gate=None` any gate. Raises TimeoutError."""

        def is_match(note: Note) -> bool:
            return (
                note.kind == kind
                and containing in note.text
                and helper in (None, note.helper)
                and gate in (None, note.gate)
            )

        end = time.monotonic() + deadline
        with self._change:
            while True:
                for note in self._notes[after:]:
                    if is_match(note):
                        return note
                if not self._change.wait(max(0.0, end - time.monotonic())):
                    what = f"{kind!r} containing {containing!r} after {after}"
                    raise TimeoutError(f"not within {deadline:g} s: {what}\n{self._tail()}")

    def _tail(self) -> str:
        hidden = len(self._notes) - TAIL
        lines = [f"... {hidden} earlier"] if hidden > 0 else []
        return (
            "\n".join([*lines, *(format_note(note) for note in self._notes[-TAIL:])])
            or "the journal is empty"
        )


def format_note(note: Note) -> str:
    """Return the note as one line for people."""
    clock = f"{time.strftime('%H:%M:%S', time.localtime(note.at))}.{int(note.at % 1 * 1000):03}"
    marks = f" gate={note.gate}" if note.gate else ""
    marks += " helper" if note.helper else ""
    return f"{note.seq:4} {clock} {note.kind:8} round={note.round}{marks} {note.text[:60]!r}"
