"""Patterns mean the same to us and to SQLite, which decides who is told."""

import sqlite3

from hypothesis import given
from hypothesis import strategies as st

from agentctl.truth.event_types import DELIVERABLE, TYPES, matching


def test_patterns() -> None:
    assert matching("session.waiting") == ["session.waiting"]
    assert set(matching("lock.*")) == {"lock.acquired", "lock.released", "lock.expired"}
    assert matching("*") == list(TYPES)
    assert matching("session.[w]aiting") == []
    assert matching("session") == []
    assert not any(name.startswith(("webhook.", "notify.")) for name in DELIVERABLE)


@given(st.text("session.waitngldf*[]?", max_size=16))
def test_sqlite_matches_what_we_match(pattern: str) -> None:
    connection = sqlite3.connect(":memory:")
    for name in matching(pattern):
        assert connection.execute("select ? glob ?", (name, pattern)).fetchone() == (1,)
    connection.close()
