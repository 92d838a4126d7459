"""What launch notes add to a verdict. How they find their session: test_survey.py."""

import os
import subprocess

import pytest

from agentctl.errors import Forbidden, Gone, SourceError
from agentctl.system import proc
from agentctl.system.identity import ProcessIdentity
from agentctl.system.proc import Process
from agentctl.truth import labels
from agentctl.truth.judge import judge
from agentctl.truth.labels import labelled
from agentctl.truth.model import Evidence, Exit, Facts, Launch, Observation, Session
from agentctl.truth.survey import Wanted

GONE = ProcessIdentity("b", 7, 1)
OPEN = (
    Evidence("gone", "/proc", "kernel"),
    Evidence("working", "/journal@1", "journal"),
)


def test_an_exit_code_tells_how_it_ended() -> None:
    seen = Observation("demo", "s", OPEN)
    note = Launch("l1", GONE, "s", ended=Exit(3, 1000.0, "/exit"))
    found = labelled(seen, judge(seen.evidence), note)
    assert (found.verdict.outcome, found.verdict.exit_code) == ("failed", 3)
    assert found.launch == note


def test_the_living_have_no_exit() -> None:
    alive = Observation("demo", "s", (Evidence("alive", "proc:7@1", "kernel"),))
    note = Launch("l1", GONE, "s", ended=Exit(3, 1000.0, "/exit"))
    assert labelled(alive, judge(alive.evidence), note).verdict == judge(alive.evidence)


def test_one_of_another_container_is_not_dead_for_being_absent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proc, "elsewhere", lambda *_: True)
    seen = Observation("demo", "s", OPEN)
    found = labelled(seen, judge(seen.evidence), Launch("l1", GONE, "s"))
    assert (found.verdict.status, found.verdict.reason) == ("unknown", labels.ELSEWHERE)


@pytest.mark.parametrize(("back", "believed"), [(0.0, False), (7200.0, True)])
def test_a_clock_that_was_set_back_makes_no_later_owner(back: float, believed: bool) -> None:
    """What the agent wrote before that seems to be later than its end."""
    told = labels._exited(Exit(0, 1000.0, "/exit", back), Facts(last_activity_at=8000.0))
    assert told.trusted is believed


def _loose(last: float | None, *more: Evidence, transcript: str | None = "/s.jsonl") -> Observation:
    """An ended session that a process without a session may run, as far as its files tell."""
    doubt = Evidence("ambiguous", "proc:9@9", "derived", note="pid 9 may run this one")
    closed = Evidence("idle", "/s.jsonl@1", "journal", detail="completed")
    facts = Facts(last_activity_at=last)
    return Observation("pi", "s", (doubt, closed, *more), facts, transcript=transcript)


def _ended_at_1000(seen: Observation) -> Session:
    note = Launch("l1", GONE, "s", adapter="pi", ended=Exit(0, 1000.0, "/exit"))
    return labelled(seen, judge(seen.evidence), note)


def test_the_recorded_end_overrules_one_that_merely_could_run_it() -> None:
    found = _ended_at_1000(_loose(999.0))
    assert found.verdict[:5] == ("stopped", "unknown", None, "completed", 0)
    assert found.verdict.reason == "the process that ran it has ended; its last turn completed"
    assert found.verdict.used[0][:3] == ("ended", "/exit", "kernel")
    assert [(e.claim, e.trusted) for e in found.verdict.overruled] == [("ambiguous", False)]


def test_not_where_somebody_has_written_since() -> None:
    assert _ended_at_1000(_loose(1001.0)).verdict.status == "unknown"


def test_not_where_nobody_can_tell_whether_somebody_has() -> None:
    assert _ended_at_1000(_loose(None)).verdict.status == "unknown"
    assert _ended_at_1000(_loose(None, transcript=None)).verdict.status == "stopped"
    foreign = Evidence("hidden", "/sessions/9.json", "record", note="in another pid namespace")
    assert _ended_at_1000(_loose(999.0, foreign)).verdict.status == "unknown"


NOTE = Launch("l1", GONE, "s", "n", adapter="pi", cwd="/w", ended=Exit(-9, 1000.0, "/exit"), prompt="p")


def _rows(note: Launch, wanted: Wanted | None = None, *, whole: bool = True) -> list[Session]:
    return list(labels.Labels([note]).left_no_file((), wanted or Wanted(), {"pi": whole}))


