"""JSON-RPC 2.0 in lines, as the daemon and its clients speak it: one message, one line.

Nothing that comes over a socket raises here: what makes no sense is a Fault, which is an answer.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple, NoReturn

from agentctl.errors import Fault

PROTOCOL = 1  # raised when a client of the one and a daemon of the other would misunderstand each other

PARSE, INVALID, NO_METHOD, BAD_PARAMS, INTERNAL = -32700, -32600, -32601, -32602, -32603
ELSEWHERE = -32001  # the asker sees another machine than the daemon does: let it look itself
NOT_YOURS = -32002  # another user's daemon
BUSY = -32003  # too many clients
ENDING = -32004  # the daemon is about to end

REQUEST_CAP = 1 << 20  # bytes of a line
ANSWER_CAP = 1 << 26
WORD_CAP = 200  # characters of a method's name or an id that we repeat

Id = str | int | None


class Request(NamedTuple):
    id: Id
    method: str
    params: dict[str, Any]
    answered: bool = True  # False: a notification, which wants no answer


def request(id: Id, method: str, params: Mapping[str, Any] | None = None) -> bytes:  # noqa: A002 - its name on the wire
    return _line({"jsonrpc": "2.0", "id": id, "method": method, "params": dict(params or {})})


def notification(method: str, params: Mapping[str, Any]) -> bytes:
    return _line({"jsonrpc": "2.0", "method": method, "params": dict(params)})


def result(id: Id, value: Any) -> bytes:  # noqa: A002
    return _line({"jsonrpc": "2.0", "id": id, "result": value})


def fault(told: Fault) -> bytes:
    error = {"code": told.code, "message": str(told)}
    return _line({"jsonrpc": "2.0", "id": told.request, "error": error})


def decoded(line: bytes) -> Request | Fault:
    """What was asked, or what is wrong with it."""
    told = _value(line)
    if isinstance(told, Fault):
        return told
    if not isinstance(told, dict):
        return Fault(INVALID, "not a request: one object a line, and no batches")
    id_, method, params = told.get("id"), told.get("method"), told.get("params", {})
    if not _is_id(id_):
        return Fault(INVALID, "not an id: a short text or an integer")
    if told.get("jsonrpc") != "2.0" or not isinstance(method, str) or len(method) > WORD_CAP:
        return Fault(INVALID, 'not a request: "jsonrpc": "2.0" and a "method" are needed', id_)
    if not isinstance(params, dict):
        return Fault(BAD_PARAMS, "params are an object, by name", id_)
    return Request(id_, method, params, "id" in told)


def answer(line: bytes) -> dict[str, Any] | Fault:
    """What a daemon said: an object with `result`, `error` or `method`; or why it is none of these."""
    told = _value(line)
    if isinstance(told, Fault):
        return told
    if not isinstance(told, dict) or not {"result", "error", "method"} & told.keys():
        return Fault(INVALID, "not an answer")
    error = told.get("error")
    if error is None:
        return told
    if not isinstance(error, dict) or type(error.get("code")) is not int:
        return Fault(INVALID, "an error without a code")
    id_ = told.get("id")
    return Fault(error["code"], str(error.get("message", "")), id_ if _is_id(id_) else None)


def _value(line: bytes) -> Any:
    try:
        return json.loads(line.decode("utf-8"), parse_constant=_no_number)
    except (ValueError, RecursionError) as error:  # not UTF-8, not JSON, a number or a nesting too large
        why = "nested too deeply" if isinstance(error, RecursionError) else str(error)
        return Fault(PARSE, f"not JSON: {why[:WORD_CAP]}")


def _no_number(word: str) -> NoReturn:
    raise ValueError(f"{word} is no number of JSON")


def _is_id(value: object) -> bool:
    if isinstance(value, str):
        return len(value) <= WORD_CAP
    return value is None or (type(value) is int and abs(value) < 1 << 63)


def _line(message: dict[str, Any]) -> bytes:
    return json.dumps(message, separators=(",", ":")).encode() + b"\n"  # ASCII: any text, any surrogate
