"""The journal: ordered, safe to write from many threads, and clear about what did not happen."""

import threading

import pytest

from agentctl.rehearsal.model.journal import Journal, Note, format_note


def test_notes_are_numbered_and_dated_in_order() -> None:
    journal = Journal()

    def write() -> None:
        for _ in range(200):
            journal.add("asked", "x")

    threads = [threading.Thread(target=write) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    notes = journal.notes()
    assert [note.seq for note in notes] == list(range(1, 801))
    assert [note.at for note in notes] == sorted(note.at for note in notes)
    assert journal.last == 800


def test_a_note_keeps_the_beginning_of_a_long_text() -> None:
    assert Journal().add("asked", "x" * 5000).text == "x" * 2000


def test_waiting_finds_what_was_there_before() -> None:
    journal = Journal()
    first = journal.add("asked", "one")
    journal.add("asked", "two", helper=True)
    last = journal.add("asked", "two", round_=1)
    assert journal.wait("asked") == first
    assert journal.wait("asked", "two") == last
    assert journal.wait("asked", "two", helper=None).helper
    assert journal.wait("asked", after=first.seq) == last


def test_waiting_tells_gates_apart() -> None:
    journal = Journal()
    journal.add("held", "x", gate="a")
    second = journal.add("held", "x", gate="b")
    assert journal.wait("held", gate="b") == second


def test_waiting_ends_when_it_happens() -> None:
    journal = Journal()
    notes: list[Note] = []
    waiter = threading.Thread(target=lambda: notes.append(journal.wait("answered", "hello")))
    waiter.start()
    journal.add("asked", "hello")
    answer = journal.add("answered", "hello")
    waiter.join(20)
    assert notes == [answer]


def test_waiting_in_vain_shows_what_happened_instead() -> None:
    journal = Journal()
    for number in range(20):
        journal.add("held", f"prompt {number}", gate="here")
    with pytest.raises(TimeoutError, match="'answered'") as error:
        journal.wait("answered", deadline=0)
    assert "prompt 19" in str(error.value)
    assert "gate=here" in str(error.value)
    assert "5 earlier" in str(error.value)
    assert "prompt 4" not in str(error.value)


def test_waiting_in_vain_for_the_first_note() -> None:
    with pytest.raises(TimeoutError, match="the journal is empty"):
        Journal().wait("asked", deadline=0)


def test_a_sink_gets_every_note() -> None:
    notes: list[Note] = []
    journal = Journal(notes.append)
    journal.add("asked", "x")
    assert tuple(notes) == journal.notes()


def test_the_clock_of_a_line_never_runs_ahead() -> None:
    """Rounded milliseconds would show 0.9996 s as .000 of the second before."""
    line = format_note(Note(1, 1_000_000_000.9996, "asked", "x", 0, helper=True, gate="g"))
    assert ".999 asked" in line
    assert "helper" in line
