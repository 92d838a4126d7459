"""Claude Code's adapter keeps the contract, and knows the agent's quirks."""

import json
import os
import shlex
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from agentctl.adapters.claude_code import pid_record
from agentctl.adapters.claude_code.adapter import ClaudeCode
from agentctl.adapters.claude_code.argv import is_prompted
from agentctl.adapters.claude_code.places import slug
from agentctl.adapters.claude_code.transcript import read_ended, read_live
from agentctl.system import files
from agentctl.testing import AdapterContract, Puppet
from agentctl.truth.look import Look
from agentctl.truth.model import Evidence, Exit, Launch, Session, Tokens
from agentctl.truth.survey import HistoryQuery
from tests.fakes.claude import ClaudeStage
from tests.fakes.containers import UNSHARE, need_containers
from tests.namespaces import unshare
from tests.waiting import until

CORPUS = Path(__file__).parent.parent / "corpus" / "claude"
BARE = {"FAKE_START": "bare"}
ID = "11111111-2222-4333-8444-555555555555"


STAGE = ClaudeStage


class TestClaudeCode(AdapterContract):
    @pytest.fixture
    def stage(self, tmp_path: Path) -> Iterator[ClaudeStage]:
        stage = ClaudeStage(tmp_path)
        yield stage
        stage.close()


def _row(stage: ClaudeStage, puppet: Puppet) -> Session:
    row = stage.find_row(puppet)
    assert row is not None
    return row


def _notes(row: Session) -> str:
    return " | ".join(e.note for e in row.observation.evidence)


def _edit(path: Path, **changes: Any) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def _kinds(stage: ClaudeStage) -> set[str]:
    return {problem.kind for problem in stage.survey(HistoryQuery()).problems}


# whose process it is


@pytest.mark.parametrize(
    "binary", [("bin", "claude"), ("share", "claude", "versions", "2.1.325"), ClaudeStage.binary]
)
def test_every_install_is_recognised(stage: ClaudeStage, binary: tuple[str, ...]) -> None:
    stage.binary = binary
    puppet = stage.start()
    assert _row(stage, puppet).observation.session_id == puppet.session_id


def test_another_program_by_that_name_is_not_ours(stage: ClaudeStage) -> None:
    stage.binary = ("bin", "python3")
    stage.start(environ={**BARE, "FAKE_COMM": "claude"})
    script = stage.root / "claude"
    script.write_text("#!/bin/sh\necho; read line\n")
    script.chmod(0o755)
    stage.puppets.append(Puppet([str(script)], stage.environ, str(stage.work)))
    assert stage.survey(HistoryQuery()).sessions == []


@pytest.mark.few(3)
@pytest.mark.parametrize(
    "argv",
    [
        ("daemon", "run", "--origin", "transient"),
        ("--bg-pty-host", "/tmp/x.pty.sock", "200", "50", "--", "claude", "--bg-spare", "/tmp/x.sock"),
        ("--bg-spare", "/tmp/x.claim.sock"),
        ("agents",),
        ("mcp", "serve"),
        ("--version",),
        ("--bg", "a prompt"),
        ("--model", "opus", "--bg", "a prompt"),
    ],
)
def test_machinery_that_runs_no_session_is_not_listed(stage: ClaudeStage, argv: tuple[str, ...]) -> None:
    _write_roster(stage)  # which names no spare that was not claimed
    stage.start(environ=BARE, argv=argv)
    assert stage.survey(HistoryQuery()).sessions == []


def test_a_claimed_spare_is_a_session(stage: ClaudeStage) -> None:
    puppet = stage.start(environ=BARE, argv=("--bg-spare", "/tmp/x.claim.sock"))
    puppet.do("claim")
    puppet.do("work")
    row = _row(stage, puppet)
    assert row.observation.session_id == puppet.session_id
    assert row.verdict.activity == "working"
    assert row.observation.facts.entry_point == "background"


@pytest.mark.few(3)
@pytest.mark.parametrize("rubbish", [None, b"", b'{"half'])
@pytest.mark.parametrize("roster", ["names it", "is absent", "is rubbish"])
def test_a_claimed_spare_without_its_record_is_never_stopped(
    stage: ClaudeStage, rubbish: bytes | None, roster: str
) -> None:
    puppet = stage.start(environ=BARE, argv=("--bg-spare", "/tmp/x.claim.sock"))
    puppet.do("claim")
    puppet.do("work")
    assert puppet.session_id is not None
    record = stage.record(puppet)
    if rubbish is None:
        record.unlink()
    else:
        record.write_bytes(rubbish)
    if roster == "names it":
        _write_roster(stage, puppet)
    elif roster == "is rubbish":
        _roster(stage).write_text('{"workers": ')
    row = _row(stage, puppet)
    session = stage.session(puppet.session_id)
    if roster == "names it":
        assert row.observation.session_id == puppet.session_id
        assert session.verdict.activity == "working"
    else:  # nothing tells whose spare it is: listed, and a suspect
        assert row.verdict.status == "running"
        assert session.verdict.status == "unknown"


def test_a_spare_does_not_do_what_its_session_did_before(stage: ClaudeStage) -> None:
    spare = stage.start(environ=BARE, argv=("--bg-spare", "/tmp/x.claim.sock"))
    _write_roster(stage)
    first = stage.start()
    first.do("work")
    first.do("rest")
    first.finish()
    session_id = first.session_id or ""
    spare.do(f"take {session_id}")
    row = stage.session(session_id)
    assert (row.verdict.status, row.verdict.activity) == ("running", "unknown")
    assert "took the session up" in _notes(row)
    spare.do(f"settle {session_id}")
    assert stage.session(session_id).verdict.status == "idle"


