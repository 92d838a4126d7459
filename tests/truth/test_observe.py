"""From a session's files to an Observation."""

import json
import os
from pathlib import Path

import pytest

from agentctl.errors import Gone, Malformed
from agentctl.system.files import tail
from agentctl.system.proc import boot_id, read_process
from agentctl.truth.bind import Tie, bind
from agentctl.truth.judge import judge
from agentctl.truth.look import Look
from agentctl.truth.model import Claim, Evidence, Facts, Observation, Turn
from agentctl.truth.observe import (
    ended,
    facts_or_none,
    living,
    said,
    settled,
    settles_at,
    torn,
    transcript,
    unless_prompted,
)
from agentctl.truth.survey import Wanted

TURN = Turn("idle", "completed", 5.0, 120, "turn over")


@pytest.fixture
def look() -> Look:
    return Look.take({}).scoped("somebody")


@pytest.fixture
def path(tmp_path: Path) -> str:
    made = tmp_path / "s.jsonl"
    made.write_text("{}\n")
    return str(made)


def read(path: str, look: Look) -> Facts:
    return Facts(cwd="/w", turn=TURN)


def gone(path: str, look: Look) -> Facts:
    raise Gone(path, "no such file")


def malformed(path: str, look: Look) -> Facts:
    raise Malformed(path, "makes no sense")


def test_a_living_one_has_what_its_files_and_its_process_say(look: Look) -> None:
    me = read_process(os.getpid(), boot_id())
    bound = bind([Tie("s", me, "pid record", "/7.json")])["s"]
    more = Evidence("working", "/7.json", "record")
    seen = living(look, bound, "/s.jsonl", Facts(model="m", turn=TURN), more)
    assert [e.claim for e in seen.evidence] == ["alive", "working", "idle"]
    assert seen.evidence[0].address == me.identity.address
    assert seen.facts.cwd == os.getcwd()
    assert seen.facts.started_at == look.started_at(me)
    assert (seen.owner, seen.transcript, seen.facts.model) == (me, "/s.jsonl", "m")
    told = living(look, bound, None, Facts(cwd="/told", started_at=0.0))
    assert (told.facts.cwd, told.facts.started_at) == ("/told", 0.0)


def test_an_ambiguous_one_has_no_owner(look: Look) -> None:
    me, parent = (read_process(pid, boot_id()) for pid in (os.getpid(), os.getppid()))
    bound = bind([Tie("s", me, "inferred", "/w"), Tie("s", parent, "inferred", "/w")])["s"]
    seen = living(look, bound, None, Facts())
    assert seen.owner is None
    assert judge(seen.evidence).status == "unknown"
    assert str(me.pid) in judge(seen.evidence).reason


def test_an_ended_one(path: str, look: Look) -> None:
    more = Evidence("exited", "/exit", "record", value=0)
    (seen,) = ended(look, "s", path, read, Wanted(), more)
    assert {e.claim for e in seen.evidence} == {"gone", "exited", "idle"}
    assert (seen.owner, seen.transcript, seen.facts.turn) == (None, path, TURN)
    verdict = judge(seen.evidence)
    assert (verdict.status, verdict.outcome, verdict.exit_code) == ("stopped", "completed", 0)


def test_older_than_wanted_is_left_out(look: Look, path: str) -> None:
    moment = os.stat(path).st_mtime
    assert list(ended(look, "s", path, read, Wanted(since=moment + 1))) == []
    assert len(list(ended(look, "s", path, read, Wanted(since=moment)))) == 1


def test_deleted_meanwhile_is_left_out(look: Look, path: str) -> None:
    assert list(ended(look, "s", path + ".none", read, Wanted())) == []
    assert list(ended(look, "s", path, gone, Wanted())) == []
    assert look.problems == []


def test_an_unreadable_one_is_unknown_and_told(look: Look, path: str) -> None:
    (seen,) = ended(look, "s", path, malformed, Wanted())
    verdict = judge(seen.evidence)
    assert verdict.status == "unknown"
    assert "makes no sense" in verdict.reason
    assert [(p.kind, p.source) for p in look.problems] == [("malformed", path)]


def test_facts_of_the_living(look: Look, path: str) -> None:
    assert facts_or_none(look, None, read) == Facts()
    assert facts_or_none(look, path, gone) == Facts()
    assert look.problems == []
    assert facts_or_none(look, path, read).turn == TURN
    assert facts_or_none(look, path, malformed) == Facts()
    assert facts_or_none(look, path, lambda *_: Facts(garbled=3)) == Facts(garbled=3)
    assert [p.kind for p in look.problems] == ["malformed", "malformed"]


