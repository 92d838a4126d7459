"""The source of events; the tests of the verb run both ways completely."""

import os
from pathlib import Path

from agentctl.state import db, journal
from agentctl.truth.event import Event
from agentctl.watch import stream


def test_the_journal_is_read_page_by_page(tmp_path: Path) -> None:
    notes = str(tmp_path / "state.db")
    journal.append_events(notes, [Event("a.b", float(n)) for n in range(journal.PAGE + 7)])
    pages = list(stream.read_journal(notes, 0))
    assert [len(page) for page in pages] == [journal.PAGE, 7]


def test_pruned_events_are_a_gap_except_for_a_reader_of_all(tmp_path: Path) -> None:
    notes = str(tmp_path / "state.db")
    journal.append_events(notes, [Event("a.b", float(n)) for n in range(10)])
    with db.transaction(notes) as connection:
        journal.prune_events(connection, 5.0)
    assert [[event.type for event in page][:1] for page in stream.read_journal(notes, 2)] == [
        ["events.gap"],
        ["a.b"],
    ]
    assert [event.type for page in stream.read_journal(notes, 0) for event in page] == ["a.b"] * 5
    assert [event.type for page in stream.read_journal(notes, 5) for event in page] == ["a.b"] * 5


def test_a_closed_pipe_has_no_reader(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    assert not stream.has_no_reader(writing)
    os.close(reading)
    assert stream.has_no_reader(writing)
    os.close(writing)