def _roster(stage: ClaudeStage) -> Path:
    path = stage.home / ".claude" / "daemon" / "roster.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def _write_roster(stage: ClaudeStage, *claimed: Puppet) -> None:
    workers = {
        str(puppet.session_id)[:8]: {
            "pid": 1,
            "procStart": "1",
            "sessionId": puppet.session_id,
            "startedAt": 1,
            "replPid": puppet.pid,
            "replProcStart": str(puppet.identity.start),
        }
        for puppet in claimed
    }
    _roster(stage).write_text(json.dumps({"proto": 1, "workers": workers}))


# is the record this process's?


def test_a_record_of_an_earlier_process_with_this_pid_binds_nothing(stage: ClaudeStage) -> None:
    puppet = stage.start()
    puppet.do("work")
    _edit(stage.record(puppet), procStart="1")
    row = _row(stage, puppet)
    assert (row.observation.session_id, row.verdict.status) == (None, "running")
    assert "earlier process" in _notes(row)
    assert "stale" in _kinds(stage)


def test_a_record_of_another_pid_namespace_binds_nothing(stage: ClaudeStage) -> None:
    puppet = stage.start()
    puppet.do("work")
    _edit(stage.record(puppet), pidDomain="linux:0:pid:[4026999999]")
    row = _row(stage, puppet)
    assert (row.observation.session_id, row.verdict.activity) == (None, "unknown")
    assert [e for e in row.verdict.overruled if not e.trusted and "namespace" in e.note]
    assert "stale" in _kinds(stage)


def test_a_session_of_a_namespace_we_cannot_see_is_unknown_not_stopped(stage: ClaudeStage) -> None:
    puppet = stage.start()
    puppet.do("work")
    record = stage.record(puppet)
    text = record.read_text()
    puppet.finish()
    record.write_text(text)
    assert stage.session(puppet.session_id or "").verdict.status == "stopped"
    _edit(record, pidDomain="linux:0:pid:[4026999999]")
    verdict = stage.session(puppet.session_id or "").verdict
    assert verdict.status == "unknown"
    assert "out of our sight" in verdict.reason


def test_a_process_of_a_child_pid_namespace_is_bound_by_its_inner_pid(stage: ClaudeStage) -> None:
    stage.wrapper = tuple(unshare("--pid", "--fork", "--kill-child"))
    puppet = stage.start()
    puppet.do("work")
    assert (stage.config / "sessions" / "1.json").exists()
    row = stage.session(puppet.session_id or "")
    assert row.verdict.activity == "working"
    assert row.observation.owner is not None
    assert row.observation.owner.parent == puppet.pid
    assert stage.survey(HistoryQuery()).problems == []


@pytest.mark.few(4)
@pytest.mark.parametrize(
    "damaged",
    [
        "",
        "x",
        "\0" * 36,
        "9" * 300_000,
        ID[:-1] + "\ud800",
        ID[:-1] + "/",
        ID.replace("-", "x"),
        7,
        None,
        [ID],
    ],
    ids=lambda damaged: repr(damaged)[:20],
)
def test_a_record_with_a_damaged_id_makes_its_session_unknown(
    stage: ClaudeStage, damaged: object
) -> None:
    """Its process runs a session that cannot be named: any that it could be is unknown."""
    puppet = stage.start()
    puppet.do("work")
    assert puppet.session_id is not None
    _edit(stage.records(puppet)[0], sessionId=damaged)
    row = _row(stage, puppet)
    assert (row.observation.session_id, row.verdict.status) == (None, "running")
    assert "damaged" in _notes(row)
    true = stage.session(puppet.session_id).verdict
    assert true.status == "unknown", true
    assert "malformed" in _kinds(stage)


def test_an_id_in_capitals_is_one(stage: ClaudeStage) -> None:
    puppet = stage.start()
    puppet.do("work")
    _edit(stage.records(puppet)[0], sessionId=ID.upper())
    assert _row(stage, puppet).observation.session_id == ID.upper()


@pytest.mark.few(2)
@pytest.mark.parametrize("start", [["1"], {"a": 1}, "9" * 5000, 10**400, None])
def test_a_damaged_start_costs_its_own_record(stage: ClaudeStage, start: object) -> None:
    puppet, other = stage.start(), stage.start(stage.root / "other")
    puppet.do("work")
    _edit(stage.records(puppet)[0], procStart=start)
    assert _row(stage, puppet).verdict.status in ("running", "unknown")
    assert _row(stage, other).observation.session_id == other.session_id
    assert "broken" not in _kinds(stage)


def test_a_half_written_record_leaves_the_process_listed(stage: ClaudeStage) -> None:
    puppet = stage.start()
    puppet.do("work")
    puppet.do("half")
    row = _row(stage, puppet)
    assert (row.observation.session_id, row.verdict.status, row.verdict.activity) == (
        None,
        "running",
        "unknown",
    )
    assert "malformed" in _kinds(stage)
    # and it may well be the one that runs the session
    assert stage.session(puppet.session_id or "").verdict.status == "unknown"


def test_a_record_caught_while_it_is_written_is_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "1.json"
    path.write_text('{"pid":1}')
    whole, empty = files.read_file, [b"", b'{"pid"']

    def caught(path: str) -> files.Piece:
        piece = whole(path)
        return piece._replace(data=empty.pop()) if empty else piece

    monkeypatch.setattr(files, "read_file", caught)
    assert pid_record.load(str(path)) == {"pid": 1}
    assert empty == []


def test_a_record_left_by_kill_9_is_reported_as_stale(stage: ClaudeStage) -> None:
    puppet = stage.start()
    puppet.do("work")
    puppet.kill()
    row = stage.session(puppet.session_id or "")
    assert (row.verdict.status, row.verdict.outcome) == ("stopped", "killed")
    assert "left behind" in _notes(row)
    look = Look.take(stage.environ).scope_to("claude-code")
    list(ClaudeCode().places(look))
    assert [(p.kind, p.source) for p in look.problems] == [("stale", str(stage.record(puppet)))]


