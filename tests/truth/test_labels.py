"""What launch notes add to a verdict. How they find their session: test_survey.py."""

import os
import subprocess

import pytest

from agentctl.errors import Forbidden, Gone, SourceError
from agentctl.system import proc
from agentctl.system.proc import Process, ProcessIdentity
from agentctl.truth import labels
from agentctl.truth.judge import judge
from agentctl.truth.labels import add_label
from agentctl.truth.model import Evidence, Exit, Facts, Launch, Observation, Session
from agentctl.truth.survey import HistoryQuery

GONE = ProcessIdentity("b", 7, 1)
OPEN = (
    Evidence("gone", "/proc", "kernel"),
    Evidence("working", "/journal@1", "journal"),
)


def test_an_exit_code_makes_the_outcome() -> None:
    observation = Observation("demo", "s", OPEN)
    note = Launch("l1", GONE, "s", exit=Exit(3, 1000.0, "/exit"))
    session = add_label(observation, judge(observation.evidence), note)
    assert (session.verdict.outcome, session.verdict.exit_code) == ("failed", 3)
    assert session.launch == note


def test_a_live_session_has_no_exit_code() -> None:
    alive = Observation("demo", "s", (Evidence("alive", "proc:7@1", "kernel"),))
    note = Launch("l1", GONE, "s", exit=Exit(3, 1000.0, "/exit"))
    assert add_label(alive, judge(alive.evidence), note).verdict == judge(alive.evidence)


def test_an_absent_process_of_another_container_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proc, "may_be_elsewhere", lambda *_: True)
    observation = Observation("demo", "s", OPEN)
    session = add_label(observation, judge(observation.evidence), Launch("l1", GONE, "s"))
    assert (session.verdict.status, session.verdict.reason) == ("unknown", labels.ELSEWHERE)


@pytest.mark.parametrize(("back", "trusted"), [(0.0, False), (7200.0, True)])
def test_a_clock_that_was_set_back_makes_no_later_owner(back: float, trusted: bool) -> None:
    """What the agent wrote before the change has a later time than its end."""
    piece = labels._exit_evidence(Exit(0, 1000.0, "/exit", back), Facts(last_activity_at=8000.0))
    assert piece.trusted is trusted


def _make_doubtful(
    last: float | None, *more: Evidence, transcript: str | None = "/s.jsonl"
) -> Observation:
    """Return an ended session that a process without a session may run, by its files alone."""
    doubt = Evidence("ambiguous", "proc:9@9", "derived", note="pid 9 may run this one")
    closed = Evidence("idle", "/s.jsonl@1", "journal", detail="completed")
    facts = Facts(last_activity_at=last)
    return Observation("pi", "s", (doubt, closed, *more), facts, transcript=transcript)


def _label_ended_at_1000(observation: Observation) -> Session:
    note = Launch("l1", GONE, "s", adapter="pi", exit=Exit(0, 1000.0, "/exit"))
    return add_label(observation, judge(observation.evidence), note)


def test_a_recorded_end_overrules_a_possible_owner() -> None:
    session = _label_ended_at_1000(_make_doubtful(999.0))
    assert session.verdict[:5] == ("stopped", "unknown", None, "completed", 0)
    assert session.verdict.reason == "the process that ran it has ended; its last turn completed"
    assert session.verdict.used[0][:3] == ("ended", "/exit", "kernel")
    assert [(e.claim, e.trusted) for e in session.verdict.overruled] == [("ambiguous", False)]


def test_a_later_write_keeps_the_session_unknown() -> None:
    assert _label_ended_at_1000(_make_doubtful(1001.0)).verdict.status == "unknown"


def test_a_possible_later_write_keeps_the_session_unknown() -> None:
    assert _label_ended_at_1000(_make_doubtful(None)).verdict.status == "unknown"
    assert _label_ended_at_1000(_make_doubtful(None, transcript=None)).verdict.status == "stopped"
    foreign = Evidence("hidden", "/sessions/9.json", "record", note="in another pid namespace")
    assert _label_ended_at_1000(_make_doubtful(999.0, foreign)).verdict.status == "unknown"


NOTE = Launch("l1", GONE, "s", "n", adapter="pi", cwd="/w", exit=Exit(-9, 1000.0, "/exit"), prompt="p")


