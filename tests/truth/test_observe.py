"""From a session's files to an Observation."""

import json
import os
from pathlib import Path
from typing import Literal

import pytest

from agentctl.errors import Gone, Malformed
from agentctl.system.files import read_tail
from agentctl.system.proc import read_boot_id, read_process
from agentctl.truth.bind import Tie, bind
from agentctl.truth.judge import judge
from agentctl.truth.look import Look
from agentctl.truth.model import Claim, Evidence, Facts, Observation, Turn
from agentctl.truth.observe import (
    discount_earlier_turn,
    find_settle_time,
    is_left_open,
    make_turn_evidence,
    mark_torn,
    observe_ended,
    observe_live,
    read_live_facts,
    read_transcript,
    settle_wait,
)
from agentctl.truth.survey import HistoryQuery

TURN = Turn("idle", "completed", 5.0, 120, "turn over")


@pytest.fixture
def look() -> Look:
    return Look.take({}).scope_to("demo")


@pytest.fixture
def path(tmp_path: Path) -> str:
    file = tmp_path / "s.jsonl"
    file.write_text("{}\n")
    return str(file)


def read(path: str, look: Look) -> Facts:
    return Facts(cwd="/w", turn=TURN)


def raise_gone(path: str, look: Look) -> Facts:
    raise Gone(path, "no such file")


def raise_malformed(path: str, look: Look) -> Facts:
    raise Malformed(path, "makes no sense")


def test_a_live_session_has_facts_of_its_files_and_its_process(look: Look) -> None:
    me = read_process(os.getpid(), read_boot_id())
    bound = bind([Tie("s", me, "pid record", "/7.json")])["s"]
    more = Evidence("working", "/7.json", "record")
    observation = observe_live(look, bound, "/s.jsonl", Facts(model="m", turn=TURN), more)
    assert [e.claim for e in observation.evidence] == ["alive", "working", "idle"]
    assert observation.evidence[0].address == me.identity.address
    assert observation.facts.cwd == os.getcwd()
    assert observation.facts.started_at == look.find_start_time(me)
    assert (observation.owner, observation.transcript, observation.facts.model) == (me, "/s.jsonl", "m")
    with_facts = observe_live(look, bound, None, Facts(cwd="/given", started_at=0.0))
    assert (with_facts.facts.cwd, with_facts.facts.started_at) == ("/given", 0.0)


def test_an_ambiguous_session_has_no_owner(look: Look) -> None:
    me, parent = (read_process(pid, read_boot_id()) for pid in (os.getpid(), os.getppid()))
    bound = bind([Tie("s", me, "inferred", "/w"), Tie("s", parent, "inferred", "/w")])["s"]
    observation = observe_live(look, bound, None, Facts())
    assert observation.owner is None
    assert judge(observation.evidence).status == "unknown"
    assert str(me.pid) in judge(observation.evidence).reason


def test_an_ended_session_has_an_outcome(path: str, look: Look) -> None:
    more = Evidence("exited", "/exit", "record", value=0)
    (observation,) = observe_ended(look, "s", path, read, HistoryQuery(), more)
    assert {e.claim for e in observation.evidence} == {"gone", "exited", "idle"}
    assert (observation.owner, observation.transcript, observation.facts.turn) == (None, path, TURN)
    verdict = judge(observation.evidence)
    assert (verdict.status, verdict.outcome, verdict.exit_code) == ("stopped", "completed", 0)


def test_a_session_older_than_the_query_is_left_out(look: Look, path: str) -> None:
    moment = os.stat(path).st_mtime
    assert list(observe_ended(look, "s", path, read, HistoryQuery(since=moment + 1))) == []
    assert len(list(observe_ended(look, "s", path, read, HistoryQuery(since=moment)))) == 1


def test_a_session_deleted_meanwhile_is_left_out(look: Look, path: str) -> None:
    assert list(observe_ended(look, "s", path + ".none", read, HistoryQuery())) == []
    assert list(observe_ended(look, "s", path, raise_gone, HistoryQuery())) == []
    assert look.problems == []


def test_an_unreadable_session_is_unknown_and_reported(look: Look, path: str) -> None:
    (observation,) = observe_ended(look, "s", path, raise_malformed, HistoryQuery())
    verdict = judge(observation.evidence)
    assert verdict.status == "unknown"
    assert "makes no sense" in verdict.reason
    assert [(p.kind, p.source) for p in look.problems] == [("malformed", path)]


def test_facts_of_a_live_session_report_problems(look: Look, path: str) -> None:
    assert read_live_facts(look, None, read) == Facts()
    assert read_live_facts(look, path, raise_gone) == Facts()
    assert look.problems == []
    assert read_live_facts(look, path, read).turn == TURN
    assert read_live_facts(look, path, raise_malformed) == Facts()
    assert read_live_facts(look, path, lambda *_: Facts(garbled=3)) == Facts(garbled=3)
    assert [p.kind for p in look.problems] == ["malformed", "malformed"]