def test_a_later_transcript_overrules_the_record_of_a_killed_process(stage: ClaudeStage) -> None:
    first = stage.start()
    first.do("work")
    first.kill()
    again = stage.start(resume=first.session_id)
    again.do("work")
    again.do("rest")
    again.finish()
    row = stage.session(first.session_id or "")
    assert (row.verdict.status, row.verdict.outcome) == ("stopped", "completed")
    assert "overtaken" in _notes(row)


def test_a_live_record_is_not_called_stale(stage: ClaudeStage) -> None:
    stage.start()
    look = Look.take(stage.environ).scope_to("claude-code")
    list(ClaudeCode().places(look))
    assert look.problems == []


# which session it names


def test_the_provisional_id_of_continue_is_not_believed(stage: ClaudeStage) -> None:
    first = stage.start()
    first.do("work")
    first.do("rest")
    first.finish()
    puppet = stage.start(environ={"FAKE_START": "provisional"}, argv=("--continue",))
    assert puppet.session_id != first.session_id
    row = _row(stage, puppet)
    assert (row.observation.session_id, row.verdict.status) == (None, "running")
    assert "provisional" in _notes(row)
    puppet.do(f"settle {first.session_id}")
    assert _row(stage, puppet).observation.session_id == first.session_id


@pytest.mark.few(1)
@pytest.mark.parametrize("argv", [("--resume",), ("-r", "--permission-mode", "manual")])
def test_a_process_that_asks_which_session_to_resume_waits(
    stage: ClaudeStage, argv: tuple[str, ...]
) -> None:
    puppet = stage.start(environ={"FAKE_START": "provisional"}, argv=argv)
    until(lambda: _row(stage, puppet).verdict.status == "waiting", "it has held for a second")
    row = _row(stage, puppet)
    assert (row.observation.session_id, row.verdict.status) == (None, "waiting")
    assert row.verdict.waiting_for == "startup"
    puppet.do(f"settle {ID}")
    row = _row(stage, puppet)
    assert (row.observation.session_id, row.verdict.status) == (ID, "idle")


@pytest.mark.few(1)
@pytest.mark.parametrize("flag", ["--session-id", "--resume", "-r"])
def test_an_id_without_status_is_believed_when_the_command_line_names_it(
    stage: ClaudeStage, flag: str
) -> None:
    environ = {"FAKE_START": "provisional", "FAKE_SESSION": ID}
    puppet = stage.start(environ=environ, argv=("-p", flag, ID))
    row = _row(stage, puppet)
    assert (row.observation.session_id, row.verdict.activity) == (ID, "unknown")


def test_clear_switches_the_session_in_place(stage: ClaudeStage) -> None:
    puppet = stage.start()
    puppet.do("work")
    puppet.do("rest")
    before = puppet.session_id
    puppet.do("clear")
    assert _row(stage, puppet).observation.session_id == puppet.session_id != before
    assert stage.session(puppet.session_id or "").verdict.status == "idle"
    old = stage.session(before or "").verdict
    assert (old.status, old.outcome) == ("stopped", "completed")


def test_two_processes_on_one_session_are_one_row(stage: ClaudeStage) -> None:
    first = stage.start()
    first.do("work")
    first.do("rest")
    second = stage.start(resume=first.session_id)
    second.do("work")
    row = stage.session(first.session_id or "")
    assert len(stage.survey(HistoryQuery()).sessions) == 1
    assert row.verdict.activity == "working"
    assert row.observation.owner is not None
    assert row.observation.owner.pid == second.pid
    assert f"pid {first.pid}" in _notes(row)
    first.do("ask")
    row = stage.session(first.session_id or "")
    assert (row.verdict.status, row.verdict.waiting_for) == ("waiting", "permission")


def test_a_session_without_a_record_is_bound_by_its_arguments(stage: ClaudeStage) -> None:
    puppet = stage.start(environ={"FAKE_SESSION": ID}, argv=("-p", "--session-id", ID))
    puppet.do("work")
    stage.record(puppet).unlink()
    row = _row(stage, puppet)
    assert (row.observation.session_id, row.verdict.activity) == (ID, "working")


def test_without_a_record_an_interactive_one_may_have_been_cleared(stage: ClaudeStage) -> None:
    puppet = stage.start(environ={"FAKE_SESSION": ID}, argv=("--session-id", ID))
    puppet.do("work")
    puppet.do("rest")
    stage.record(puppet).unlink()
    row = _row(stage, puppet)
    assert (row.observation.session_id, row.verdict.status, row.verdict.activity) == (
        ID,
        "running",
        "unknown",
    )
    assert "may have switched" in _notes(row)


def test_a_fork_is_not_its_origin(stage: ClaudeStage) -> None:
    puppet = stage.start(environ=BARE, argv=("--resume", ID, "--fork-session"))
    assert _row(stage, puppet).observation.session_id is None


def test_a_running_tool_names_its_session(stage: ClaudeStage) -> None:
    puppet = stage.start(environ={**BARE, "FAKE_SESSION": ID})
    puppet.do("spawn")
    assert _row(stage, puppet).observation.session_id == ID


def test_a_tool_in_a_container_names_its_agent_by_the_pid_it_has_there(stage: ClaudeStage) -> None:
    need_containers()
    program = [*UNSHARE, *stage.program("", None)]
    with patch.object(stage, "program", return_value=program):
        outer = stage.start(environ={**BARE, "FAKE_SESSION": ID})
    outer.do("spawn")
    [row] = stage.survey().sessions
    assert (
        row.observation.owner is not None and row.observation.owner.read_inner_pid(),
        row.observation.session_id,
    ) == (1, ID)


