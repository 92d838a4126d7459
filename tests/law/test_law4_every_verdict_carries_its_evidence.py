"""Law 4: every verdict has at least one fact with an address that a person can open."""

import os
import signal
from pathlib import Path

from hypothesis import given

from agentctl.system.proc import ProcessIdentity, find_process, read_boot_id
from agentctl.testing import Stage
from agentctl.truth.judge import judge
from agentctl.truth.model import Evidence
from agentctl.truth.survey import HistoryQuery
from tests.law.asking import agentctl_json, start_agent
from tests.truth.strategies import bodies


def check_evidence(stage: Stage, during: str) -> None:
    survey = stage.survey(HistoryQuery())
    assert survey.sessions, f"no row at all: {during}"
    for session in survey.sessions:
        verdict = session.verdict
        assert verdict.used, (during, session)
        assert verdict.reason, (during, session)
        for piece in verdict.used:
            check_address(piece, during)
        used, overruled = set(verdict.used), set(verdict.overruled)
        assert used | overruled == set(session.observation.evidence)
        assert not used & overruled


def check_address(piece: Evidence, during: str) -> None:
    """Check that the address names a process by pid and start tick, a file, or an offset in a file."""
    if piece.address.startswith("proc:"):
        pid, _, start = piece.address.removeprefix("proc:").partition("/")[0].partition("@")
        process = find_process(ProcessIdentity(read_boot_id(), int(pid), int(start)))
        there = process is not None and (process.is_alive or piece.claim == "exited")
        assert there == (piece.claim not in ("ended", "gone")), (during, piece)
        return
    place, at, where = piece.address.rpartition("@") if "@" in piece.address else (piece.address, "", "")
    path = Path(place.partition("#")[0])
    assert path.is_absolute(), (during, piece)
    assert path.exists(), (during, piece)
    if at and where.isdigit():
        with path.open("rb") as file:
            file.seek(max(0, int(where) - 1))
            before = file.read(1)
            line = file.readline() if int(where) else before
        assert int(where) == 0 or before == b"\n", (
            f"{during}: {piece.address} is not the start of a line"
        )
        assert line.strip(), (during, piece)


def test_every_state_of_an_agent_has_evidence(stage: Stage) -> None:
    puppet = stage.start()
    check_evidence(stage, "just started")
    puppet.do("work")
    check_evidence(stage, "working")
    if stage.can_ask:
        puppet.do("ask")
        check_evidence(stage, "asking")
        assert puppet.session_id is not None
        stage.wait_for_question(puppet.session_id)
        check_evidence(stage, "waiting")
        puppet.do("work")
    puppet.do("rest")
    check_evidence(stage, "idle")
    puppet.do("work")
    puppet.kill(signal.SIGKILL, reap=False)
    check_evidence(stage, "a zombie")
    puppet.reap()
    check_evidence(stage, "killed")
    again = stage.start(resume=puppet.session_id)
    again.do("work")
    check_evidence(stage, "resumed")
    again.do("rest")
    again.finish()
    check_evidence(stage, "completed")
    failing, _ = start_agent(stage, stage.root / "elsewhere")
    failing.do("fail")
    check_evidence(stage, "a turn that failed")
    failing.finish(1)
    check_evidence(stage, "failed")


def test_damaged_and_missing_files_leave_evidence(stage: Stage) -> None:
    puppet, _ = start_agent(stage)
    records = stage.records(puppet)
    for path in records:
        path.write_bytes(b"\xff rubbish\n")
    check_evidence(stage, "rubbish")
    for path in records:
        path.unlink()
    check_evidence(stage, "nothing on disk")
    puppet.kill()
    other, _ = start_agent(stage, stage.root / "elsewhere")
    for path in stage.records(other):
        path.unlink()
        os.mkfifo(path)
    check_evidence(stage, "a FIFO")


def test_why_shows_each_piece_and_whether_it_decided(stage: Stage) -> None:
    _, session_id = start_agent(stage)
    (row,) = agentctl_json(stage, "why", session_id)["sessions"]
    verdict = stage.session(session_id).verdict
    decided = [(e["claim"], e["address"]) for e in row["evidence"] if e["decided"]]
    overruled = [(e["claim"], e["address"]) for e in row["evidence"] if not e["decided"]]
    assert decided == [(e.claim, e.address) for e in verdict.used]
    assert overruled == [(e.claim, e.address) for e in verdict.overruled]
    assert all(e["trusted"] for e in row["evidence"] if e["decided"])


@given(bodies)
def test_a_verdict_without_evidence_is_unknown(evidence: tuple[Evidence, ...]) -> None:
    verdict = judge(evidence)
    assert verdict.used or verdict.status == "unknown"
    for piece in verdict.used:
        assert any(piece is each for each in evidence), "made up"