def test_turn_evidence_has_an_address() -> None:
    (piece,) = make_turn_evidence(Facts(turn=TURN), "/s.jsonl")
    assert piece == Evidence("idle", "/s.jsonl@120", "journal", 5.0, "completed", "turn over")
    (piece,) = make_turn_evidence(Facts(turn=Turn("working")), "/s.db")
    assert piece.address == "/s.db"
    assert list(make_turn_evidence(Facts(), "/s.jsonl")) == []
    assert list(make_turn_evidence(Facts(turn=TURN), None)) == []


def test_a_transcript_is_read_newest_first(look: Look, tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    lines = [json.dumps({"n": n}).encode() for n in range(5)]
    path.write_bytes(b"\n".join([*lines[:2], b"rubbish", *lines[2:]]) + b'\n{"torn')
    observation = Observation("demo", "s", (), transcript=str(path))
    records = list(read_transcript(observation, look))
    assert [record["n"] for _, record in records] == [4, 3, 2, 1, 0]
    data = path.read_bytes()
    assert all(data[offset:].startswith(b'{"n": %d}' % record["n"]) for offset, record in records)
    assert [(p.kind, p.source) for p in look.problems] == [("malformed", str(path))]


def test_only_a_transcript_that_is_no_file_is_a_problem(look: Look, tmp_path: Path) -> None:
    for path in (None, str(tmp_path / "none")):
        assert list(read_transcript(Observation("demo", "s", (), transcript=path), look)) == []
    assert look.problems == []
    os.mkfifo(tmp_path / "fifo")
    observation = Observation("demo", "s", (), transcript=str(tmp_path / "fifo"))
    assert list(read_transcript(observation, look)) == []
    assert [p.kind for p in look.problems] == ["malformed"]


# a wait that is derived


@pytest.mark.parametrize(
    ("age", "trusted"), [(0.0, False), (0.9, False), (1.0, True), (60.0, True), (-60.0, False)]
)
def test_a_derived_wait_counts_once_it_has_held_for_a_second(age: float, trusted: bool) -> None:
    wait = settle_wait(
        Evidence("waiting", "/s", "derived", 100.0, "permission", "no process runs it"), 100 + age
    )
    alive = Evidence("alive", "proc:1@1", "kernel")
    assert (judge((alive, wait)).status == "waiting") == trusted
    assert judge((alive, wait)).activity == ("waiting" if trusted else "unknown")
    assert find_settle_time(Observation("x", "s", (alive, wait))) == (None if trusted else 101.0)


def test_a_derived_wait_without_a_time_does_not_count() -> None:
    assert not settle_wait(Evidence("waiting", "/s", "derived"), 100.0).trusted


@pytest.mark.parametrize(
    "piece",
    [
        Evidence("waiting", "/s.json", "record", 100.0),
        Evidence("waiting", "/s.jsonl@1", "journal", 100.0),
        Evidence("working", "/s", "derived", 100.0),
        Evidence("waiting", "/s", "derived", 1.0, trusted=False),
    ],
)
def test_other_evidence_is_not_settled(piece: Evidence) -> None:
    assert settle_wait(piece, 100.0) == piece
    assert find_settle_time(Observation("x", "s", (piece,))) is None


# a torn line


def test_a_torn_line_hides_the_turn_of_a_live_session_only(look: Look, path: str) -> None:
    """The torn line of a live session may say what it does now."""

    def read_half(path: str, look: Look) -> Facts:
        return Facts(turn=mark_torn(TURN, read_tail(path)))

    bound = bind([Tie("s", read_process(os.getpid(), read_boot_id()), "held open", path)])["s"]
    assert (
        judge(observe_live(look, bound, path, read_live_facts(look, path, read_half)).evidence).status
        == "idle"
    )
    with open(path, "ab") as file:
        file.write(b'{"half')
    facts = read_live_facts(look, path, read_half)
    verdict = judge(observe_live(look, bound, path, facts).evidence)
    assert (verdict.status, verdict.activity) == ("running", "unknown")
    assert look.problems == [], "it may be complete in a moment"
    os.utime(path, (0, look.now - 5))
    read_live_facts(look, path, read_half)
    assert [p.message for p in look.problems] == ["its last line is not complete"]
    assert all(piece.trusted for piece in make_turn_evidence(facts, path))


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
def test_an_agent_with_a_prompt_is_not_idle_before_its_own_turn(
    claim: Claim, at: float | None, trusted: bool
) -> None:
    piece = Evidence(claim, "/x@1", "journal", at)
    assert discount_earlier_turn(piece, 100.0).trusted is trusted


@pytest.mark.parametrize(
    ("claim", "at", "is_open"),
    [
        ("working", 99.0, True),
        ("waiting", 99.0, True),
        ("working", 100.0, False),
        ("working", None, False),
        ("idle", 99.0, False),
    ],
)
def test_an_open_turn_that_is_older_than_its_owner_is_not_its_own(
    claim: Literal["working", "waiting", "idle"], at: float | None, is_open: bool
) -> None:
    assert is_left_open(Turn(claim, at=at), 100.0) is is_open
    assert not is_left_open(None, 100.0)