def test_a_tool_of_an_agent_in_a_container_below_is_not_its_own(stage: ClaudeStage) -> None:
    """That agent has inside the pid that this one has out here."""
    need_containers()
    puppet = stage.start(environ={**BARE, "FAKE_SESSION": ID})
    puppet.do(f"spawn {shlex.join(UNSHARE)}")
    assert _row(stage, puppet).observation.session_id is None


def test_a_child_session_without_files_is_listed(stage: ClaudeStage) -> None:
    puppet = stage.start(environ={**BARE, "CLAUDE_CODE_CHILD_SESSION": "1"})
    row = _row(stage, puppet)
    assert (row.observation.session_id, row.verdict.status, row.verdict.activity) == (
        None,
        "running",
        "unknown",
    )
    assert "CLAUDE_CODE_CHILD_SESSION" in _notes(row)
    assert stage.survey(HistoryQuery()).problems == []


# what it is doing


def test_a_background_shell_does_not_make_it_busy(stage: ClaudeStage) -> None:
    puppet = stage.start()
    puppet.do("work")
    puppet.do("shell")
    row = _row(stage, puppet)
    assert row.verdict.status == "idle"
    assert "background shell" in _notes(row)


def test_an_open_dialog_is_not_a_wait(stage: ClaudeStage) -> None:
    puppet = stage.start()
    puppet.do("dialog")
    row = _row(stage, puppet)
    assert row.verdict.status == "idle"
    assert "dialog open" in _notes(row)


def test_a_dialog_in_mid_turn_is_neither_idle_nor_work(stage: ClaudeStage) -> None:
    """One that opens by itself: nothing tells whether it holds up the turn."""
    puppet = stage.start()
    puppet.do("work")
    puppet.do("dialog")
    row = _row(stage, puppet)
    assert (row.verdict.status, row.verdict.activity) == ("running", "unknown")
    assert "nothing tells whether the dialog holds it up" in _notes(row)
    puppet.do("rest")
    puppet.do("dialog")
    assert _row(stage, puppet).verdict.status == "idle"


@pytest.mark.few(1)
@pytest.mark.parametrize("reason", ["sandbox request", "worker request", "goal proposal"])
def test_other_requests_are_permission_waits(stage: ClaudeStage, reason: str) -> None:
    """The first: a sandboxed command wants to reach the network."""
    puppet = stage.start()
    puppet.do("work")
    puppet.do("ask")
    _edit(stage.record(puppet), waitingFor=reason)
    verdict = _row(stage, puppet).verdict
    assert (verdict.status, verdict.waiting_for) == ("waiting", "permission")


@pytest.mark.parametrize(("step", "what"), [("ask", "permission"), ("question", "question")])
def test_what_it_waits_for(stage: ClaudeStage, step: str, what: str) -> None:
    puppet = stage.start()
    puppet.do("work")
    puppet.do(step)
    verdict = _row(stage, puppet).verdict
    assert (verdict.status, verdict.waiting_for) == ("waiting", what)


@pytest.mark.parametrize(("step", "status"), [("work", "running"), ("rest", "idle")])
def test_the_transcript_decides_when_the_status_word_is_unknown(
    stage: ClaudeStage, step: str, status: str
) -> None:
    puppet = stage.start()
    puppet.do("work")
    puppet.do(step)
    puppet.do("say parked")
    row = _row(stage, puppet)
    assert row.verdict.status == status
    assert row.verdict.used[1].authority == "journal"
    assert [e for e in row.verdict.overruled if "'parked'" in e.note and not e.trusted]
    drift = [p for p in stage.survey().problems if p.kind == "drift"]
    assert "claude-code 2.1.325 says status 'parked'" in drift[0].message


def test_an_unknown_reason_to_wait_is_drift(stage: ClaudeStage) -> None:
    puppet = stage.start()
    puppet.do("work")
    puppet.do("ask")
    _edit(stage.record(puppet), waitingFor="a miracle")
    verdict = _row(stage, puppet).verdict
    assert (verdict.status, verdict.activity) == ("running", "unknown"), "the transcript cannot tell"
    assert "drift" in _kinds(stage)


@pytest.mark.few(2)
@pytest.mark.parametrize("status", [[], {}, 7, True])
def test_a_status_that_is_no_word_is_drift(stage: ClaudeStage, status: object) -> None:
    puppet = stage.start()
    puppet.do("work")
    _edit(stage.record(puppet), status=status)
    assert _row(stage, puppet).verdict.activity == "working"
    assert _kinds(stage) == {"drift"}


def test_an_old_headless_version_never_has_a_status(stage: ClaudeStage) -> None:
    environ = {"FAKE_VERSION": "2.1.197", "FAKE_ENTRYPOINT": "sdk-cli"}
    puppet = stage.start(environ=environ, argv=("-p", "hello"))
    puppet.do("work")
    row = _row(stage, puppet)
    assert (row.observation.session_id, row.verdict.activity) == (puppet.session_id, "working")
    assert row.observation.facts.entry_point == "headless"
    puppet.do("rest")
    assert _row(stage, puppet).verdict.status == "idle"
    assert stage.survey(HistoryQuery()).problems == []