def test_the_journal_s_word_has_an_address() -> None:
    (piece,) = said(Facts(turn=TURN), "/s.jsonl")
    assert piece == Evidence("idle", "/s.jsonl@120", "journal", 5.0, "completed", "turn over")
    (piece,) = said(Facts(turn=Turn("working")), "/s.db")
    assert piece.address == "/s.db"
    assert list(said(Facts(), "/s.jsonl")) == []
    assert list(said(Facts(turn=TURN), None)) == []


def test_a_transcript_newest_first(look: Look, tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    lines = [json.dumps({"n": n}).encode() for n in range(5)]
    path.write_bytes(b"\n".join([*lines[:2], b"rubbish", *lines[2:]]) + b'\n{"torn')
    seen = Observation("somebody", "s", (), transcript=str(path))
    found = list(transcript(seen, look))
    assert [record["n"] for _, record in found] == [4, 3, 2, 1, 0]
    data = path.read_bytes()
    assert all(data[offset:].startswith(b'{"n": %d}' % record["n"]) for offset, record in found)
    assert [(p.kind, p.source) for p in look.problems] == [("malformed", str(path))]


def test_a_transcript_that_is_not_there(look: Look, tmp_path: Path) -> None:
    for path in (None, str(tmp_path / "none")):
        assert list(transcript(Observation("somebody", "s", (), transcript=path), look)) == []
    assert look.problems == []
    os.mkfifo(tmp_path / "fifo")
    seen = Observation("somebody", "s", (), transcript=str(tmp_path / "fifo"))
    assert list(transcript(seen, look)) == []
    assert [p.kind for p in look.problems] == ["malformed"]


# a wait that is derived


@pytest.mark.parametrize(
    ("age", "trusted"), [(0.0, False), (0.9, False), (1.0, True), (60.0, True), (-60.0, False)]
)
def test_a_derived_wait_counts_once_it_has_held_for_a_second(age: float, trusted: bool) -> None:
    wait = settled(
        Evidence("waiting", "/s", "derived", 100.0, "permission", "no process runs it"), 100 + age
    )
    alive = Evidence("alive", "proc:1@1", "kernel")
    assert (judge((alive, wait)).status == "waiting") == trusted
    assert judge((alive, wait)).activity == ("waiting" if trusted else "unknown")
    assert settles_at(Observation("x", "s", (alive, wait))) == (None if trusted else 101.0)


def test_a_derived_wait_of_which_nobody_knows_since_when_does_not_count() -> None:
    assert not settled(Evidence("waiting", "/s", "derived"), 100.0).trusted


@pytest.mark.parametrize(
    "said_outright",
    [
        Evidence("waiting", "/s.json", "record", 100.0),
        Evidence("waiting", "/s.jsonl@1", "journal", 100.0),
        Evidence("working", "/s", "derived", 100.0),
        Evidence("waiting", "/s", "derived", 1.0, trusted=False),
    ],
)
def test_all_else_stays_as_it_is(said_outright: Evidence) -> None:
    assert settled(said_outright, 100.0) == said_outright
    assert settles_at(Observation("x", "s", (said_outright,))) is None


# a torn line


def test_what_a_line_that_is_not_complete_leaves_of_the_turn(look: Look, path: str) -> None:
    """Of a live session nothing: that line may say what it does now. Of an ended one all."""

    def half(path: str, look: Look) -> Facts:
        return Facts(turn=torn(TURN, tail(path)))

    bound = bind([Tie("s", read_process(os.getpid(), boot_id()), "held open", path)])["s"]
    assert judge(living(look, bound, path, facts_or_none(look, path, half)).evidence).status == "idle"
    with open(path, "ab") as file:
        file.write(b'{"half')
    facts = facts_or_none(look, path, half)
    verdict = judge(living(look, bound, path, facts).evidence)
    assert (verdict.status, verdict.activity) == ("running", "unknown")
    assert look.problems == [], "it may be complete in a moment"
    os.utime(path, (0, look.now - 5))
    facts_or_none(look, path, half)
    assert [p.message for p in look.problems] == ["its last line is not complete"]
    assert all(piece.trusted for piece in said(facts, path))


@pytest.mark.parametrize(
    ("claim", "at", "trusted"),
    [
        ("idle", 99.0, False),
        ("idle", None, False),
        ("idle", 99.999, False),
        ("idle", 100.0, True),
        ("working", 99.0, True),
    ],
)
def test_who_has_its_prompt_is_not_idle_before_its_own_turn(
    claim: Claim, at: float | None, trusted: bool
) -> None:
    piece = Evidence(claim, "/x@1", "journal", at)
    assert unless_prompted(piece, 100.0).trusted is trusted
