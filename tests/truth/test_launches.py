"""What adapters learn from launches. How a look uses it: law/test_launched_sessions.py."""

import pytest

from agentctl.system.proc import ProcessIdentity
from agentctl.truth.launches import find_recorded_exits, is_overtaken
from agentctl.truth.look import Look
from agentctl.truth.model import Exit, Launch

FIRST, SECOND = Exit(0, 1000.0, "/1/exit"), Exit(3, 2000.0, "/2/exit")


def _make_look(*notes: Launch) -> Look:
    look = Look({}, {}, 3000.0).scope_to("pi")
    look.notes = {note.identity: note for note in notes}
    return look


def _make_note(
    number: int, session_id: str | None, adapter: str | None, exit_record: Exit | None
) -> Launch:
    identity = ProcessIdentity("b", number, 1)
    return Launch(f"l{number}", identity, session_id, adapter=adapter, exit=exit_record)


def test_recorded_exits_are_those_of_this_agent() -> None:
    notes = (
        _make_note(1, "a", "pi", FIRST),
        _make_note(2, "b", None, FIRST),  # an older note names no agent
        _make_note(3, "c", "codex", FIRST),
        _make_note(4, None, "pi", FIRST),
        _make_note(5, "d", "pi", None),
    )
    assert find_recorded_exits(_make_look(*notes)) == {"a": FIRST, "b": FIRST}


def test_the_last_launch_of_a_session_counts() -> None:
    again = _make_note(2, "a", "pi", SECOND)
    assert find_recorded_exits(_make_look(_make_note(1, "a", "pi", FIRST), again)) == {"a": SECOND}
    assert (
        find_recorded_exits(_make_look(_make_note(1, "a", "pi", FIRST), again._replace(exit=None))) == {}
    )


@pytest.mark.parametrize(
    ("written_at", "back", "later"),
    [
        (None, 0.0, False),
        (1000.0, 0.0, False),
        (1000.04, 0.0, False),
        (1001.0, 0.0, True),
        (1001.0, 5.0, False),
    ],
)
def test_a_write_after_the_end_overtakes_it(written_at: float | None, back: float, later: bool) -> None:
    assert is_overtaken(FIRST._replace(clock_back=back), written_at) is later
