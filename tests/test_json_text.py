"""Our JSON reader reads what `json` reads, and refuses what it refuses."""

import json
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentctl import json_text

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
)
SPACE = st.text(" \t\r\n", max_size=3)


@given(VALUES, SPACE, SPACE)
def test_a_value_is_read_back(value: object, before: str, after: str) -> None:
    text = before + json.dumps(value) + after
    assert json_text.decode(text) == json.loads(text) == value


@given(st.text('{}[]",:0-1e.tfn\\u \n\x00é', max_size=12))
def test_it_refuses_what_json_refuses(text: str) -> None:
    try:
        expected = json.loads(text)
    except ValueError:
        with pytest.raises(ValueError, match="char"):
            json_text.decode(text)
    else:
        assert json_text.decode(text) == expected


@given(st.text())
def test_a_string_is_quoted(text: str) -> None:
    assert json_text.quote(text) == json_text.encode(text) == json.dumps(text)


def test_numbers_are_converted_by_the_caller() -> None:
    decoder = json_text.Decoder(parse_int=str, parse_float=lambda text: [text], parse_constant=len)
    assert decoder.decode('{"a": 12, "b": 1.50, "c": NaN}') == {"a": "12", "b": ["1.50"], "c": 3}


def test_deep_nesting_is_an_error() -> None:
    with pytest.raises(RecursionError):
        json_text.decode("[" * 100_000)


def test_encode_indents() -> None:
    assert json_text.encode({"a": 1}, indent=1) == '{\n "a": 1\n}'


def test_json_is_not_imported() -> None:
    program = (
        "import sys; from agentctl import json_text;"
        "json_text.decode('[1]'); print('json' in sys.modules)"
    )
    ran = subprocess.run(
        [sys.executable, "-I", "-c", program], capture_output=True, text=True, check=True
    )
    assert ran.stdout == "False\n"
