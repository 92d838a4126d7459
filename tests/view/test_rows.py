"""How a session looks in a list."""

import pytest

from agentctl.system.identity import ProcessIdentity
from agentctl.truth.judge import judge
from agentctl.truth.model import Evidence, Facts, Launch, Observation, Session, Verdict
from agentctl.view import rows
from tests.cli import hostile

ALIVE = Evidence("alive", "proc:7@1", "kernel")
NOTHING = Facts()
GONE = Evidence("gone", "/proc", "kernel")


def _session(*evidence: Evidence, session_id: str | None = "s", facts: Facts = NOTHING) -> Session:
    return Session(Observation("demo", session_id, evidence, facts), judge(evidence))


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
def test_word(evidence: tuple[Evidence, ...], word: str) -> None:
    assert rows.word(_session(*evidence)) == word


def test_who_needs_a_person_comes_first_then_the_latest() -> None:
    stopped = _session(GONE)
    running = _session(ALIVE, _turn("working"), facts=Facts(last_activity_at=1))
    later = _session(ALIVE, _turn("working"), facts=Facts(last_activity_at=2))
    waiting = _session(ALIVE, _turn("waiting"))
    idle = _session(ALIVE, _turn("idle"))
    assert rows.in_order([stopped, running, idle, later, waiting]) == [
        waiting, later, running, idle, stopped,
    ]  # fmt: skip


def test_since_is_when_the_status_began() -> None:
    facts = Facts(started_at=1, last_activity_at=9)
    assert rows.since(_session(ALIVE, _turn("waiting", at=5), facts=facts)) == 5
    assert rows.since(_session(ALIVE, facts=facts)) == 9
    assert rows.since(_session(ALIVE, facts=Facts(started_at=1))) == 1
    assert rows.since(_session(ALIVE)) is None
    gone = Evidence("gone", "/proc", "kernel")
    assert rows.since(_session(gone, _turn("working", at=5), facts=facts)) == 9
    exited = Evidence("exited", "exit", "record", at=12, value=-9)
    assert rows.since(_session(gone, _turn("working", at=5), exited, facts=facts)) == 12


def test_short_ids_tell_sessions_apart() -> None:
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
    assert rows.short_ids([one, one]) == [one, one]  # the same twice: nothing tells them apart


def test_about_is_the_label_then_the_title_then_the_prompt() -> None:
    facts = Facts(title="a title", prompt="a prompt")
    launch = Launch("l", ProcessIdentity("b", 1, 2), name="a label")
    session = _session(ALIVE, facts=facts)
    assert rows.about(session._replace(launch=launch)) == "a label"
    assert rows.about(session) == "a title"
    assert rows.about(_session(ALIVE, facts=Facts(prompt="a prompt"))) == "a prompt"
    assert rows.about(_session(ALIVE)) == ""


def test_no_cell_carries_harm() -> None:
    facts = Facts(cwd=f"/{hostile.ALL}", model=hostile.ALL, title=hostile.ALL)
    session = _session(ALIVE, session_id=hostile.ALL, facts=facts)
    (row,) = rows.cells([session], 0.0, "/home")
    for cell in row:
        assert hostile.harmful(cell.text) == []
        assert "\n" not in cell.text


def test_a_session_without_facts_has_dashes() -> None:
    (row,) = rows.cells([_session(ALIVE, session_id=None)], 0.0, None)
    assert [cell.text for cell in row] == ["-", "running?", "demo", "-", "-", ""]


def test_every_status_has_a_colour() -> None:
    for status in ("waiting", "running", "idle", "unknown", "stopped"):
        verdict = Verdict(status, "unknown", None, None, None, "", (), ())
        seen = Observation("demo", "s", ())
        (row,) = rows.cells([Session(seen, verdict)], 0.0, None)
        assert row[1].colour
