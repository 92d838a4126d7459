"""Check what an adapter returns, once, behind its fence.

An Observation is made from other programs' data: a `cwd` that is a number, or a time that is
"yesterday", must not break the whole list. A fact of the wrong type is dropped and reported. Anything
that is not an Observation is the adapter's fault and raises TypeError.
"""

from __future__ import annotations

from agentctl.system.proc import Process
from agentctl.truth.judge import RANK
from agentctl.truth.look import Look
from agentctl.truth.model import Evidence, Facts, Observation, Tokens, Turn

NoneType = type(None)  # without importing `types`

FAR = 1e12  # seconds: a time or an amount beyond is nonsense, and so are nan and infinity
MANY = 1 << 53  # a count beyond is nonsense: JSON readers do not take it exactly

_TEXTS = frozenset({"cwd", "model", "title", "prompt", "entry_point", "agent_version", "parent_id"})
_NUMBERS = frozenset({"started_at", "last_activity_at", "cost_usd"})
_OPTIONAL_TEXT, _OPTIONAL_OWNER = (str, NoneType), (Process, NoneType)
_WHOLE = frozenset({int, NoneType})
_KINDS = tuple(
    frozenset({str, NoneType}) if name in _TEXTS
    else frozenset({int, float, NoneType}) if name in _NUMBERS
    else frozenset({Tokens, NoneType}) if name == "tokens"
    else frozenset({Turn, NoneType}) if name == "turn"
    else _WHOLE
    for name in Facts._fields
)  # fmt: skip
_SOUND: set[tuple[type, ...]] = set()  # combinations of types that passed before


def validate_observation(value: object, look: Look) -> Observation:
    """Return the observation without facts of the wrong type. Raises TypeError."""
    if not isinstance(value, Observation) or not isinstance(value.facts, Facts):
        raise TypeError(f"yielded {type(value).__name__}, not an Observation")
    if not isinstance(value.session_id, _OPTIONAL_TEXT) or not isinstance(value.owner, _OPTIONAL_OWNER):
        raise TypeError(f"yielded an Observation of session {value.session_id!r}, owner {value.owner!r}")
    evidence = tuple(map(_validate_evidence, value.evidence))
    facts = value.facts
    if _are_sound(facts) and evidence == value.evidence:
        return value
    wrong = [n for n, fact in zip(Facts._fields, facts, strict=True) if not _fits(n, fact)]
    if wrong:
        source = value.transcript or value.session_id or ""
        look.report_problem("malformed", f"{', '.join(wrong)}: not of the type it should have", source)
        facts = Facts(**{n: v for n, v in facts._asdict().items() if n not in wrong})
    return value._replace(evidence=evidence, facts=facts)


def _are_sound(facts: Facts) -> bool:
    """Return whether each fact has exactly its type. Nearly all have, so this quick test makes a long
    list much cheaper."""
    types = tuple(map(type, facts))
    if types not in _SOUND:
        if not all(map(frozenset.__contains__, _KINDS, types)):
            return False
        _SOUND.add(types)
    for count in facts.tokens or ():
        if count is not None and (type(count) is not int or not -MANY < count < MANY):
            return False
    return (
        -FAR < (facts.started_at or 0) < FAR
        and -FAR < (facts.last_activity_at or 0) < FAR
        and -FAR < (facts.cost_usd or 0) < FAR
    )


def _validate_evidence(piece: object) -> Evidence:
    if not isinstance(piece, Evidence):
        raise TypeError(f"yielded {type(piece).__name__} as evidence")
    _, _, authority, at, detail, note, _, value = piece
    if authority not in RANK:
        raise TypeError(f"yielded evidence of authority {authority!r}")
    is_usual = type(note) is type(detail) is str and value is None
    if is_usual and (at is None or (type(at) is float and -FAR < at < FAR)):
        return piece
    if _is_number(at) and _is_whole(value) and isinstance(note, str) and isinstance(detail, str):
        return piece
    return piece._replace(
        at=at if _is_number(at) else None,
        detail=str(detail),
        note=str(note),
        value=value if _is_whole(value) else None,
    )


def _fits(name: str, value: object) -> bool:
    if value is None:
        return True
    if name in _TEXTS:
        return isinstance(value, str)
    if name in _NUMBERS:
        return _is_number(value)
    if name == "tokens":
        return isinstance(value, Tokens) and all(map(_is_whole, value))
    if name == "turn":
        return isinstance(value, Turn)
    return _is_whole(value)


def _is_number(value: object) -> bool:
    return value is None or (isinstance(value, int | float) and -FAR < value < FAR)


def _is_whole(value: object) -> bool:
    return value is None or (isinstance(value, int) and -MANY < value < MANY)
