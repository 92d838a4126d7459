"""Law 4: every verdict rests on at least one fact with an address that a person can open."""

import os
import signal
from pathlib import Path

from hypothesis import given

from agentctl.system.identity import ProcessIdentity
from agentctl.system.proc import boot_id, current
from agentctl.testing import Stage
from agentctl.truth.judge import judge
from agentctl.truth.model import Evidence
from agentctl.truth.survey import Wanted
from tests.law.asking import agentctl_json, working
from tests.truth.strategies import bodies


def check(stage: Stage, during: str) -> None:
    found = stage.survey(Wanted())
    assert found.sessions, f"no row at all: {during}"
    for session in found.sessions:
        verdict = session.verdict
        assert verdict.used, (during, session)
        assert verdict.reason, (during, session)
        for piece in verdict.used:
            openable(piece, during)
        used, overruled = set(verdict.used), set(verdict.overruled)
        assert used | overruled == set(session.seen.evidence)
        assert not used & overruled


def openable(piece: Evidence, during: str) -> None:
    """A process by pid and start tick, a file, or a file and an offset in it."""
    if piece.address.startswith("proc:"):
        pid, _, start = piece.address.removeprefix("proc:").partition("/")[0].partition("@")
        process = current(ProcessIdentity(boot_id(), int(pid), int(start)))
        there = process is not None and (process.alive or piece.claim == "exited")
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


def test_in_every_state_of_every_agent(stage: Stage) -> None:
    puppet = stage.start()
    check(stage, "just started")
    puppet.do("work")
    check(stage, "working")
    if stage.can_ask:
        puppet.do("ask")
        check(stage, "asking")
        assert puppet.session_id is not None
        stage.waiting(puppet.session_id)
        check(stage, "waiting")
        puppet.do("work")
    puppet.do("rest")
    check(stage, "idle")
    puppet.do("work")
    puppet.kill(signal.SIGKILL, reap=False)
    check(stage, "a zombie")
    puppet.reap()
    check(stage, "killed")
    again = stage.start(resume=puppet.session_id)
    again.do("work")
    check(stage, "resumed")
    again.do("rest")
    again.finish()
    check(stage, "completed")
    failing, _ = working(stage, stage.root / "elsewhere")
    failing.do("fail")
    check(stage, "a turn that failed")
    failing.finish(1)
    check(stage, "failed")


def test_in_every_kind_of_trouble(stage: Stage) -> None:
    puppet, _ = working(stage)
    records = stage.records(puppet)
    for path in records:
        path.write_bytes(b"\xff rubbish\n")
    check(stage, "rubbish")
    for path in records:
        path.unlink()
    check(stage, "nothing on disk")
    puppet.kill()
    other, _ = working(stage, stage.root / "elsewhere")
    for path in stage.records(other):
        path.unlink()
        os.mkfifo(path)
    check(stage, "a FIFO")


def test_why_shows_each_piece_and_which_decided(stage: Stage) -> None:
    _, session_id = working(stage)
    (row,) = agentctl_json(stage, "why", session_id)["sessions"]
    verdict = stage.session(session_id).verdict
    decided = [(e["claim"], e["address"]) for e in row["evidence"] if e["decided"]]
    left = [(e["claim"], e["address"]) for e in row["evidence"] if not e["decided"]]
    assert decided == [(e.claim, e.address) for e in verdict.used]
    assert left == [(e.claim, e.address) for e in verdict.overruled]
    assert all(e["trusted"] for e in row["evidence"] if e["decided"])


@given(bodies)
def test_a_verdict_without_evidence_is_unknown(evidence: tuple[Evidence, ...]) -> None:
    verdict = judge(evidence)
    assert verdict.used or verdict.status == "unknown"
    for piece in verdict.used:
        assert any(piece is each for each in evidence), "made up"