def test_a_launch_that_ended_and_left_no_file_is_a_row() -> None:
    (row,) = _rows(NOTE)
    assert (row.verdict.status, row.verdict.outcome, row.verdict.exit_code) == ("stopped", "killed", -9)
    assert (row.seen.adapter, row.seen.session_id, row.seen.facts.prompt) == ("pi", "s", "p")
    assert row.launch == NOTE


@pytest.mark.parametrize(
    ("note", "wanted"),
    [
        (NOTE._replace(session_id=None), Wanted()),  # it never was a session
        (NOTE._replace(adapter=None), Wanted()),  # an older note: nobody knows of which agent
        (NOTE._replace(adapter="codex"), Wanted()),  # which was not asked
        (NOTE._replace(ended=None), Wanted()),  # of another boot: perhaps on another machine
        (NOTE, Wanted(id_prefix="t")),
        (NOTE, Wanted(since=1001.0)),
        # it ended later, but a file of it may be older, and not be listed for that
        (NOTE._replace(created_at=900.0), Wanted(since=950.0)),
    ],
)
def test_no_row(note: Launch, wanted: Wanted) -> None:
    assert _rows(note, wanted) == []


def test_a_launch_since_then_is_a_row() -> None:
    assert len(_rows(NOTE._replace(created_at=900.0), Wanted(since=900.0))) == 1


def test_no_second_row_for_a_session_that_was_found() -> None:
    (row,) = _rows(NOTE)
    assert list(labels.Labels([NOTE]).left_no_file([row], Wanted(), {"pi": True})) == []


def test_a_live_process_is_no_row_of_a_note() -> None:
    """What ended may have been a wrapper of it."""
    us = proc.read_process(os.getpid(), proc.boot_id()).identity
    assert _rows(NOTE._replace(identity=us)) == []


def test_without_a_recorded_end_the_kernel_must_tell() -> None:
    never = ProcessIdentity(proc.boot_id(), 2**22 - 1, 1)
    (row,) = _rows(NOTE._replace(ended=None, identity=never))
    assert (row.verdict.status, row.verdict.outcome, row.verdict.exit_code) == (
        "stopped",
        "unknown",
        None,
    )
    assert _rows(NOTE._replace(ended=None, identity=never, namespace="pid:[1]")) == []


@pytest.mark.parametrize("failure", [Gone("proc:1", "no such process"), Forbidden("proc:1", "withheld")])
def test_one_that_may_be_hidden_is_not_called_dead(
    failure: SourceError, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As with hidepid=2, where a live process of another user is not there, and hidepid=1."""

    def refuse(pid: int, boot: str) -> Process:
        raise failure

    us = proc.read_process(os.getpid(), proc.boot_id()).identity
    monkeypatch.setattr(proc, "read_process", refuse)
    assert _rows(NOTE._replace(ended=None, identity=us)) == []
    assert [row.verdict.status for row in _rows(NOTE._replace(identity=us))] == ["stopped"], "our shim"


def test_a_number_that_another_one_has_for_all_to_see_hides_nobody() -> None:
    us = proc.read_process(os.getpid(), proc.boot_id()).identity
    (row,) = _rows(NOTE._replace(ended=None, identity=us._replace(start=1)))
    assert row.verdict.status == "stopped"


def test_a_zombie_has_ended() -> None:
    child = subprocess.Popen(["true"])
    try:
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        its = proc.read_process(child.pid, proc.boot_id()).identity
        (row,) = _rows(NOTE._replace(ended=None, identity=its))
        assert row.verdict.status == "stopped"
    finally:
        child.wait()


def test_where_its_agents_files_could_not_be_read_it_is_not_called_dead() -> None:
    """Another process may run it again, and its adapter failed to tell."""
    (row,) = _rows(NOTE, whole=False)
    assert (row.verdict.status, row.verdict.reason) == ("unknown", labels.UNREAD)


@pytest.mark.parametrize(
    ("hidden", "status"),
    [
        (Evidence("hidden", "/s.jsonl", "derived", note="its files are shared"), "stopped"),
        (Evidence("hidden", "proc:9@9", "derived", note="pid 9 has its files open to write"), "unknown"),
        (Evidence("hidden", "proc:9@9", "kernel", note="a record names it; hidden"), "unknown"),
        (Evidence("hidden", GONE.address, "kernel", note="the one that we waited for"), "stopped"),
        (Evidence("hidden", "/proc", "kernel", note="written after we looked"), "stopped"),
    ],
)
def test_that_somebody_could_be_out_of_sight_is_no_sign_of_one(hidden: Evidence, status: str) -> None:
    seen = _loose(999.0, hidden)
    assert _ended_at_1000(seen).verdict.status == status
