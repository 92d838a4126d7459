"""JSON-RPC in lines: whatever comes, it is a request or an error, and nothing raises."""

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


def _answered(raw: bytes) -> None:
    told = protocol.decoded(raw)
    if isinstance(told, Fault):
        line = protocol.fault(told)
        assert told.code in (protocol.PARSE, protocol.INVALID, protocol.BAD_PARAMS)
    else:
        line = protocol.result(told.id, {"of": told.params})
    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    json.loads(line)


@given(st.binary(max_size=200))
def test_any_bytes(raw: bytes) -> None:
    _answered(raw)


@given(JSON)
def test_any_json(value: Any) -> None:
    _answered(json.dumps(value).encode())


@given(ALMOST)
def test_what_looks_like_a_request(value: dict[str, Any]) -> None:
    _answered(json.dumps(value).encode())


@given(st.binary(max_size=200) | ALMOST.map(lambda value: json.dumps(value).encode()))
def test_any_bytes_of_a_daemon(raw: bytes) -> None:
    assert isinstance(protocol.answer(raw), dict | Fault)


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
def test_what_is_wrong_has_its_code(raw: bytes, code: int) -> None:
    told = protocol.decoded(raw)
    assert isinstance(told, Fault)
    assert told.code == code


def test_there_and_back() -> None:
    asked = protocol.request(7, "ask", {"words": ["ä", "\udcff"]})
    assert protocol.decoded(asked) == Request(7, "ask", {"words": ["ä", "\udcff"]})
    assert protocol.answer(protocol.result(7, [1])) == {"jsonrpc": "2.0", "id": 7, "result": [1]}
    fault = protocol.answer(protocol.fault(Fault(protocol.BUSY, "later", 7)))
    assert isinstance(fault, Fault)
    assert (fault.code, str(fault), fault.request) == (protocol.BUSY, "later", 7)


def test_a_notification_wants_no_answer() -> None:
    told = protocol.decoded(protocol.notification("events", {"seq": 3}))
    assert isinstance(told, Request)
    assert (told.answered, told.params) == (False, {"seq": 3})
