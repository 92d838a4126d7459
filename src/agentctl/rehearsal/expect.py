"""What agentctl must be able to read off an agent at each step, and how a survey compares. Pure.

A `Signal` is one piece of evidence by what it claims, on whose authority, from which kind of source. The
tables, one per agent in `expected/`, were measured on the versions that they name. On another version
a missing or changed signal is drift, also where the status happens to be right without it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

from agentctl.errors import Unsupported
from agentctl.truth.model import Evidence, Problem, Session

Step = Literal["start", "work", "permission", "tool", "idle", "end"]
Act = Literal["terminal", "headless"]
State = Literal["as expected", "untrusted", "otherwise", "missing"]
Version = tuple[int, ...]

# Problems that are no drift: a leftover, and a machine that is busy.
HARMLESS = frozenset({"stale", "late"})


class Signal(NamedTuple):
    what: str  # for people, of a length that fits a line
    claim: str
    authority: str
    address: str = ""  # a pattern somewhere in it
    note: str = ""  # a pattern somewhere in it
    detail: str = ""


GONE = Signal("the kernel knows no process of it", "gone", "kernel")
EXITED = Signal("agentctl's shim noted exit code 0", "exited", "record", note=r"^exit code 0$")


class Telling(NamedTuple):
    """What is to be told at one step."""

    status: str  # what is true
    signals: tuple[Signal, ...]
    waiting_for: str | None = None  # None: not looked at
    outcome: str | None = None  # the same
    named: bool = True  # the session's id is known by then
    blind: bool = (
        False  # nothing outside tells the activity: "running, activity unknown" is as it should be
    )


class Expected(NamedTuple):
    """Of one version of an agent. A step that is not in a table is not taken."""

    versions: tuple[str, ...]  # on which this was measured
    terminal: Mapping[Step, Telling]
    headless: Mapping[Step, Telling]
    call: str = "[[tool={command}]]"  # how the model asks for the tool, so that a permission is wanted
    wanted: str = ""  # a pattern that the screen shows when a permission is asked for
    allow: str = "\r"  # what a person types then
    environ: Mapping[str, str] = {}  # that makes it ask


class Heard(NamedTuple):
    """One signal, compared."""

    signal: Signal
    state: State
    evidence: Evidence | None  # what was found in its place


class Compared(NamedTuple):
    heard: tuple[Heard, ...]
    differs: tuple[str, ...]  # what is told otherwise: "status running, not waiting"
    problems: tuple[Problem, ...]

    @property
    def as_expected(self) -> bool:
        return (
            not self.differs and not self.problems and all(h.state == "as expected" for h in self.heard)
        )


def expected_of(adapter: str, version: str) -> Expected:
    """For this version, or for the newest that was measured. Raises Unsupported where none was."""
    module = f"agentctl.rehearsal.expected.{adapter.replace('-', '_')}"
    try:
        found: Expected = __import__(module, fromlist=["expected"]).expected(numbers(version))
    except ModuleNotFoundError as error:
        if error.name != module:
            raise
        raise Unsupported(adapter, "nobody has measured what it is expected to show") from None
    return found


def numbers(version: str) -> Version:
    """Of "2.1.325 (Claude Code)": what can be compared; nothing where there is no version."""
    found = re.search(r"\d+(?:\.\d+)+", version)
    return tuple(int(part) for part in found[0].split(".")) if found else ()


def compare(telling: Telling, session: Session | None, problems: Sequence[Problem]) -> Compared:
    """`session`: None if it is not listed at all."""
    harmful = tuple(problem for problem in problems if problem.kind not in HARMLESS)
    if session is None:
        heard = tuple(Heard(signal, "missing", None) for signal in telling.signals)
        return Compared(heard, (f"not listed, not {telling.status}",), harmful)
    evidence = session.seen.evidence
    heard = tuple(_heard(signal, evidence) for signal in telling.signals)
    return Compared(heard, tuple(_differences(telling, session)), harmful)


def _differences(telling: Telling, session: Session) -> list[str]:
    verdict = session.verdict
    cannot_know = telling.blind and (verdict.status, verdict.activity) == ("running", "unknown")
    pairs = [
        ("status", None if cannot_know else telling.status, verdict.status),
        ("waiting for", telling.waiting_for, verdict.waiting_for),
        ("outcome", telling.outcome, verdict.outcome),
    ]
    found = [f"{what} {told}, not {meant}" for what, meant, told in pairs if meant not in (None, told)]
    if telling.named and session.seen.session_id is None:
        found.append("no session id")
    return found


def _heard(signal: Signal, evidence: Sequence[Evidence]) -> Heard:
    same_source = [piece for piece in evidence if _from(signal, piece)]
    saying = [piece for piece in same_source if _says(signal, piece)]
    for piece in saying:
        if piece.trusted:
            return Heard(signal, "as expected", piece)
    for piece in (*saying, *same_source):
        return Heard(signal, "otherwise" if piece.trusted else "untrusted", piece)
    return Heard(signal, "missing", None)


def _from(signal: Signal, piece: Evidence) -> bool:
    return piece.authority == signal.authority and re.search(signal.address, piece.address) is not None


def _says(signal: Signal, piece: Evidence) -> bool:
    return (
        piece.claim == signal.claim
        and signal.detail in ("", piece.detail)
        and re.search(signal.note, piece.note) is not None
    )