def test_a_turn_from_before_this_process_is_not_its_own(stage: ClaudeStage) -> None:
    environ = {"FAKE_VERSION": "2.1.197", "FAKE_ENTRYPOINT": "sdk-cli", "FAKE_SESSION": ID}
    puppet = stage.start(environ=environ, argv=("-p", "--resume", ID))
    old = {"type": "user", "message": {"content": "x"}, "timestamp": "2020-01-01T00:00:00Z", "cwd": "/"}
    path = stage.config / "projects" / "-elsewhere" / f"{ID}.jsonl"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(old) + "\n")
    row = _row(stage, puppet)
    assert (row.verdict.status, row.verdict.activity) == ("running", "unknown")
    assert "before this process started" in _notes(row)


def test_a_running_sub_agent_keeps_it_busy_and_is_no_session(stage: ClaudeStage) -> None:
    puppet = stage.start()
    puppet.do("work")
    puppet.do("delegate")
    assert _row(stage, puppet).verdict.activity == "working"
    assert [s.observation.session_id for s in stage.survey(HistoryQuery()).sessions] == [
        puppet.session_id
    ]
    puppet.do("say parked")  # the transcript says so too
    assert _row(stage, puppet).verdict.activity == "working"


def test_an_interrupted_turn(stage: ClaudeStage) -> None:
    puppet = stage.start()
    puppet.do("work")
    puppet.do("interrupt")
    assert _row(stage, puppet).verdict.status == "idle"
    puppet.finish()
    assert stage.session(puppet.session_id or "").verdict.outcome == "interrupted"


# background jobs


def _job(stage: ClaudeStage, session_id: str, **state: Any) -> None:
    path = stage.config / "jobs" / session_id[:8] / "state.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 1))
    record = {"sessionId": session_id, "resumeSessionId": session_id, "updatedAt": now, **state}
    path.write_text(json.dumps(record, indent=2))


def test_a_background_job(stage: ClaudeStage) -> None:
    puppet = stage.start(environ={"FAKE_KIND": "bg"})
    puppet.do("work")
    _job(stage, puppet.session_id or "", state="working", tempo="active")
    row = _row(stage, puppet)
    assert (row.verdict.activity, row.observation.facts.entry_point) == ("working", "background")


def test_a_crashed_job_is_stopped_until_its_supervisor_respawns_it(stage: ClaudeStage) -> None:
    puppet = stage.start(environ={"FAKE_KIND": "bg"})
    puppet.do("work")
    puppet.kill()
    session_id = puppet.session_id or ""
    _job(stage, session_id, state="crashed", detail="SIGKILL (137); respawning", tempo="idle")
    row = stage.session(session_id)
    assert (row.verdict.status, row.verdict.outcome, row.verdict.exit_code) == ("stopped", "killed", -9)
    assert "about to respawn" in _notes(row)
    again = stage.start(resume=session_id, environ={"FAKE_KIND": "bg"}, argv=("--bg-spare", "/x"))
    again.do("work")
    row = stage.session(session_id)
    assert row.verdict.status == "running"
    assert row.observation.owner is not None
    assert row.observation.owner.pid == again.pid


def test_a_respawned_job_is_bound_before_it_knows_its_own_id(stage: ClaudeStage) -> None:
    puppet = stage.start(environ={"FAKE_KIND": "bg"})
    puppet.do("work")
    puppet.kill()
    session_id = puppet.session_id or ""
    _job(stage, session_id, state="resuming", detail="")
    argv = ("--resume", f"/x/projects/-x/{session_id}.jsonl")
    bare = stage.start(environ={"FAKE_KIND": "bg", **BARE}, argv=argv)
    assert _row(stage, bare).observation.session_id == session_id
    bare.kill()
    again = stage.start(environ={"FAKE_KIND": "bg", "FAKE_START": "provisional"}, argv=argv)
    row = stage.session(session_id)
    assert (row.verdict.status, row.verdict.activity) == ("running", "unknown")
    assert row.observation.owner is not None
    assert row.observation.owner.pid == again.pid


@pytest.mark.parametrize(("last", "activity"), [("work", "unknown"), ("rest", "idle")])
def test_a_job_respawned_in_mid_turn_is_not_idle(stage: ClaudeStage, last: str, activity: str) -> None:
    """Its record says idle for a tenth of a second; then it goes on with the turn."""
    puppet = stage.start(environ={"FAKE_KIND": "bg"})
    puppet.do("work")
    puppet.do(last)
    puppet.kill()
    again = stage.start(resume=puppet.session_id, environ={"FAKE_KIND": "bg"})
    assert _row(stage, again).verdict.activity == activity
    again.do("work")
    assert _row(stage, again).verdict.activity == "working"
    again.do("rest")
    assert _row(stage, again).verdict.activity == "idle"


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("state", "problems"), [("done", set()), ("stopped", set()), ("working", set()), ("zzz", {"drift"})]
)
def test_the_state_of_an_ended_job_is_not_its_outcome(
    stage: ClaudeStage, state: str, problems: set[str]
) -> None:
    puppet = stage.start(environ={"FAKE_KIND": "bg"})
    puppet.do("work")
    puppet.do("rest")
    puppet.finish()
    _job(stage, puppet.session_id or "", state=state)
    verdict = stage.session(puppet.session_id or "").verdict
    assert (verdict.status, verdict.outcome, verdict.exit_code) == ("stopped", "completed", None)
    assert _kinds(stage) == problems


# where its files are, and what they say


def test_a_session_resumed_elsewhere_goes_on_in_its_first_transcript(stage: ClaudeStage) -> None:
    first = stage.start(prompt="the first one")
    first.do("work")
    first.do("rest")
    first.finish()
    there = stage.root / "elsewhere"
    again = stage.start(there, resume=first.session_id)
    row = _row(stage, again)
    assert row.observation.transcript == str(stage.transcript(first.session_id))
    assert row.observation.facts.prompt == "the first one"
    assert row.observation.facts.cwd == os.path.realpath(there)
    again.do("work")
    again.kill()
    assert stage.session(first.session_id or "").observation.facts.cwd == os.path.realpath(there)


