"""JSON-RPC 2.0 in lines, between the daemon and its clients: one message a line.

No bytes from a socket raise here: a line that is no message is returned as a Fault, which is a response.
"""

from __future__ import annotations

import json

from agentctl.errors import Fault
from agentctl.light_typing import Any, Mapping, NamedTuple, NoReturn

PROTOCOL = 1  # raised when an older client and a newer daemon would misunderstand each other

PARSE, INVALID, NO_METHOD, BAD_PARAMS, INTERNAL = -32700, -32600, -32601, -32602, -32603
ELSEWHERE = -32001  # the caller sees another machine than the daemon does, and is to look itself
NOT_YOURS = -32002  # another user's daemon
BUSY = -32003  # too many clients
ENDING = -32004  # the daemon is about to end

REQUEST_CAP = 1 << 20  # bytes of a line
ANSWER_CAP = 1 << 26
WORD_CAP = 200  # characters of a method or an id, which a response repeats

Id = str | int | None


class Request(NamedTuple):
    id: Id
    method: str
    params: dict[str, Any]
    needs_response: bool = True  # False: a notification


def encode_request(id: Id, method: str, params: Mapping[str, Any] | None = None) -> bytes:  # noqa: A002 - the field's name
    return _line({"jsonrpc": "2.0", "id": id, "method": method, "params": dict(params or {})})


def encode_notification(method: str, params: Mapping[str, Any]) -> bytes:
    return _line({"jsonrpc": "2.0", "method": method, "params": dict(params)})


def encode_result(id: Id, value: Any) -> bytes:  # noqa: A002
    return _line({"jsonrpc": "2.0", "id": id, "result": value})


def encode_fault(fault: Fault) -> bytes:
    error = {"code": fault.code, "message": str(fault)}
    return _line({"jsonrpc": "2.0", "id": fault.request, "error": error})


def parse_request(line: bytes) -> Request | Fault:
    """Return the request, or what is wrong with it."""
    message = _parse(line)
    if isinstance(message, Fault):
        return message
    if not isinstance(message, dict):
        return Fault(INVALID, "not a request: one object a line, and no batches")
    id_, method, params = message.get("id"), message.get("method"), message.get("params", {})
    if not _is_id(id_):
        return Fault(INVALID, "not an id: a short text or an integer")
    if message.get("jsonrpc") != "2.0" or not isinstance(method, str) or len(method) > WORD_CAP:
        return Fault(INVALID, 'not a request: "jsonrpc": "2.0" and a "method" are needed', id_)
    if not isinstance(params, dict):
        return Fault(BAD_PARAMS, "params are an object, by name", id_)
    return Request(id_, method, params, "id" in message)


def parse_response(line: bytes) -> dict[str, Any] | Fault:
    """Return an object with `result` or `method`; a Fault: the daemon's error, or why it is no
    response."""
    message = _parse(line)
    if isinstance(message, Fault):
        return message
    if not isinstance(message, dict) or not {"result", "error", "method"} & message.keys():
        return Fault(INVALID, "not an answer")
    error = message.get("error")
    if error is None:
        return message
    if not isinstance(error, dict) or type(error.get("code")) is not int:
        return Fault(INVALID, "an error without a code")
    id_ = message.get("id")
    return Fault(error["code"], str(error.get("message", "")), id_ if _is_id(id_) else None)


def _parse(line: bytes) -> Any:
    try:
        return json.loads(line.decode("utf-8"), parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:  # not UTF-8, not JSON, nested too deeply
        why = "nested too deeply" if isinstance(error, RecursionError) else str(error)
        return Fault(PARSE, f"not JSON: {why[:WORD_CAP]}")


def _refuse_constant(word: str) -> NoReturn:
    raise ValueError(f"{word} is not a JSON number")


def _is_id(value: object) -> bool:
    if isinstance(value, str):
        return len(value) <= WORD_CAP
    return value is None or (type(value) is int and abs(value) < 1 << 63)


def _line(message: dict[str, Any]) -> bytes:
    return json.dumps(message, separators=(",", ":")).encode() + b"\n"  # ASCII, also for lone surrogates
