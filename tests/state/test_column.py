"""Any path fits a column, and comes back as it was."""

import os

from hypothesis import given
from hypothesis import strategies as st

from agentctl.state.column import as_path, as_text, is_text


@given(st.binary().filter(lambda raw: b"\0" not in raw))
def test_there_and_back(raw: bytes) -> None:
    path = os.fsdecode(raw)
    text = as_text(path)
    text.encode()  # what no column takes fails here
    assert as_path(text) == path


def test_text_stays_as_it_is() -> None:
    assert as_text("/home/mé") == "/home/mé"


def test_what_is_text() -> None:
    assert is_text("caf\u00e9 \U0001f600\0")
    assert not is_text(os.fsdecode(b"caf\xe9"))
    assert not is_text("\ud800")