def test_an_idle_session_before_its_first_prompt_has_only_a_record(stage: ClaudeStage) -> None:
    puppet = stage.start()
    row = _row(stage, puppet)
    assert (row.observation.session_id, row.verdict.status) == (puppet.session_id, "idle")
    assert row.observation.transcript is None
    assert row.observation.facts.started_at is not None
    assert stage.survey(HistoryQuery()).problems == []
    assert list(ClaudeCode().messages(row.observation, Look.take(stage.environ))) == []


def test_the_observed_process_has_its_own_config_directory(stage: ClaudeStage) -> None:
    config = stage.root / "other config"
    puppet = stage.start(environ={"CLAUDE_CONFIG_DIR": str(config)})
    puppet.do("work")
    row = _row(stage, puppet)
    assert (row.observation.session_id, row.verdict.activity) == (puppet.session_id, "working")
    puppet.do("rest")
    puppet.finish()
    assert stage.survey(HistoryQuery()).sessions == []  # no live process names that directory any more
    stage.environ["CLAUDE_CONFIG_DIR"] = str(config)
    assert stage.session(puppet.session_id or "").verdict.status == "stopped"


def test_a_branch_names_its_parent(stage: ClaudeStage) -> None:
    puppet = stage.start()
    puppet.do("work")
    puppet.do("rest")
    parent = puppet.session_id
    puppet.do("branch")
    row = _row(stage, puppet)
    assert (row.observation.facts.parent_id, row.observation.facts.title) == (parent, "side road")
    assert stage.session(parent or "").observation.facts.parent_id is None


def test_facts_of_an_ended_session(stage: ClaudeStage) -> None:
    puppet = stage.start(environ={"FAKE_ENTRYPOINT": "sdk-cli"}, argv=("-p", "x"))
    puppet.do("work")
    puppet.do("rest")
    puppet.finish()
    facts = stage.session(puppet.session_id or "").observation.facts
    assert (facts.model, facts.agent_version) == ("claude-opus-5-5", "2.1.325")
    assert facts.entry_point == "headless"
    assert (facts.tokens, facts.cost_usd) == (Tokens(11, 7, 2000, 100), 0.001)


def test_totals_that_a_later_reply_has_overtaken_are_not_totals(stage: ClaudeStage) -> None:
    first = stage.start()
    first.do("work")
    first.do("rest")
    first.finish()
    again = stage.start(resume=first.session_id)
    again.do("work")
    again.do("rest")
    facts = _row(stage, again).observation.facts
    assert (facts.tokens, facts.cost_usd) == (None, None)


def test_a_name_counts_only_if_a_person_gave_it(stage: ClaudeStage) -> None:
    puppet = stage.start()
    assert _row(stage, puppet).observation.facts.title is None
    _edit(stage.record(puppet), name="my work", nameSource="user")
    assert _row(stage, puppet).observation.facts.title == "my work"


def test_messages(stage: ClaudeStage) -> None:
    puppet = stage.start(prompt="paint")
    puppet.do("work")
    puppet.do("ask")
    puppet.do("interrupt")
    puppet.do("clear")
    row = stage.session(next(s for s in _ids(stage) if s != puppet.session_id))
    messages = list(ClaudeCode().messages(row.observation, Look.take(stage.environ)))
    assert [(m.role, m.tool, m.text) for m in reversed(messages)] == [
        ("user", None, "paint"),
        ("tool", "Bash", "touch x"),
        ("assistant", None, "hang"),
        ("system", None, "[Request interrupted by user]"),
    ]
    assert len({m.key for m in messages}) == len(messages)
    new = stage.session(puppet.session_id or "")
    assert list(ClaudeCode().messages(new.observation, Look.take(stage.environ))) == []


def _ids(stage: ClaudeStage) -> list[str]:
    return [
        s.observation.session_id
        for s in stage.survey(HistoryQuery()).sessions
        if s.observation.session_id
    ]


# native transcripts and records


def _look() -> Look:
    return Look({}, {}, time.time()).scope_to("claude-code")


@pytest.mark.parametrize(
    ("name", "claim", "detail"),
    [
        ("headless_api_error_529", "idle", "failed"),
        ("headless_max_tokens", "idle", "completed"),
        ("headless_max_turns", "idle", "failed"),
        ("headless_resumed_several_times_and_concurrently", "idle", "completed"),
        ("headless_sigint_in_tool", "idle", "interrupted"),
        ("headless_sigint_while_streaming", "idle", "interrupted"),
        ("headless_sigkill_in_tool", "working", ""),
        ("headless_sigterm_while_streaming", "working", ""),
        ("headless_thinking_text_parallel_tools", "idle", "completed"),
        ("tui_after_clear_rename_question_bgshell", "idle", "completed"),
        ("tui_branch_forkedFrom", "idle", "completed"),
        ("tui_permission_approved_rejected_interrupted", "idle", "interrupted"),
        ("tui_sigterm_while_waiting_permission", "working", ""),
        ("tui_subagent_and_compact", "idle", "completed"),
        ("v2.1.197_headless", "idle", "completed"),
    ],
)
def test_how_native_transcripts_end(name: str, claim: str, detail: str) -> None:
    look, path = _look(), str(CORPUS / "transcripts" / f"{name}.jsonl")
    for read in (read_live, read_ended):
        turn = read(path, look).turn
        assert turn is not None
        assert (turn.claim, turn.detail) == (claim, detail)
    assert look.problems == []


def _prefixes(name: str) -> Iterator[tuple[dict[str, Any], bytes]]:
    """(the last line, the file up to it), for every line."""
    lines = (CORPUS / "transcripts" / f"{name}.jsonl").read_bytes().splitlines(keepends=True)
    for count in range(1, len(lines) + 1):
        yield json.loads(lines[count - 1]), b"".join(lines[:count])


