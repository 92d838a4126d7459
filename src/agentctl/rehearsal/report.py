"""The report of each step of a rehearsal: plain values, one JSON line each. Their shape is in
wire/doctor."""

from __future__ import annotations

from typing import Any

from agentctl.light_typing import Sequence
from agentctl.rehearsal.signals import Act, Expectation, SignalResult, Step
from agentctl.rehearsal.tracker import Sighting
from agentctl.wire import session as shapes


def report_reached(act: Act, step: Step, expectation: Expectation, sighting: Sighting) -> dict[str, Any]:
    """Return the report of a step that the agent reached: what agentctl showed of it."""
    session, comparison, seconds = sighting
    return {
        "act": act,
        "step": step,
        "state": "as expected" if comparison.is_as_expected else "drifted",
        "expected": expectation.status,
        "blind": expectation.is_blind,
        "told": session.verdict.status if session else None,
        "reason": session.verdict.reason if session else None,
        "differs": list(comparison.differs),
        "signals": [_report_signal(result) for result in comparison.results],
        "problems": [shapes.dump_problem(problem) for problem in comparison.problems],
        "evidence": shapes.dump_session(shapes.wire_session(session))["evidence"] if session else [],
        "said": [],
        "seconds": round(seconds, 3),
    }


def report_not_reached(
    act: Act, step: Step, expectation: Expectation, lines: Sequence[str], seconds: float
) -> dict[str, Any]:
    """Return the report of a step that the agent did not reach, with its last lines."""
    return {
        "act": act,
        "step": step,
        "state": "not reached",
        "expected": expectation.status,
        "blind": expectation.is_blind,
        "told": None,
        "reason": None,
        "differs": [],
        "signals": [],
        "problems": [],
        "evidence": [],
        "said": list(lines),
        "seconds": round(seconds, 3),
    }


def _report_signal(result: SignalResult) -> dict[str, Any]:
    signal, state, evidence = result
    return {
        "what": signal.what,
        "state": state,
        "claim": signal.claim,
        "authority": signal.authority,
        "found": shapes.dump_evidence(evidence, decided=False)["note"] if evidence else None,
        "address": evidence.address if evidence else None,
    }
