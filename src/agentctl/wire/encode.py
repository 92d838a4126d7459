"""The JSON text of `wire.session.session`, without the dict in between: the same bytes in half the time,
which is most of what a list of thousands costs. `tests/wire/test_encode.py` holds the two together.
"""

from __future__ import annotations

from functools import lru_cache
from json import dumps
from json.encoder import encode_basestring_ascii as quoted

from agentctl.system.clock import rfc3339
from agentctl.truth.model import Evidence, Session, Tokens
from agentctl.wire import session as shapes

_NULL = "null"
_HOST = quoted(shapes.HOST)
_ENDLESS = float("inf")


def session(given: Session) -> str:
    """What `json.dumps(shapes.session(given))` would be."""
    seen, verdict, launch = given
    adapter, session_id, _, facts, owner, transcript, *_ = seen
    status, activity, waiting_for, outcome, exit_code, reason, used, overruled, suspended = verdict
    cwd, model, title, prompt, started_at, last_at, tokens, cost, entry, version, parent, _, _ = facts
    last = _time(last_at)  # often the time of a piece of evidence too
    evidence = [_evidence(piece, "true", last_at, last) for piece in used]
    if overruled:
        evidence += [_evidence(piece, "false", last_at, last) for piece in overruled]
    return (
        f'{{"id": {_NULL if session_id is None else quoted(session_id)}, '
        f"{_verdict(adapter, status, activity, waiting_for, outcome)}, "
        f'"suspended": {"true" if suspended else "false"}, '
        f'"exit_code": {_number(exit_code)}, '
        f'"reason": {quoted(reason)}, '
        f'"pid": {_NULL if owner is None else owner.pid}, '
        f'"started_at": {_time(started_at)}, '
        f'"last_activity_at": {last}, '
        f'"cwd": {_NULL if cwd is None else quoted(cwd)}, '
        f'"model": {_NULL if model is None else quoted(model)}, '
        f'"title": {_NULL if title is None else quoted(title)}, '
        f'"prompt": {_NULL if prompt is None else quoted(prompt)}, '
        f'"tokens": {_NULL if tokens is None else _tokens(tokens)}, '
        f'"cost_usd": {_number(cost)}, '
        f'"transcript": {_NULL if transcript is None else quoted(transcript)}, '
        f'"entry_point": {_NULL if entry is None else quoted(entry)}, '
        f'"agent_version": {_NULL if version is None else quoted(version)}, '
        f'"parent_id": {_NULL if parent is None else quoted(parent)}, '
        f'"host": {_HOST}, '
        f'"launch": {_NULL if launch is None else dumps(shapes.launch(launch))}, '
        f'"evidence": [{", ".join(evidence)}]}}'
    )


@lru_cache(256)  # a handful of them in a long list
def _verdict(
    adapter: str, status: str, activity: str, waiting_for: str | None, outcome: str | None
) -> str:
    return (
        f'"adapter": {quoted(adapter)}, '
        f'"status": {quoted(status)}, '
        f'"activity": {quoted(activity)}, '
        f'"waiting_for": {_NULL if waiting_for is None else quoted(waiting_for)}, '
        f'"outcome": {_NULL if outcome is None else quoted(outcome)}'
    )


def _evidence(given: Evidence, decided: str, last_at: float | None, last: str) -> str:
    at = given.at
    if at is None:
        return _timeless(given, decided)
    return _piece(given, decided, last if at == last_at else _time(at))


@lru_cache(256)  # that a process is gone is said of thousands in the same words
def _timeless(given: Evidence, decided: str) -> str:
    return _piece(given, decided, _NULL)


def _piece(given: Evidence, decided: str, at: str) -> str:
    claim, address, authority, _, detail, note, trusted, _ = given
    return (
        f'{{"claim": {quoted(claim)}, '
        f'"detail": {quoted(detail) if detail else _NULL}, '
        f'"authority": {quoted(authority)}, '
        f'"at": {at}, '
        f'"address": {quoted(address)}, '
        f'"note": {quoted(note) if note else _NULL}, '
        f'"trusted": {"true" if trusted else "false"}, '
        f'"decided": {decided}}}'
    )


def _tokens(given: Tokens) -> str:
    read, written, cache_read, cache_write = map(_number, given)
    return (
        f'{{"input": {read}, "output": {written}, '
        f'"cache_read": {cache_read}, "cache_write": {cache_write}}}'
    )


def _number(value: float | None) -> str:
    if value is None:
        return _NULL
    if type(value) is int or (type(value) is float and -_ENDLESS < value < _ENDLESS):
        return repr(value)
    return dumps(value)


def _time(seconds: float | None) -> str:
    moment = rfc3339(seconds)
    return _NULL if moment is None else f'"{moment}"'
