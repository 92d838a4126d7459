"""Records of JSON lines: newest first, and nothing left out in silence."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentctl.system import jsonl
from agentctl.system.files import WINDOW, WINDOW_CAP, Piece


def piece(data: bytes, offset: int = 0) -> Piece:
    return Piece("f.jsonl", data, offset, offset + len(data), 0.0)


def test_records_come_newest_first_with_their_offsets() -> None:
    tally = jsonl.Tally()
    found = list(jsonl.newest_first(piece(b'{"a":1}\n\n{"a":2}\n', 100), tally))
    assert found == [(109, {"a": 2}), (100, {"a": 1})]
    assert (tally.torn, tally.garbled) == (0, 0)
    assert list(jsonl.oldest_first(piece(b'{"a":1}\n\n{"a":2}\n', 100), tally)) == found[::-1]


def test_a_torn_line_is_no_fault() -> None:
    tally = jsonl.Tally()
    found = list(jsonl.newest_first(piece(b'{"a":1}\n{"a":'), tally))
    assert found == [(0, {"a": 1})]
    assert (tally.torn, tally.garbled) == (1, 0)
    assert not tally


@pytest.mark.parametrize(
    "line", [b"{", b"[]", b"1", b'"text"', b"null", b"\0\0\0", b"\xff\xfe", b"[" * 100_000]
)
def test_a_garbled_line_is_counted(line: bytes) -> None:
    tally = jsonl.Tally()
    found = list(jsonl.newest_first(piece(b'{"a":1}\n' + line + b'\n{"a":2}\n'), tally))
    assert [record for _, record in found] == [{"a": 2}, {"a": 1}]
    assert tally.garbled == 1
    assert str(tally) == "1 line not readable as JSON"


def test_deep_nesting_is_no_crash() -> None:
    assert jsonl.parse(b'{"a":' * 100_000 + b"1" + b"}" * 100_000) is None


def test_bad_utf_8_is_replaced() -> None:
    assert jsonl.parse(b'{"a":"\xff"}') == {"a": "\ufffd"}


def test_unwanted_lines_are_not_parsed() -> None:
    tally = jsonl.Tally()
    data = piece(b'{"type":"a"}\nrubbish\n{"type":"b"}\n')
    found = list(jsonl.newest_first(data, tally, lambda raw: b'"a"' in raw))
    assert [record for _, record in found] == [{"type": "a"}]
    assert tally.garbled == 0


def test_a_whole_file_is_read_backwards_in_windows(tmp_path: Path) -> None:
    path = tmp_path / "long.jsonl"
    records = [{"n": n, "text": "x" * 1000} for n in range(3 * WINDOW // 1000)]
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    tally = jsonl.Tally()
    found = list(jsonl.backwards(str(path), tally))
    assert [record for _, record in found] == records[::-1]
    data = path.read_bytes()
    assert all(data[offset:].startswith(b'{"n": ') for offset, _ in found)


def test_a_line_longer_than_any_window_ends_the_reading(tmp_path: Path) -> None:
    path = tmp_path / "long.jsonl"
    with path.open("wb") as file:
        file.write(b'{"n":1}\n')
        file.truncate(20 * WINDOW_CAP)
        file.seek(0, 2)
        file.write(b'\n{"n":2}\n')
    tally = jsonl.Tally()
    assert [record for _, record in jsonl.backwards(str(path), tally)] == [{"n": 2}]
    assert tally.garbled == 1


@given(
    st.lists(
        st.dictionaries(
            st.text(max_size=5), st.text() | st.integers(-(2**63), 2**63) | st.none(), max_size=3
        )
    )
)
def test_what_was_written_is_read_in_both_directions(records: list[dict[str, object]]) -> None:
    data = piece("".join(json.dumps(r) + "\n" for r in records).encode())
    tally = jsonl.Tally()
    assert [r for _, r in jsonl.newest_first(data, tally)] == records[::-1]
    assert [r for _, r in jsonl.oldest_first(data, tally)] == records
    assert (tally.torn, tally.garbled) == (0, 0)


@given(st.binary(max_size=300))
def test_any_bytes_are_read_without_a_fault(data: bytes) -> None:
    tally = jsonl.Tally()
    lines = [line for line in data.split(b"\n")[:-1] if line]
    found = list(jsonl.newest_first(piece(data), tally))
    assert len(found) + tally.garbled == len(lines)


@pytest.mark.parametrize("value", [None, 1, "text", [], {"a": 1}])
def test_shapes_of_other_peoples_json(value: object) -> None:
    assert jsonl.as_dict(value) == (value if isinstance(value, dict) else {})
    assert jsonl.as_text(value) == (value if isinstance(value, str) else None)
    assert jsonl.as_text("") is None


@pytest.mark.parametrize(
    "number", ["9" * 21, "9" * 400, "-" + "9" * 4299, "1e999", "-1e18", "NaN", "Infinity"]
)
def test_a_number_that_nobody_can_have_meant_reads_as_none(number: str) -> None:
    assert jsonl.parse_text(f'{{"a": {number}, "b": [1, 2.5, {number}]}}') == {
        "a": None,
        "b": [1, 2.5, None],
    }


def test_numbers_that_agents_write() -> None:
    text = '{"ns": 1794718402382123456, "ms": 1794718402382, "cost": 0.0123, "less": -7, "none": 0}'
    assert jsonl.parse_text(text) == json.loads(text)
