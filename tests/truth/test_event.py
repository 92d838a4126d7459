"""Patterns mean the same to us and to SQLite, which selects the targets of an event."""

import sqlite3

from hypothesis import given
from hypothesis import strategies as st

from agentctl.truth.event import DELIVERABLE, TYPES, match_types


def test_a_pattern_selects_types() -> None:
    assert match_types("session.waiting") == ["session.waiting"]
    assert set(match_types("lock.*")) == {"lock.acquired", "lock.released", "lock.expired"}
    assert match_types("*") == list(TYPES)
    assert match_types("session.[w]aiting") == []
    assert match_types("session") == []
    assert not any(name.startswith(("webhook.", "notify.")) for name in DELIVERABLE)


PARTS_OF_A_NAME = st.builds(
    lambda name, first, last: f"{name[:first]}*{name[last:]}",
    st.sampled_from([*TYPES]), st.integers(0, 16), st.integers(0, 16),
)  # fmt: skip


@given(PARTS_OF_A_NAME | st.text("session.waitngldf*[]?", max_size=16))
def test_sqlite_matches_what_we_match(pattern: str) -> None:
    connection = sqlite3.connect(":memory:")
    for name in match_types(pattern):
        assert connection.execute("select ? glob ?", (name, pattern)).fetchone() == (1,)
    connection.close()
