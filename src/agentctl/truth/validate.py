"""What an adapter hands over, checked once, behind its fence.

It is made of other programs' data: a `cwd` that is a number or a time that is "yesterday" in one
agent's file must not end in the middle of everybody's list. A fact of the wrong type is left out and
told; a thing that is no Observation at all is the adapter's fault and raises TypeError.
"""

from __future__ import annotations

from types import NoneType

from agentctl.system.proc import Process
from agentctl.truth.judge import RANK
from agentctl.truth.look import Look
from agentctl.truth.model import Evidence, Facts, Observation, Tokens, Turn

FAR = 1e12  # seconds: a time or an amount beyond it is nonsense, and so are nan and infinity
MANY = 1 << 53  # and so is a count that no JSON reader takes exactly

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
_KNOWN: set[tuple[type, ...]] = set()  # combinations that were found to be of these kinds


def sound(given: object, look: Look) -> Observation:
    """The same observation without facts of the wrong type. Raises TypeError."""
    if not isinstance(given, Observation) or not isinstance(given.facts, Facts):
        raise TypeError(f"yielded {type(given).__name__}, not an Observation")
    if not isinstance(given.session_id, _OPTIONAL_TEXT) or not isinstance(given.owner, _OPTIONAL_OWNER):
        raise TypeError(f"yielded an Observation of session {given.session_id!r}, owner {given.owner!r}")
    evidence = tuple(map(_piece, given.evidence))
    facts = given.facts
    if _plainly_sound(facts) and evidence == given.evidence:
        return given
    wrong = [n for n, value in zip(Facts._fields, facts, strict=True) if not _fits(n, value)]
    if wrong:
        source = given.transcript or given.session_id or ""
        look.problem("malformed", f"{', '.join(wrong)}: not of the type it should have", source)
        facts = Facts(**{n: v for n, v in facts._asdict().items() if n not in wrong})
    return given._replace(evidence=evidence, facts=facts)


def _plainly_sound(facts: Facts) -> bool:
    """Whether each is of exactly the type it should have: so it is in all but a few of thousands, and
    looking no further makes a long list a good deal cheaper."""
    types = tuple(map(type, facts))
    if types not in _KNOWN:
        if not all(map(frozenset.__contains__, _KINDS, types)):
            return False
        _KNOWN.add(types)
    tokens = facts.tokens
    return (
        -FAR < (facts.started_at or 0) < FAR
        and -FAR < (facts.last_activity_at or 0) < FAR
        and -FAR < (facts.cost_usd or 0) < FAR
        and (
            tokens is None
            or (
                _WHOLE.issuperset(map(type, tokens))
                and max(map(abs, filter(None, tokens)), default=0) < MANY
            )
        )
    )


def _piece(given: object) -> Evidence:
    if not isinstance(given, Evidence):
        raise TypeError(f"yielded {type(given).__name__} as evidence")
    _, _, authority, at, detail, note, _, value = given
    if authority not in RANK:
        raise TypeError(f"yielded evidence of authority {authority!r}")
    usual = type(note) is type(detail) is str and value is None
    if usual and (at is None or (type(at) is float and -FAR < at < FAR)):
        return given
    if _number(at) and _whole(value) and _text(note) and _text(detail):
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
    return value is None or (isinstance(value, int) and -MANY < value < MANY)