def test_a_native_transcript_read_at_every_moment(tmp_path: Path) -> None:
    """Pending sub-agents keep the turn open; what follows an end without a new turn does not."""
    path, claims = tmp_path / "x.jsonl", []
    for last, text in _prefixes("tui_subagent_and_compact"):
        path.write_bytes(text)
        turn = read_live(str(path), _look()).turn
        if last.get("subtype") == "turn_duration":
            assert turn is not None
            claims.append((last.get("pendingBackgroundAgentCount", 0), turn.claim))
    assert claims == [(0, "idle"), (1, "working"), (0, "idle"), (0, "idle")]


def test_a_turn_is_open_between_max_tokens_and_its_end(tmp_path: Path) -> None:
    path, claims = tmp_path / "x.jsonl", []
    for last, text in _prefixes("headless_max_tokens"):
        path.write_bytes(text)
        turn = read_live(str(path), _look()).turn
        if last["type"] in ("assistant", "user"):
            claims.append(turn and turn.claim)
    assert claims == ["working", "working", "working", "idle"]


def test_facts_of_native_transcripts() -> None:
    look, corpus = _look(), str(CORPUS / "transcripts")
    cleared = read_live(f"{corpus}/tui_after_clear_rename_question_bgshell.jsonl", look)
    assert (cleared.title, cleared.prompt, cleared.entry_point) == (
        "lab-name",
        "after clear",
        "interactive",
    )
    branch = read_live(f"{corpus}/tui_branch_forkedFrom.jsonl", look)
    assert branch.parent_id == "9a94735c-c04c-4ef3-9d68-1d84162a5a55"
    old = read_live(f"{corpus}/v2.1.197_headless.jsonl", look)
    assert (old.model, old.agent_version, old.cost_usd) == ("claude-opus-4-8", "2.1.197", None)
    assert old.tokens is not None  # the whole file was read: a sum is a total
    parallel = read_live(f"{corpus}/headless_thinking_text_parallel_tools.jsonl", look)
    assert parallel.tokens == Tokens(22, 14, 4000, 200)
    failed = read_live(f"{corpus}/headless_api_error_529.jsonl", look)
    assert (failed.model, failed.prompt) == (None, "[[error=529]]")
    assert look.problems == []


@pytest.mark.parametrize(
    ("name", "claim", "detail"),
    [
        ("bg_busy", "working", ""),
        ("headless_busy", "working", ""),
        ("stale_after_sigkill_tui_idle", "idle", ""),
        ("tui_shell", "idle", ""),
        ("tui_waiting_dialog", "idle", ""),
        ("tui_waiting_permission", "waiting", "permission"),
        ("tui_waiting_question", "waiting", "question"),
    ],
)
def test_what_native_records_say(name: str, claim: str, detail: str) -> None:
    look, path = _look(), str(CORPUS / "records" / f"{name}.json")
    status = pid_record.read_status(pid_record.load(path), path, look)
    assert isinstance(status, Evidence)
    assert (status.claim, status.detail, status.authority, status.trusted) == (
        claim,
        detail,
        "record",
        True,
    )
    assert status.at is not None
    assert look.problems == []


def test_a_native_record_without_status_says_nothing() -> None:
    path = str(CORPUS / "records" / "v2.1.197_headless_never_has_status.json")
    assert pid_record.read_status(pid_record.load(path), path, _look()) is None


# odd transcripts


def _line(kind: str, at: int, **more: Any) -> str:
    stamp = f"2026-11-15T05:00:{at:02d}.000Z"
    record = {"parentUuid": None, "type": kind, **more, "timestamp": stamp, "cwd": "/w"}
    return json.dumps(record, separators=(",", ":")) + "\n"


def _reply(at: int, reason: str | None, **more: Any) -> str:
    message: dict[str, Any] = {"role": "assistant", "model": "m", "content": [], "stop_reason": reason}
    return _line("assistant", at, message=message, **more)


def _prompt(at: int, text: str = "hello") -> str:
    return _line("user", at, message={"role": "user", "content": text})


