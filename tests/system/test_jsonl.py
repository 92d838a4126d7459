"""Records of JSON lines: newest first, and each skipped line is counted."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentctl.system import jsonl
from agentctl.system.files import WINDOW, WINDOW_CAP, Piece


def make_piece(data: bytes, offset: int = 0) -> Piece:
    return Piece("f.jsonl", data, offset, offset + len(data), 0.0)


def test_records_come_newest_first_with_their_offsets() -> None:
    tally = jsonl.SkippedLines()
    records = list(jsonl.records_newest_first(make_piece(b'{"a":1}\n\n{"a":2}\n', 100), tally))
    assert records == [(109, {"a": 2}), (100, {"a": 1})]
    assert tally.garbled == 0
    assert (
        list(jsonl.records_oldest_first(make_piece(b'{"a":1}\n\n{"a":2}\n', 100), tally))
        == records[::-1]
    )


def test_a_torn_line_is_not_counted_as_garbled() -> None:
    tally = jsonl.SkippedLines()
    records = list(jsonl.records_newest_first(make_piece(b'{"a":1}\n{"a":'), tally))
    assert records == [(0, {"a": 1})]
    assert not tally


@pytest.mark.parametrize(
    "line", [b"{", b"[]", b"1", b'"text"', b"null", b"\0\0\0", b"\xff\xfe", b"[" * 100_000]
)
def test_a_garbled_line_is_counted(line: bytes) -> None:
    tally = jsonl.SkippedLines()
    records = list(jsonl.records_newest_first(make_piece(b'{"a":1}\n' + line + b'\n{"a":2}\n'), tally))
    assert [record for _, record in records] == [{"a": 2}, {"a": 1}]
    assert tally.garbled == 1
    assert str(tally) == "1 line not readable as JSON"


def test_deep_nesting_does_not_crash() -> None:
    assert jsonl.parse_record(b'{"a":' * 100_000 + b"1" + b"}" * 100_000) is None


def test_bad_utf_8_is_replaced() -> None:
    assert jsonl.parse_record(b'{"a":"\xff"}') == {"a": "\ufffd"}


def test_unwanted_lines_are_not_parsed() -> None:
    tally = jsonl.SkippedLines()
    data = make_piece(b'{"type":"a"}\nrubbish\n{"type":"b"}\n')
    records = list(jsonl.records_newest_first(data, tally, lambda raw: b'"a"' in raw))
    assert [record for _, record in records] == [{"type": "a"}]
    assert tally.garbled == 0


def test_a_whole_file_is_read_backwards_in_windows(tmp_path: Path) -> None:
    path = tmp_path / "long.jsonl"
    records = [{"n": n, "text": "x" * 1000} for n in range(3 * WINDOW // 1000)]
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    tally = jsonl.SkippedLines()
    backwards = list(jsonl.read_backwards(str(path), tally))
    assert [record for _, record in backwards] == records[::-1]
    data = path.read_bytes()
    assert all(data[offset:].startswith(b'{"n": ') for offset, _ in backwards)


def test_a_line_longer_than_any_window_ends_the_reading(tmp_path: Path) -> None:
    path = tmp_path / "long.jsonl"
    with path.open("wb") as file:
        file.write(b'{"n":1}\n')
        file.truncate(20 * WINDOW_CAP)
        file.seek(0, 2)
        file.write(b'\n{"n":2}\n')
    tally = jsonl.SkippedLines()
    assert [record for _, record in jsonl.read_backwards(str(path), tally)] == [{"n": 2}]
    assert tally.garbled == 1


@given(
    st.lists(
        st.dictionaries(
            st.text(max_size=5), st.text() | st.integers(-(2**63), 2**63) | st.none(), max_size=3
        )
    )
)
def test_records_are_read_in_both_directions(records: list[dict[str, object]]) -> None:
    data = make_piece("".join(json.dumps(r) + "\n" for r in records).encode())
    tally = jsonl.SkippedLines()
    assert [r for _, r in jsonl.records_newest_first(data, tally)] == records[::-1]
    assert [r for _, r in jsonl.records_oldest_first(data, tally)] == records
    assert tally.garbled == 0


@given(st.binary(max_size=300))
def test_any_bytes_are_read_without_an_error(data: bytes) -> None:
    tally = jsonl.SkippedLines()
    lines = [line for line in data.split(b"\n")[:-1] if line]
    records = list(jsonl.records_newest_first(make_piece(data), tally))
    assert len(records) + tally.garbled == len(lines)


@pytest.mark.parametrize("value", [None, 1, "text", [], {"a": 1}])
def test_values_of_another_type_are_replaced(value: object) -> None:
    assert jsonl.as_dict(value) == (value if isinstance(value, dict) else {})
    assert jsonl.as_text(value) == (value if isinstance(value, str) else None)
    assert jsonl.as_text("") is None


@pytest.mark.parametrize(
    "number", ["9" * 21, "9" * 400, "-" + "9" * 4299, "1e999", "-1e18", "NaN", "Infinity"]
)
def test_an_impossible_number_is_read_as_none(number: str) -> None:
    assert jsonl.parse_record_text(f'{{"a": {number}, "b": [1, 2.5, {number}]}}') == {
        "a": None,
        "b": [1, 2.5, None],
    }


def test_numbers_that_agents_write_are_read() -> None:
    text = '{"ns": 1794718402382123456, "ms": 1794718402382, "cost": 0.0123, "less": -7, "none": 0}'
    assert jsonl.parse_record_text(text) == json.loads(text)
