"""A session of `shapes` as JSON text, without the dict in between: the same bytes in less than half the
time, which is most of what a list of thousands costs. `tests/wire/test_encode.py` holds the two
together.
"""

from __future__ import annotations

from json import dumps
from json.encoder import encode_basestring_ascii as quoted

from agentctl.truth.clock import rfc3339
from agentctl.truth.model import Evidence, Session, Tokens
from agentctl.wire import shapes


def _template(names: tuple[str, ...]) -> str:
    return "{" + ", ".join(f'"{name}": %s' for name in names) + "}"


_SESSION = _template(tuple(name for name, _, _ in shapes.SESSION_FIELDS))
_EVIDENCE = _template(tuple(name for name, _, _ in shapes.EVIDENCE_FIELDS))
_TOKENS = _template(Tokens._fields)
_HOST = quoted(shapes.HOST)


def session(given: Session) -> str:
    """What `json.dumps(shapes.session(given))` would be."""
    seen, verdict, facts = given.seen, given.verdict, given.seen.facts
    evidence = [_evidence(piece, "true") for piece in verdict.used]
    evidence += [_evidence(piece, "false") for piece in verdict.overruled]
    return _SESSION % (
        _text(seen.session_id),
        quoted(seen.adapter),
        quoted(verdict.status),
        quoted(verdict.activity),
        _text(verdict.waiting_for),
        _text(verdict.outcome),
        _number(verdict.exit_code),
        quoted(verdict.reason),
        "null" if seen.owner is None else seen.owner.pid,
        _time(facts.started_at),
        _time(facts.last_activity_at),
        _text(facts.cwd),
        _text(facts.model),
        _text(facts.title),
        _text(facts.prompt),
        "null" if facts.tokens is None else _TOKENS % tuple(map(_number, facts.tokens)),
        _number(facts.cost_usd),
        _text(seen.transcript),
        _text(facts.entry_point),
        _text(facts.agent_version),
        _text(facts.parent_id),
        _HOST,
        "null" if given.launch is None else dumps(shapes.launch(given.launch)),
        f"[{', '.join(evidence)}]",
    )


def _evidence(given: Evidence, decided: str) -> str:
    return _EVIDENCE % (
        quoted(given.claim),
        quoted(given.detail) if given.detail else "null",
        quoted(given.authority),
        _time(given.at),
        quoted(given.address),
        quoted(given.note) if given.note else "null",
        "true" if given.trusted else "false",
        decided,
    )


def _text(value: str | None) -> str:
    return "null" if value is None else quoted(value)


def _number(value: float | None) -> str:
    if value is None:
        return "null"
    return repr(value) if type(value) is int else dumps(value)


def _time(seconds: float | None) -> str:
    moment = rfc3339(seconds)
    return "null" if moment is None else f'"{moment}"'
