"""What an adapter hands over, checked once, behind its fence.

It is made of other programs' data: a `cwd` that is a number or a time that is "yesterday" in one
agent's file must not end in the middle of everybody's list. A fact of the wrong type is left out and
told; a thing that is no Observation at all is the adapter's fault and raises TypeError.
"""

from __future__ import annotations

from agentctl.truth.judge import RANK
from agentctl.truth.look import Look
from agentctl.truth.model import Evidence, Facts, Observation, Tokens, Turn
from agentctl.truth.procfs import Process

FAR = 1e12  # seconds: a time or an amount beyond it is nonsense, and so are nan and infinity

_TEXTS = frozenset({"cwd", "model", "title", "prompt", "entry_point", "agent_version", "parent_id"})
_NUMBERS = frozenset({"started_at", "last_activity_at", "cost_usd"})


def sound(given: object, look: Look) -> Observation:
    """The same observation without facts of the wrong type. Raises TypeError."""
    if not isinstance(given, Observation) or not isinstance(given.facts, Facts):
        raise TypeError(f"yielded {type(given).__name__}, not an Observation")
    if not isinstance(given.session_id, str | None) or not isinstance(given.owner, Process | None):
        raise TypeError(f"yielded an Observation of session {given.session_id!r}, owner {given.owner!r}")
    evidence = tuple(_piece(piece) for piece in given.evidence)
    facts = given.facts
    wrong = [n for n, value in zip(Facts._fields, facts, strict=True) if not _fits(n, value)]
    if wrong:
        source = given.transcript or given.session_id or ""
        look.problem("malformed", f"{', '.join(wrong)}: not of the type it should have", source)
        facts = Facts(**{n: v for n, v in facts._asdict().items() if n not in wrong})
    return given._replace(evidence=evidence, facts=facts)


def _piece(given: object) -> Evidence:
    if not isinstance(given, Evidence):
        raise TypeError(f"yielded {type(given).__name__} as evidence")
    if given.authority not in RANK:
        raise TypeError(f"yielded evidence of authority {given.authority!r}")
    if _number(given.at) and _whole(given.value) and _text(given.note) and _text(given.detail):
        return given
    return given._replace(
        at=given.at if _number(given.at) else None,
        detail=str(given.detail),
        note=str(given.note),
        value=given.value if _whole(given.value) else None,
    )


def _fits(name: str, value: object) -> bool:
    if value is None:
        return True
    if name in _TEXTS:
        return isinstance(value, str)
    if name in _NUMBERS:
        return _number(value)
    if name == "tokens":
        return isinstance(value, Tokens) and all(map(_whole, value))
    if name == "turn":
        return isinstance(value, Turn)
    return _whole(value)


def _text(value: object) -> bool:
    return isinstance(value, str)


def _number(value: object) -> bool:
    return value is None or (isinstance(value, int | float) and -FAR < value < FAR)


def _whole(value: object) -> bool:
    return value is None or isinstance(value, int)
