"""The evidence that agentctl must find at each step of a rehearsal, and the comparison with a survey.
Pure.

A `Signal` is one piece of evidence: its claim, its authority, and the kind of its source. The tables in
`expected/`, one per agent, were measured on the versions that they name. On another version, a missing
or changed signal is drift, even if the status is right without it.
"""

from __future__ import annotations

import re
from typing import Literal

from agentctl.errors import Unsupported
from agentctl.light_typing import Mapping, NamedTuple, Sequence
from agentctl.truth.model import Evidence, Problem, Session

Step = Literal["start", "work", "permission", "tool", "idle", "end"]
Act = Literal["terminal", "headless"]
State = Literal["as expected", "untrusted", "otherwise", "missing"]
Version = tuple[int, ...]

# Problems that are not drift: a leftover file, and a busy machine.
HARMLESS = frozenset({"stale", "late"})


class Signal(NamedTuple):
    what: str  # for people, short enough for one line
    claim: str
    authority: str
    address: str = ""  # a pattern
    note: str = ""  # a pattern
    detail: str = ""


GONE = Signal("the kernel knows no process of it", "gone", "kernel")
EXITED = Signal("agentctl's shim noted exit code 0", "exited", "record", note=r"^exit code 0$")


class Expectation(NamedTuple):
    """What agentctl must show at one step."""

    status: str  # what is true
    signals: tuple[Signal, ...]
    waiting_for: str | None = None  # None: not checked
    outcome: str | None = None  # None: not checked
    has_id: bool = True  # the session id is known at this step
    is_blind: bool = False  # the activity cannot be seen: "running, activity unknown" is right too


class Expected(NamedTuple):
    """What one version of an agent must show. A step that is not in a table is skipped."""

    versions: tuple[str, ...]  # this was measured on them
    terminal: Mapping[Step, Expectation]
    headless: Mapping[Step, Expectation]
    call: str = "[[tool={command}]]"  # the tool call for which the agent asks permission
    question: str = ""  # a pattern on the screen when the agent asks for permission
    allow: str = "\r"  # what a user types to allow it
    environ: Mapping[str, str] = {}  # makes the agent ask


class SignalResult(NamedTuple):
    """One signal, and what was found of it."""

    signal: Signal
    state: State
    evidence: Evidence | None  # the evidence in its place


class Comparison(NamedTuple):
    results: tuple[SignalResult, ...]
    differs: tuple[str, ...]  # what is different: "status running, not waiting"
    problems: tuple[Problem, ...]

    @property
    def is_as_expected(self) -> bool:
        has_all_signals = all(result.state == "as expected" for result in self.results)
        return has_all_signals and not self.differs and not self.problems


def find_expected(adapter: str, version: str) -> Expected:
    """Return the table for this version, or for the newest one that was measured. Raises Unsupported if
    there is none for this adapter."""
    module = f"agentctl.rehearsal.expected.{adapter.replace('-', '_')}"
    try:
        expected: Expected = __import__(module, fromlist=["expected"]).expected(parse_version(version))
    except ModuleNotFoundError as error:
        if error.name != module:
            raise
        raise Unsupported(adapter, "there is no table of what it should show") from None
    return expected


def parse_version(text: str) -> Version:
    """Return (2, 1, 325) for "2.1.325 (Claude Code)"; () if there is no version."""
    match = re.search(r"\d+(?:\.\d+)+", text)
    return tuple(int(part) for part in match[0].split(".")) if match else ()


def compare(
    expectation: Expectation, session: Session | None, problems: Sequence[Problem]
) -> Comparison:
    """Compare one look with what is expected. `session` is None if it is not listed."""
    harmful = tuple(problem for problem in problems if problem.kind not in HARMLESS)
    if session is None:
        results = tuple(SignalResult(signal, "missing", None) for signal in expectation.signals)
        return Comparison(results, (f"not listed, not {expectation.status}",), harmful)
    evidence = session.observation.evidence
    results = tuple(_find_signal(signal, evidence) for signal in expectation.signals)
    return Comparison(results, tuple(_differences(expectation, session)), harmful)


def _differences(expectation: Expectation, session: Session) -> list[str]:
    verdict = session.verdict
    is_blind = expectation.is_blind and (verdict.status, verdict.activity) == ("running", "unknown")
    pairs = [
        ("status", None if is_blind else expectation.status, verdict.status),
        ("waiting for", expectation.waiting_for, verdict.waiting_for),
        ("outcome", expectation.outcome, verdict.outcome),
    ]
    differences = [
        f"{what} {actual}, not {expected}"
        for what, expected, actual in pairs
        if expected not in (None, actual)
    ]
    if expectation.has_id and session.observation.session_id is None:
        differences.append("no session id")
    return differences


def _find_signal(signal: Signal, evidence: Sequence[Evidence]) -> SignalResult:
    same_source = [piece for piece in evidence if _has_source(signal, piece)]
    same_claim = [piece for piece in same_source if _has_claim(signal, piece)]
    for piece in same_claim:
        if piece.trusted:
            return SignalResult(signal, "as expected", piece)
    for piece in (*same_claim, *same_source):
        return SignalResult(signal, "otherwise" if piece.trusted else "untrusted", piece)
    return SignalResult(signal, "missing", None)


def _has_source(signal: Signal, piece: Evidence) -> bool:
    return piece.authority == signal.authority and re.search(signal.address, piece.address) is not None


def _has_claim(signal: Signal, piece: Evidence) -> bool:
    return (
        piece.claim == signal.claim
        and signal.detail in ("", piece.detail)
        and re.search(signal.note, piece.note) is not None
    )