def test_lines_of_one_flush_stand_in_any_order(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text(_prompt(1) + _reply(3, "end_turn") + _prompt(2))
    turn = read_live(str(path), _look()).turn
    assert turn is not None
    assert turn.claim == "idle"


def test_the_last_line_counts_after_the_clock_was_set_back(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text(_prompt(30) + _line("api-request", 31, querySource="sdk") + _reply(2, "end_turn"))
    facts = read_live(str(path), _look())
    assert facts.turn is not None
    assert (facts.turn.claim, facts.turn.detail) == ("idle", "completed")
    assert facts.last_activity_at == facts.turn.at


def test_an_unknown_stop_reason_is_drift_and_no_guess(tmp_path: Path) -> None:
    path, look = tmp_path / "x.jsonl", _look()
    path.write_text(_prompt(1) + _reply(3, "tired"))
    assert read_live(str(path), look).turn is None
    assert [p.kind for p in look.problems] == ["drift"]


def test_a_turn_left_open_and_closed_by_a_resume_was_interrupted(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    message: dict[str, Any] = {
        "model": "<synthetic>",
        "content": [],
        "stop_reason": "stop_sequence",
    }
    path.write_text(_prompt(1) + _line("assistant", 9, message=message))
    turn = read_live(str(path), _look()).turn
    assert turn is not None
    assert (turn.claim, turn.detail) == ("idle", "interrupted")


def test_bookkeeping_longer_than_the_window_hides_nothing(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    snapshot = {"type": "prompt_snapshot", "text": "y" * 70_000}
    filler = _line("x", 4, attachment=snapshot).replace('"type":"x",', "")
    over = _line("system", 5, subtype="turn_duration")
    path.write_text(_prompt(1, "p" * 50_000) + _reply(3, "end_turn") + filler + over)
    for read in (read_live, read_ended):
        facts = read(str(path), _look())
        assert facts.turn is not None
        assert (facts.turn.claim, facts.turn.detail, facts.model) == ("idle", "completed", "m")
        assert facts.prompt == "p" * 1000


def test_a_request_noted_long_after_its_reply_opens_no_turn(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    blob = json.dumps({"type": "api-request-blob", "message": "y" * 70_000}) + "\n"
    noted = {"type": "api-request", "timestamp": "2026-11-15T05:00:02.900Z", "querySource": "sdk"}
    request = json.dumps(noted, separators=(",", ":")) + "\n"
    over = _line("system", 3, subtype="turn_duration")
    path.write_text(_prompt(1) + _reply(3, "end_turn") + over + blob + request)
    for read in (read_live, read_ended):
        turn = read(str(path), _look()).turn
        assert turn is not None
        assert (turn.claim, turn.detail) == ("idle", "completed")


@pytest.mark.parametrize("content", [None, 7, [7, None], {"a": 1}, [{"type": "text"}], [{}]])
def test_any_shape_of_content_is_read(tmp_path: Path, content: object) -> None:
    path, look = tmp_path / "x.jsonl", _look()
    path.write_text(
        _line("user", 1, message={"content": content}) + _line("assistant", 2, message=content)
    )
    read_live(str(path), look)
    assert {p.kind for p in look.problems} <= {"drift"}


def test_project_directories_are_named_after_the_path() -> None:
    assert slug("/home/user/my_proj.x") == "-home-user-my-proj-x"
    assert slug("/w/😀é") == "-w----"  # one dash per UTF-16 unit
    long = slug("/" + "a" * 300)
    assert long[:201] == "-" + "a" * 199 + "-"
    assert long[201:].isalnum()


# versions on Node


NODE = {"FAKE_ARGV": "claude", "FAKE_COMM": "claude"}


@pytest.fixture
def node(tmp_path: Path) -> Iterator[ClaudeStage]:
    stage = ClaudeStage(tmp_path)
    stage.alias = "node"
    yield stage
    stage.close()


def test_a_guess_does_not_hide_a_process_whose_neighbour_is_proven(node: ClaudeStage) -> None:
    """Both are in one directory; only one has a record, and only that one has written."""
    proven = node.start(environ=NODE)
    proven.do("work")
    silent = node.start(environ={**NODE, **BARE})
    rows = {
        s.observation.owner.pid: s for s in node.survey().sessions if s.observation.owner is not None
    }
    assert set(rows) == {proven.pid, silent.pid}
    assert rows[proven.pid].observation.session_id == proven.session_id
    assert rows[silent.pid].observation.session_id is None


def test_a_launched_session_that_ended_is_bound_to_no_other_process(node: ClaudeStage) -> None:
    """The shim recorded its end. A process without a record in the same directory did not write it."""
    silent = node.start(environ={**NODE, **BARE})
    writer = node.start(environ=NODE)
    writer.do("work")
    writer.do("rest")
    session_id = writer.session_id
    assert session_id is not None
    writer.finish()
    written_at = node.transcript(session_id).stat().st_mtime
    look = Look.take(node.environ).scope_to("claude-code")
    note = Launch("1a", writer.identity, session_id, adapter="claude-code")
    look.own_processes = tuple(p for p in look.table.values() if p.pid == silent.pid)
    for at, owners in ((written_at + 0.01, []), (written_at - 1, [silent.pid])):
        look.notes = {writer.identity: note._replace(exit=Exit(0, at, "/exit"))}
        rows = [row for row in ClaudeCode().live(look) if row.session_id == session_id]
        assert [row.owner.pid for row in rows if row.owner is not None] == owners


def test_a_native_binary_is_claude_in_an_editors_terminal(stage: ClaudeStage) -> None:
    """The terminal passes on the variable that makes the editor's own binary Node."""
    puppet = stage.start(environ={"ELECTRON_RUN_AS_NODE": "1", **BARE})
    assert stage.find_row(puppet) is not None


def test_a_record_without_a_start_that_names_a_live_process_ends_nothing(
    stage: ClaudeStage,
) -> None:
    """The process is not recognised as Claude, but its number, its directory and the times fit."""
    stage.alias = "strange"
    puppet = stage.start()
    puppet.do("work")
    puppet.do("rest")
    record = json.loads(stage.record(puppet).read_text())
    del record["procStart"]
    stage.record(puppet).write_text(json.dumps(record))
    (row,) = [
        s for s in stage.survey(HistoryQuery()).sessions if s.observation.session_id == puppet.session_id
    ]
    assert row.verdict.status == "unknown"
    assert f"names pid {puppet.pid}" in row.verdict.reason
    puppet.kill()
    (row,) = [
        s for s in stage.survey(HistoryQuery()).sessions if s.observation.session_id == puppet.session_id
    ]
    assert row.verdict.status == "stopped"


@pytest.mark.parametrize(
    ("argv", "prompted"),
    [
        (("claude", "-p", "fix it"), True),
        (("claude", "--print", "fix it"), True),
        (("claude", "-p", "fix it", "--input-format=text"), True),
        (("claude", "-p", "--input-format", "text"), True),
        (("claude", "-p", "text", "--input-format", "stream-json"), False),
        (("claude", "-p", "--input-format=stream-json"), False),
        (("claude", "fix it"), False),
    ],
)
def test_is_prompted(argv: tuple[str, ...], prompted: bool) -> None:
    assert is_prompted(argv) == prompted
