"""What launches tell the adapters. How a look uses it: law/test_launched_sessions.py."""

import pytest

from agentctl.system.identity import ProcessIdentity
from agentctl.truth.launched import ends, overtaken
from agentctl.truth.look import Look
from agentctl.truth.model import Exit, Launch

FIRST, SECOND = Exit(0, 1000.0, "/1/exit"), Exit(3, 2000.0, "/2/exit")


def _look(*notes: Launch) -> Look:
    look = Look({}, {}, 3000.0).scoped("pi")
    look.notes = {note.identity: note for note in notes}
    return look


def _note(number: int, session_id: str | None, adapter: str | None, ended: Exit | None) -> Launch:
    identity = ProcessIdentity("b", number, 1)
    return Launch(f"l{number}", identity, session_id, adapter=adapter, ended=ended)


def test_the_ends_of_this_agents_launches() -> None:
    notes = (
        _note(1, "a", "pi", FIRST),
        _note(2, "b", None, FIRST),  # an older note names no agent
        _note(3, "c", "codex", FIRST),
        _note(4, None, "pi", FIRST),
        _note(5, "d", "pi", None),
    )
    assert ends(_look(*notes)) == {"a": FIRST, "b": FIRST}


def test_of_several_launches_of_one_session_the_last_counts() -> None:
    again = _note(2, "a", "pi", SECOND)
    assert ends(_look(_note(1, "a", "pi", FIRST), again)) == {"a": SECOND}
    assert ends(_look(_note(1, "a", "pi", FIRST), again._replace(ended=None))) == {}


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
def test_who_writes_after_the_end_has_overtaken_it(
    written_at: float | None, back: float, later: bool
) -> None:
    assert overtaken(FIRST._replace(clock_back=back), written_at) is later