def _find_rows(note: Launch, query: HistoryQuery | None = None, *, whole: bool = True) -> list[Session]:
    return list(
        labels.Labels([note]).find_sessions_without_file((), query or HistoryQuery(), {"pi": whole})
    )


def test_an_ended_launch_without_a_file_is_a_row() -> None:
    (row,) = _find_rows(NOTE)
    assert (row.verdict.status, row.verdict.outcome, row.verdict.exit_code) == ("stopped", "killed", -9)
    assert (row.observation.adapter, row.observation.session_id, row.observation.facts.prompt) == (
        "pi",
        "s",
        "p",
    )
    assert row.launch == NOTE


@pytest.mark.parametrize(
    ("note", "query"),
    [
        (NOTE._replace(session_id=None), HistoryQuery()),  # it never became a session
        (NOTE._replace(adapter=None), HistoryQuery()),  # an older note, which names no agent
        (NOTE._replace(adapter="codex"), HistoryQuery()),  # an agent that was not asked
        (NOTE._replace(exit=None), HistoryQuery()),  # of another boot: perhaps on another machine
        (NOTE, HistoryQuery(id_prefix="t")),
        (NOTE, HistoryQuery(since=1001.0)),
        # it ended later, but its file may be too old to be listed
        (NOTE._replace(created_at=900.0), HistoryQuery(since=950.0)),
    ],
)
def test_a_note_that_makes_no_row(note: Launch, query: HistoryQuery) -> None:
    assert _find_rows(note, query) == []


def test_a_launch_since_then_is_a_row() -> None:
    assert len(_find_rows(NOTE._replace(created_at=900.0), HistoryQuery(since=900.0))) == 1


def test_a_listed_session_gets_no_second_row_from_its_note() -> None:
    (row,) = _find_rows(NOTE)
    assert (
        list(labels.Labels([NOTE]).find_sessions_without_file([row], HistoryQuery(), {"pi": True})) == []
    )


def test_a_note_of_a_live_process_makes_no_row() -> None:
    """The process that ended may have been a wrapper of it."""
    us = proc.read_process(os.getpid(), proc.read_boot_id()).identity
    assert _find_rows(NOTE._replace(identity=us)) == []


def test_without_a_recorded_end_the_kernel_must_show_it() -> None:
    never = ProcessIdentity(proc.read_boot_id(), 2**22 - 1, 1)
    (row,) = _find_rows(NOTE._replace(exit=None, identity=never))
    assert (row.verdict.status, row.verdict.outcome, row.verdict.exit_code) == (
        "stopped",
        "unknown",
        None,
    )
    assert _find_rows(NOTE._replace(exit=None, identity=never, namespace="pid:[1]")) == []


@pytest.mark.parametrize("failure", [Gone("proc:1", "no such process"), Forbidden("proc:1", "withheld")])
def test_a_process_that_may_be_hidden_is_not_called_dead(
    failure: SourceError, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As with hidepid=2, where a live process of another user is not there, and hidepid=1."""

    def refuse(pid: int, boot: str) -> Process:
        raise failure

    us = proc.read_process(os.getpid(), proc.read_boot_id()).identity
    monkeypatch.setattr(proc, "read_process", refuse)
    assert _find_rows(NOTE._replace(exit=None, identity=us)) == []
    assert [row.verdict.status for row in _find_rows(NOTE._replace(identity=us))] == ["stopped"], (
        "our shim"
    )


def test_a_process_whose_pid_is_reused_has_ended() -> None:
    us = proc.read_process(os.getpid(), proc.read_boot_id()).identity
    (row,) = _find_rows(NOTE._replace(exit=None, identity=us._replace(start=1)))
    assert row.verdict.status == "stopped"


def test_a_zombie_has_ended() -> None:
    child = subprocess.Popen(["true"])
    try:
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        its = proc.read_process(child.pid, proc.read_boot_id()).identity
        (row,) = _find_rows(NOTE._replace(exit=None, identity=its))
        assert row.verdict.status == "stopped"
    finally:
        child.wait()


def test_a_launch_is_unknown_where_files_of_its_agent_were_not_read() -> None:
    """Another process may run it again, and its adapter failed to report that."""
    (row,) = _find_rows(NOTE, whole=False)
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
def test_a_recorded_end_holds_unless_another_process_is_named(hidden: Evidence, status: str) -> None:
    observation = _make_doubtful(999.0, hidden)
    assert _label_ended_at_1000(observation).verdict.status == status
