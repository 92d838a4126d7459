"""What `status` and `why` print of one session, from any source of its row."""

import json

import pytest

from agentctl.system.proc import ProcessIdentity
from agentctl.truth.judge import judge
from agentctl.truth.model import Evidence, Facts, HookRun, Launch, Observation, Session, Worktree
from agentctl.view import session
from agentctl.view.table import Screen
from agentctl.wire import session as wire
from agentctl.wire.session import WireSession, wire_session
from tests.cli import hostile

SCREEN = Screen(80, colour=False, home="/home/u", now=100.0)


def row(*evidence: Evidence, launch: Launch | None = None) -> WireSession:
    facts = Facts(cwd="/home/u/shop", started_at=40.0, cost_usd=0.5)
    return wire_session(Session(Observation("demo", "s", evidence, facts), judge(evidence), launch))


def test_overruled_and_untrusted_evidence_is_marked() -> None:
    alive = Evidence("alive", "proc:1@1", "kernel")
    working = Evidence("working", "/record", "record", detail="")
    idle = Evidence("idle", "/journal@7", "journal")
    odd = Evidence("waiting", "/odd", "record", trusted=False, note="a word we do not know")
    pieces = (alive, working, idle, odd)
    screen = Screen(80, colour=False, home=None, now=0.0)
    lines = session.why_lines(row(*pieces), screen)
    text = "\n".join(lines)
    assert text.index("decided by") < text.index("/record") < text.index("overruled")
    assert text.index("overruled") < text.index("/journal@7")
    assert "/odd  not trusted" in text


def test_the_facts_of_a_launch() -> None:
    launch = Launch(
        "l",
        ProcessIdentity("b", 1, 2),
        name="shed",
        meta=(("ticket", "42"),),
        worktree=Worktree("/r", "/w", "agentctl/shed", "c0ffee" * 4),
        hooks=(HookRun("on-complete", "make", 2, 1.5, "/out"),),
        expired_at=90.0,
    )
    lines = session.status_lines(row(launch=launch), SCREEN)
    facts = {line[:14].strip(): line[14:] for line in lines}
    assert facts["directory"] == "~/shop"
    assert facts["started"] == "1970-01-01T00:00:40.000Z (1m ago)"
    assert facts["cost"] == "$0.5000"
    assert facts["meta ticket"] == "42"
    assert facts["worktree"] == "/w, branch agentctl/shed from c0ffeec0ffee"
    assert facts["on-complete"] == "FAILED, exit code 2, 1.5 s: make (output: /out)"
    assert facts["timeout"].startswith("stopped at 1970-01-01T00:01:30.000Z")


def test_a_row_from_json_looks_the_same() -> None:
    pieces = (Evidence("alive", "proc:1@1", "kernel", 50.0), Evidence("working", "/f", "journal", 60.0))
    here = row(*pieces, launch=Launch("l", ProcessIdentity("b", 1, 2), name="shed"))
    there = wire.parse_session(json.loads(wire.session_text(here)))
    assert session.status_lines(there, SCREEN) == session.status_lines(here, SCREEN)
    assert session.why_lines(there, SCREEN) == session.why_lines(here, SCREEN)


@pytest.mark.parametrize(
    ("code", "ending", "expected"),
    [
        (0, "completed", "completed, exit code 0"),
        (-9, "", "killed, signal 9"),
        (None, "", "outcome unknown"),
        (None, "failed", "failed"),
    ],
)
def test_the_outcome_is_shown_with_the_exit_code_or_signal(
    code: int | None, ending: str, expected: str
) -> None:
    evidence = [Evidence("gone", "/proc", "kernel")]
    if ending:
        evidence.append(Evidence("idle", "/t", "journal", detail=ending))
    if code is not None:
        evidence.append(Evidence("exited", "/e", "record", value=code))
    assert session.format_outcome(row(*evidence)) == expected
    assert session.format_state(row(*evidence)) == f"stopped ({expected})"


def test_a_timeout_is_part_of_the_outcome() -> None:
    launch = Launch("l", ProcessIdentity("b", 1, 2), expired_at=50.0)
    stopped = row(Evidence("gone", "/proc", "kernel"), launch=launch)
    assert session.format_outcome(stopped) == "outcome unknown, timed out"


def test_the_state_of_a_live_session() -> None:
    alive = Evidence("alive", "proc:1@1", "kernel")
    assert session.format_outcome(row(alive)) == "running"
    waiting = row(alive, Evidence("waiting", "/t", "journal", detail="permission"))
    assert session.format_state(waiting) == "waiting for permission"


def test_the_line_of_an_unknown_session_has_no_control_characters() -> None:
    hidden = Evidence("hidden", "/f", "record", note="in /a\x1b]0;b\x07\nstopped")
    line = session.format_state(row(hidden))
    assert line.startswith("unknown: ")
    assert hostile.harmful(line) == []
