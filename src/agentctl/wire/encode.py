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
_ENDLESS = float("inf")


def session(given: Session) -> str:
    """What `json.dumps(shapes.session(given))` would be."""
    (adapter, session_id, _, facts, owner, transcript), verdict, launch = given
    status, activity, waiting_for, outcome, exit_code, reason, used, overruled = verdict
    cwd, model, title, prompt, started_at, last_at, tokens, cost, entry, version, parent, _, _ = facts
    evidence = [_evidence(piece, "true") for piece in used]
    if overruled:
        evidence += [_evidence(piece, "false") for piece in overruled]
    return _SESSION % (
        _text(session_id),
        quoted(adapter),
        quoted(status),
        quoted(activity),
        "null" if waiting_for is None else quoted(waiting_for),
        "null" if outcome is None else quoted(outcome),
        _number(exit_code),
        quoted(reason),
        "null" if owner is None else owner.pid,
        _time(started_at),
        _time(last_at),
        _text(cwd),
        _text(model),
        _text(title),
        _text(prompt),
        "null" if tokens is None else _TOKENS % tuple(map(_number, tokens)),
        _number(cost),
        _text(transcript),
        _text(entry),
        _text(version),
        "null" if parent is None else quoted(parent),
        _HOST,
        "null" if launch is None else dumps(shapes.launch(launch)),
        f"[{', '.join(evidence)}]",
    )


def _evidence(given: Evidence, decided: str) -> str:
    claim, address, authority, at, detail, note, trusted, _ = given
    return _EVIDENCE % (
        quoted(claim),
        quoted(detail) if detail else "null",
        quoted(authority),
        "null" if at is None else _time(at),
        quoted(address),
        quoted(note) if note else "null",
        "true" if trusted else "false",
        decided,
    )


def _text(value: str | None) -> str:
    return "null" if value is None else quoted(value)


def _number(value: float | None) -> str:
    if value is None:
        return "null"
    if type(value) is int or (type(value) is float and -_ENDLESS < value < _ENDLESS):
        return repr(value)
    return dumps(value)


def _time(seconds: float | None) -> str:
    moment = rfc3339(seconds)
    return "null" if moment is None else f'"{moment}"'
