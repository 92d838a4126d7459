"""JSON-RPC in lines: any input is a request or a fault, and raises nothing."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentctl.daemon_client import protocol
from agentctl.daemon_client.protocol import Request
from agentctl.errors import Fault

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
ALMOST = st.fixed_dictionaries(
    {},
    optional={
        "jsonrpc": st.just("2.0") | JSON,
        "id": st.integers() | st.text(max_size=4) | JSON,
        "method": st.text(max_size=8) | JSON,
        "params": st.dictionaries(st.text(max_size=4), JSON, max_size=3) | JSON,
    },
)


def check_answer(raw: bytes) -> None:
    request = protocol.parse_request(raw)
    if isinstance(request, Fault):
        line = protocol.encode_fault(request)
        assert request.code in (protocol.PARSE, protocol.INVALID, protocol.BAD_PARAMS)
    else:
        line = protocol.encode_result(request.id, {"of": request.params})
    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    json.loads(line)


@given(st.binary(max_size=200))
def test_any_bytes_are_answered(raw: bytes) -> None:
    check_answer(raw)


@given(JSON)
def test_any_json_is_answered(value: Any) -> None:
    check_answer(json.dumps(value).encode())


@given(ALMOST)
def test_an_almost_valid_request_is_answered(value: dict[str, Any]) -> None:
    check_answer(json.dumps(value).encode())


@given(st.binary(max_size=200) | ALMOST.map(lambda value: json.dumps(value).encode()))
def test_any_bytes_of_a_daemon_are_a_response_or_a_fault(raw: bytes) -> None:
    assert isinstance(protocol.parse_response(raw), dict | Fault)


@pytest.mark.parametrize(
    ("raw", "code"),
    [
        (b"", protocol.PARSE),
        (b"{", protocol.PARSE),
        (b"\xff\xfe", protocol.PARSE),
        (b"[" * 100_000, protocol.PARSE),
        (b"1" * 10_000, protocol.PARSE),  # more digits than Python makes a number of
        (b'{"jsonrpc":"2.0","method":"x","id":NaN}', protocol.PARSE),
        (b"[]", protocol.INVALID),
        (b'[{"jsonrpc":"2.0","method":"x","id":1}]', protocol.INVALID),
        (b'{"method":"x","id":1}', protocol.INVALID),
        (b'{"jsonrpc":"2.0","id":1}', protocol.INVALID),
        (b'{"jsonrpc":"2.0","method":"x","id":1e999}', protocol.INVALID),
        (b'{"jsonrpc":"2.0","method":"x","id":{}}', protocol.INVALID),
        (b'{"jsonrpc":"2.0","method":"x","id":1,"params":[1]}', protocol.BAD_PARAMS),
    ],
)
def test_each_error_has_its_code(raw: bytes, code: int) -> None:
    fault = protocol.parse_request(raw)
    assert isinstance(fault, Fault)
    assert fault.code == code


def test_requests_and_responses_survive_encoding() -> None:
    line = protocol.encode_request(7, "ask", {"words": ["ä", "\udcff"]})
    assert protocol.parse_request(line) == Request(7, "ask", {"words": ["ä", "\udcff"]})
    assert protocol.parse_response(protocol.encode_result(7, [1])) == {
        "jsonrpc": "2.0",
        "id": 7,
        "result": [1],
    }
    fault = protocol.parse_response(protocol.encode_fault(Fault(protocol.BUSY, "later", 7)))
    assert isinstance(fault, Fault)
    assert (fault.code, str(fault), fault.request) == (protocol.BUSY, "later", 7)


def test_a_notification_needs_no_response() -> None:
    request = protocol.parse_request(protocol.encode_notification("events", {"seq": 3}))
    assert isinstance(request, Request)
    assert (request.needs_response, request.params) == (False, {"seq": 3})
