"""How a session looks in a list."""

import pytest

from agentctl.system.proc import ProcessIdentity
from agentctl.truth.judge import judge
from agentctl.truth.model import Evidence, Facts, Launch, Observation, Session, Verdict
from agentctl.view import rows
from agentctl.view.table import Screen
from agentctl.wire.session import WireSession, wire_session
from tests.cli import hostile

ALIVE = Evidence("alive", "proc:7@1", "kernel")
NOTHING = Facts()
GONE = Evidence("gone", "/proc", "kernel")
SCREEN = Screen(80, colour=False, home=None, now=0.0)


def _session(*evidence: Evidence, session_id: str | None = "s", facts: Facts = NOTHING) -> WireSession:
    return wire_session(Session(Observation("demo", session_id, evidence, facts), judge(evidence)))


def _turn(claim: str, detail: str = "", at: float | None = None) -> Evidence:
    return Evidence(claim, "/f", "journal", at, detail)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("evidence", "word"),
    [
        ((ALIVE, _turn("waiting", "question")), "waiting"),
        ((ALIVE, _turn("working")), "running"),
        ((ALIVE,), "running?"),
        ((ALIVE, _turn("idle")), "idle"),
        ((GONE, _turn("working")), "killed"),
        ((GONE, _turn("idle", "completed")), "completed"),
        ((GONE, _turn("idle", "failed")), "failed"),
        ((GONE,), "stopped"),
        ((), "unknown"),
    ],
)
def test_each_status_has_a_word(evidence: tuple[Evidence, ...], word: str) -> None:
    assert rows.status_word(_session(*evidence)) == word


def test_waiting_sessions_come_first_then_the_latest() -> None:
    stopped = _session(GONE)
    running = _session(ALIVE, _turn("working"), facts=Facts(last_activity_at=1))
    later = _session(ALIVE, _turn("working"), facts=Facts(last_activity_at=2))
    waiting = _session(ALIVE, _turn("waiting"))
    idle = _session(ALIVE, _turn("idle"))
    assert rows.sort_sessions([stopped, running, idle, later, waiting]) == [
        waiting, later, running, idle, stopped,
    ]  # fmt: skip


def test_since_is_when_the_status_began() -> None:
    facts = Facts(started_at=1, last_activity_at=9)
    assert rows.status_since(_session(ALIVE, _turn("waiting", at=5), facts=facts)) == 5
    assert rows.status_since(_session(ALIVE, facts=facts)) == 9
    assert rows.status_since(_session(ALIVE, facts=Facts(started_at=1))) == 1
    assert rows.status_since(_session(ALIVE)) is None
    assert rows.status_since(_session(GONE, _turn("working", at=5), facts=facts)) == 9
    exited = Evidence("exited", "exit", "record", at=12, value=-9)
    assert rows.status_since(_session(GONE, _turn("working", at=5), exited, facts=facts)) == 12


def test_short_ids_differ() -> None:
    random = "4f2a81c0-1111-4222-8333-444444444444"
    timed = "0198c0de-1111-7222-8333-444444444444"
    assert rows.short_ids([random]) == ["4f2a81c0"]
    assert rows.short_ids([timed]) == ["0198c0de-1111"]
    assert rows.short_ids(["ses_0123456789abcdef"]) == ["ses_01234567"]
    assert rows.short_ids(["pid:4711"]) == ["pid:4711"]
    assert rows.short_ids(["-"]) == ["-"]


def test_short_ids_grow_until_they_differ() -> None:
    one, two = "4f2a81c0-1111-4222-8333-444444444444", "4f2a81c0-1111-4222-9333-444444444444"
    short = rows.short_ids([one, two])
    assert short == ["4f2a81c0-1111-4222-8", "4f2a81c0-1111-4222-9"]
    assert rows.short_ids([one, one]) == [one, one]  # the same twice: they cannot differ


def test_about_is_the_label_then_the_title_then_the_prompt() -> None:
    facts = Facts(title="a title", prompt="a prompt")
    launch = Launch("l", ProcessIdentity("b", 1, 2), name="a label")
    session = _session(ALIVE, facts=facts)
    launched = Session(Observation("demo", "s", (), facts), judge(()), launch)
    assert rows.description(wire_session(launched)) == "a label"
    assert rows.description(session) == "a title"
    assert rows.description(_session(ALIVE, facts=Facts(prompt="a prompt"))) == "a prompt"
    assert rows.description(_session(ALIVE)) == ""


def test_cells_with_hostile_text_are_harmless() -> None:
    facts = Facts(cwd=f"/{hostile.ALL}", model=hostile.ALL, title=hostile.ALL)
    session = _session(ALIVE, session_id=hostile.ALL, facts=facts)
    (row,) = rows.session_cells([session], SCREEN._replace(home="/home"))
    for cell in row:
        assert hostile.harmful(cell.text) == []
        assert "\n" not in cell.text


def test_a_session_without_facts_has_dashes() -> None:
    (row,) = rows.session_cells([_session(ALIVE, session_id=None)], SCREEN)
    assert [cell.text for cell in row] == ["-", "running?", "demo", "-", "-", ""]


def test_every_status_has_a_colour() -> None:
    for status in ("waiting", "running", "idle", "unknown", "stopped"):
        verdict = Verdict(status, "unknown", None, None, None, "", (), ())
        observation = Observation("demo", "s", ())
        (row,) = rows.session_cells([wire_session(Session(observation, verdict))], SCREEN)
        assert row[1].colour
