"""What a rehearsal says of each step, as plain values: one JSON line each. The shape is in wire/."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from agentctl.rehearsal.expect import Act, Heard, Step, Telling
from agentctl.rehearsal.follow import Sighting
from agentctl.wire import session as shapes


def reached(act: Act, step: Step, telling: Telling, sighting: Sighting) -> dict[str, Any]:
    session, compared, seconds = sighting
    return {
        "act": act,
        "step": step,
        "state": "as expected" if compared.as_expected else "drifted",
        "expected": telling.status,
        "blind": telling.blind,
        "told": session.verdict.status if session else None,
        "reason": session.verdict.reason if session else None,
        "differs": list(compared.differs),
        "signals": [_signal(heard) for heard in compared.heard],
        "problems": [shapes.problem(problem) for problem in compared.problems],
        "evidence": shapes.session(session)["evidence"] if session else [],
        "said": [],
        "seconds": round(seconds, 3),
    }


def not_reached(
    act: Act, step: Step, telling: Telling, said: Sequence[str], seconds: float
) -> dict[str, Any]:
    """`said`: the agent's last words."""
    return {
        "act": act,
        "step": step,
        "state": "not reached",
        "expected": telling.status,
        "blind": telling.blind,
        "told": None,
        "reason": None,
        "differs": [],
        "signals": [],
        "problems": [],
        "evidence": [],
        "said": list(said),
        "seconds": round(seconds, 3),
    }


def _signal(heard: Heard) -> dict[str, Any]:
    found = heard.evidence
    return {
        "what": heard.signal.what,
        "state": heard.state,
        "claim": heard.signal.claim,
        "authority": heard.signal.authority,
        "found": shapes.evidence(found, decided=False)["note"] if found else None,
        "address": found.address if found else None,
    }
