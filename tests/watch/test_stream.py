"""Where events come from; the verb's own tests run both ways to their end."""

import os
from pathlib import Path

from agentctl.state import db, journal
from agentctl.truth.event import Event
from agentctl.watch import stream


def test_all_that_is_kept_page_by_page(tmp_path: Path) -> None:
    notes = str(tmp_path / "state.db")
    journal.record(notes, [Event("a.b", float(n)) for n in range(journal.PAGE + 7)])
    pages = list(stream.kept(notes, 0))
    assert [len(page) for page in pages] == [journal.PAGE, 7]


def test_what_is_no_more_kept_is_a_gap_but_for_who_asks_for_all(tmp_path: Path) -> None:
    notes = str(tmp_path / "state.db")
    journal.record(notes, [Event("a.b", float(n)) for n in range(10)])
    with db.transaction(notes) as connection:
        journal.prune(connection, 5.0)
    assert [[event.type for event in page][:1] for page in stream.kept(notes, 2)] == [
        ["events.gap"],
        ["a.b"],
    ]
    assert [event.type for page in stream.kept(notes, 0) for event in page] == ["a.b"] * 5
    assert [event.type for page in stream.kept(notes, 5) for event in page] == ["a.b"] * 5


def test_who_does_not_read_any_more(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    assert not stream.unread(writing)
    os.close(reading)
    assert stream.unread(writing)
    os.close(writing)
