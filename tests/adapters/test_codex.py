"""The Codex adapter: the contract, the cases peculiar to Codex, and its native files."""

import os
import shutil
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentctl.adapters.codex import rollout
from agentctl.adapters.codex.adapter import Codex
from agentctl.adapters.codex.argv import parse_invocation
from agentctl.system.proc import Process, read_boot_id, read_process
from agentctl.testing import AdapterContract, Puppet
from agentctl.truth.judge import judge
from agentctl.truth.look import Look
from agentctl.truth.model import Observation, Session, Tokens
from agentctl.truth.survey import HistoryQuery
from tests.fakes.codex import CodexStage, called, new_id
from tests.waiting import until

CORPUS = Path(__file__).parent.parent / "corpus" / "codex"
DAEMON = called("app-server", "--listen", "unix://", "--managed-daemon", bare=True)
PLAIN_TUI = called("-m", "gpt-lab", bare=True)


STAGE = CodexStage


class TestCodex(AdapterContract):
    @pytest.fixture
    def stage(self, tmp_path: Path) -> Iterator[CodexStage]:
        stage = CodexStage(tmp_path)
        yield stage
        stage.close()


def start_agent(stage: CodexStage, *steps: str, **options: object) -> tuple[Puppet, str]:
    puppet = stage.start(**options)  # type: ignore[arg-type]
    for step in steps:
        puppet.do(step)
    assert puppet.session_id is not None
    return puppet, puppet.session_id


def activity_of(session: Session) -> tuple[str, str]:
    return session.verdict.status, session.verdict.activity


def rows(stage: CodexStage) -> dict[str | None, Session]:
    return {session.observation.session_id: session for session in stage.survey().sessions}


class TestBinding:
    def test_the_lock_held_open_binds(self, stage: CodexStage) -> None:
        puppet, session_id = start_agent(stage, "work")
        row = stage.session(session_id)
        assert row.observation.owner is not None
        assert row.observation.owner.pid == puppet.pid
        assert str(stage.lock(session_id)) in row.observation.evidence[0].note

    def test_a_lock_file_without_a_holder_proves_nothing(self, stage: CodexStage) -> None:
        puppet, session_id = start_agent(stage, "work", "rest")
        puppet.kill()
        assert stage.lock(session_id).exists()
        start_agent(stage, "work")  # another one lives
        verdict = stage.session(session_id).verdict
        assert (verdict.status, verdict.outcome) == ("stopped", "completed")

    def test_before_there_were_locks_the_rollout_held_open_binds(self, stage: CodexStage) -> None:
        puppet, session_id = start_agent(stage, "work", environ={"PUPPET_NO_LOCK": "1"})
        assert not stage.lock(session_id).exists()
        row = stage.session(session_id)
        assert activity_of(row) == ("running", "working")
        assert row.observation.owner is not None
        assert row.observation.owner.pid == puppet.pid

    def test_resume_in_argv_binds_weakly(self, stage: CodexStage) -> None:
        first, session_id = start_agent(stage, "work", "rest")
        first.finish()
        call = called("exec", "-m", "gpt-lab", "resume", session_id, "go on", bare=True)
        puppet = stage.start(environ=call)
        row = stage.find_row(puppet)
        assert row is not None
        assert row.observation.session_id == session_id
        assert "bound by argument" in row.observation.evidence[0].note

    def test_argv_never_says_working(self, stage: CodexStage) -> None:
        first, session_id = start_agent(stage, "work")
        first.kill()
        puppet = stage.start(environ=called("--no-daemon", "resume", session_id, bare=True))
        row = stage.find_row(puppet)
        assert row is not None
        assert activity_of(row) == ("running", "unknown")

    def test_a_held_lock_beats_argv(self, stage: CodexStage) -> None:
        holder, session_id = start_agent(stage, "work")
        stage.start(environ=called("exec", "resume", session_id, bare=True))
        owner = stage.session(session_id).observation.owner
        assert owner is not None
        assert owner.pid == holder.pid

    def test_fork_in_argv_names_the_parent_and_binds_nothing(self, stage: CodexStage) -> None:
        first, parent = start_agent(stage, "work", "rest")
        first.finish()
        puppet = stage.start(environ=called("--no-daemon", "fork", parent, bare=True))
        row = stage.find_row(puppet)
        assert row is not None
        assert row.observation.session_id is None

    def test_a_child_that_still_holds_the_descriptors_is_not_the_owner(self, stage: CodexStage) -> None:
        puppet, session_id = start_agent(stage, "work", "twin")
        sessions = stage.survey().sessions
        assert [s.observation.session_id for s in sessions] == [session_id]
        assert sessions[0].observation.owner is not None
        assert sessions[0].observation.owner.pid == puppet.pid

    def test_the_ancestor_of_two_lock_holders_is_the_owner(self, stage: CodexStage) -> None:
        puppet, session_id = start_agent(stage, "work", "twin exec other")
        row = stage.session(session_id)
        assert row.observation.owner is not None
        assert row.observation.owner.pid == puppet.pid

    def test_a_reader_of_a_locked_threads_rollout_is_not_its_owner(self, stage: CodexStage) -> None:
        reader = stage.start(environ=called("--no-daemon", "resume", bare=True))
        holder, session_id = start_agent(stage, "work")
        reader.do(f"read {stage.rollout(session_id)}")
        row = stage.session(session_id)
        assert row.observation.owner is not None
        assert row.observation.owner.pid == holder.pid

    def test_a_new_thread_in_one_process_gives_two_sessions(self, stage: CodexStage) -> None:
        puppet, first = start_agent(stage, "work", "rest")
        puppet.do("load")
        puppet.do("work")
        sessions = rows(stage)
        assert set(sessions) == {first, puppet.session_id}
        assert activity_of(sessions[first]) == ("idle", "idle")
        assert activity_of(sessions[puppet.session_id]) == ("running", "working")

    def test_codex_home_of_the_observed_process(self, stage: CodexStage) -> None:
        elsewhere = stage.root / "elsewhere"
        puppet = stage.start(environ={"CODEX_HOME": str(elsewhere)})
        puppet.do("work")
        row = stage.session(puppet.session_id or "")
        assert row.observation.transcript is not None
        assert row.observation.transcript.startswith(str(elsewhere))
        assert row.verdict.status == "running"

    def test_codex_home_of_our_own_environment(self, stage: CodexStage) -> None:
        elsewhere = str(stage.root / "elsewhere")
        puppet = stage.start(environ={"CODEX_HOME": elsewhere})
        puppet.do("work")
        puppet.do("rest")
        puppet.finish()
        assert stage.survey(HistoryQuery()).sessions == []
        stage.environ["CODEX_HOME"] = elsewhere
        assert stage.session(puppet.session_id or "").verdict.outcome == "completed"


class TestActivity:
    def test_an_open_turn_older_than_the_lock_is_idle(self, stage: CodexStage) -> None:
        first, session_id = start_agent(stage, "work")
        first.kill()
        again = stage.start(resume=session_id)
        row = stage.session(session_id)
        assert row.observation.owner is not None
        assert row.observation.owner.pid == again.pid
        assert activity_of(row) == ("idle", "idle")
        assert [e.claim for e in row.verdict.overruled] == ["working"]
        again.do("work")
        assert activity_of(stage.session(session_id)) == ("running", "working")

    def test_an_old_question_is_not_asked_any_more(self, stage: CodexStage) -> None:
        first, session_id = start_agent(stage, "work", "question")
        first.kill()
        stage.start(resume=session_id)
        assert stage.session(session_id).verdict.status == "idle"

    def test_a_lock_of_the_future_is_compared_with_nothing(self, stage: CodexStage) -> None:
        """The clock was set back since it was taken: a turn begun after that seems to be older."""
        _, session_id = start_agent(stage, "work")
        later = time.time() + 3600
        os.utime(stage.lock(session_id), (later, later))
        verdict = stage.session(session_id).verdict
        assert (verdict.status, verdict.activity) == ("running", "unknown")
        assert [e.claim for e in verdict.overruled] == ["working"]

    def test_a_lock_without_a_rollout_is_idle_never_prompted(self, stage: CodexStage) -> None:
        _, session_id = start_agent(stage)
        row = rows(stage)[session_id]
        assert activity_of(row) == ("idle", "idle")
        assert "never prompted" in {e.note for e in row.verdict.used}

    def test_an_exec_that_has_not_written_yet_is_not_called_idle(self, stage: CodexStage) -> None:
        _, session_id = start_agent(stage, environ=called("exec", "go"))
        assert activity_of(rows(stage)[session_id]) == ("running", "unknown")

    def test_an_exec_whose_turn_was_short_is_idle_after_it(self, stage: CodexStage) -> None:
        """The lock's time is exact, so a turn that ended 5 ms after it is the exec's own."""
        _, session_id = start_agent(stage, "work", "rest", environ=called("exec", "go"))
        lock, long_ago = stage.lock(session_id), time.time() - 3600
        os.utime(lock, (long_ago, long_ago))
        ended_at = stage.session(session_id).verdict.used[-1].at
        assert ended_at is not None
        for seconds, status in ((0.005, "idle"), (-0.005, "running")):
            taken_at = ended_at - seconds
            os.utime(lock, (taken_at, taken_at))
            assert stage.session(session_id).verdict.status == status

    def test_approval_is_derived_and_ends_when_the_command_runs(self, stage: CodexStage) -> None:
        puppet, session_id = start_agent(stage, "work", "ask")
        verdict = stage.wait_for_question(session_id).verdict
        assert (verdict.status, verdict.waiting_for) == ("waiting", "permission")
        assert [e.authority for e in verdict.used if e.claim == "waiting"] == ["derived"]
        puppet.do("approve")
        assert activity_of(stage.session(session_id)) == ("running", "working")
        puppet.do("output")
        assert activity_of(stage.session(session_id)) == ("running", "working")

    def test_an_answered_escalation_is_not_waiting(self, stage: CodexStage) -> None:
        _, session_id = start_agent(stage, "work", "ask", "output")
        assert activity_of(stage.session(session_id)) == ("running", "working")

    def test_one_waiting_command_of_two_is_a_wait(self, stage: CodexStage) -> None:
        """Both are asked for at once; the older may be left when the newer runs."""
        _, session_id = start_agent(stage, "work", "ask", "ask", "approve")
        assert activity_of(stage.wait_for_question(session_id)) == ("waiting", "waiting")

    def test_a_command_that_a_rule_may_allow_is_no_wait(self, stage: CodexStage) -> None:
        """It begins without a question, some 50 ms after the call."""
        _, session_id = start_agent(stage, "work", "ask")  # make install
        rules = stage.codex_home / "rules"
        rules.mkdir()
        (rules / "default.rules").write_text('prefix_rule(pattern=["git", "pull"], decision="allow")\n')
        assert activity_of(stage.wait_for_question(session_id)) == ("waiting", "waiting")
        (rules / "mine.rules").write_text('prefix_rule(pattern=["make"], decision="allow")\n')
        assert activity_of(stage.session(session_id)) == ("running", "unknown")

    def test_a_command_without_its_marker_is_no_wait(self, stage: CodexStage) -> None:
        puppet, session_id = start_agent(stage, "work", "ask")
        puppet.do("approve bare")
        assert activity_of(stage.session(session_id)) == ("running", "unknown")

    def test_a_sandboxed_command_may_wait_for_permission(self, stage: CodexStage) -> None:
        puppet, session_id = start_agent(stage, "work", "command")
        verdict = stage.session(session_id).verdict
        assert (verdict.status, verdict.activity) == ("running", "unknown")
        assert "ask for permission: rm -rf build" in verdict.overruled[0].note
        puppet.do("approve")
        assert activity_of(stage.session(session_id)) == ("running", "working")

    @pytest.mark.parametrize("step", ["ask", "command"])
    def test_a_review_by_a_model_is_no_wait(self, stage: CodexStage, step: str) -> None:
        """codex --approve-for-me"""
        _, session_id = start_agent(stage, "work", step, environ={"PUPPET_REVIEWER": "auto_review"})
        assert activity_of(stage.session(session_id)) == ("running", "working")

    @pytest.mark.few(1)
    @pytest.mark.parametrize("step", ["ask", "question", "mcp"])
    def test_an_exec_never_waits_for_a_person(self, stage: CodexStage, step: str) -> None:
        _, session_id = start_agent(stage, "work", step, environ=called("exec", "go"))
        assert activity_of(stage.session(session_id)) == ("running", "working")

    def test_a_tool_of_an_mcp_server_may_wait_for_permission(self, stage: CodexStage) -> None:
        """Codex asks before it runs, the server may ask while it runs, and nothing is written of either;
        a command that runs beside it changes nothing."""
        puppet, session_id = start_agent(stage, "work", "mcp")
        verdict = stage.session(session_id).verdict
        assert (verdict.status, verdict.activity) == ("running", "unknown")
        assert "ask for permission: mcp__lab.paint" in verdict.overruled[0].note
        puppet.do("command")
        puppet.do("approve")
        assert activity_of(stage.session(session_id)) == ("running", "unknown")

    def test_a_built_in_tool_needs_no_permission(self, stage: CodexStage) -> None:
        _, session_id = start_agent(stage, "work", "plan")
        assert activity_of(stage.session(session_id)) == ("running", "working")

    @pytest.mark.parametrize("step", ["work", "rest"])
    def test_a_line_that_stays_torn_leaves_it_unknown(self, stage: CodexStage, step: str) -> None:
        _, session_id = start_agent(stage, "work", step)
        (path,) = stage.codex_home.glob("sessions/*/*/*/*.jsonl")
        with path.open("ab") as file:
            file.write(b'{"timestamp":"2026-11')
        assert activity_of(stage.session(session_id)) == ("running", "unknown")
        os.utime(path, (0, time.time() - 60))
        assert "its last line is not complete" in {p.message for p in stage.survey().problems}

    def test_one_whose_rollout_was_emptied_is_not_called_idle(self, stage: CodexStage) -> None:
        _, session_id = start_agent(stage, "work")
        (path,) = stage.codex_home.glob("sessions/*/*/*/*.jsonl")
        os.truncate(path, 0)
        assert activity_of(rows(stage)[session_id]) == ("running", "unknown")

    def test_request_user_input_is_a_question(self, stage: CodexStage) -> None:
        puppet, session_id = start_agent(stage, "work", "question")
        verdict = stage.wait_for_question(session_id).verdict
        assert (verdict.status, verdict.waiting_for) == ("waiting", "question")
        puppet.do("output")
        assert activity_of(stage.session(session_id)) == ("running", "working")

    def test_a_failed_turn_of_a_live_one_is_idle(self, stage: CodexStage) -> None:
        _, session_id = start_agent(stage, "work", "fail")
        row = stage.session(session_id)
        assert row.verdict.status == "idle"
        assert row.observation.facts.turn is not None
        assert (row.observation.facts.turn.detail, "high demand" in row.observation.facts.turn.note) == (
            "failed",
            True,
        )

    def test_an_aborted_turn_is_interrupted(self, stage: CodexStage) -> None:
        puppet, session_id = start_agent(stage, "work", "abort")
        assert stage.session(session_id).verdict.status == "idle"
        puppet.kill()
        assert stage.session(session_id).verdict.outcome == "interrupted"

    def test_a_background_terminal_does_not_reopen_the_turn(self, stage: CodexStage) -> None:
        _, session_id = start_agent(stage, "work", "rest", "background")
        assert stage.session(session_id).verdict.status == "idle"

    def test_a_turn_that_began_beyond_the_tail_is_open(self, stage: CodexStage) -> None:
        puppet, session_id = start_agent(stage, "work", "chatter 100")
        assert stage.rollout(session_id).stat().st_size > 100_000
        row = stage.session(session_id)
        assert activity_of(row) == ("running", "working")
        assert row.observation.facts.model == "gpt-lab"  # of this very turn, from the head
        puppet.kill()
        assert stage.session(session_id).verdict.outcome == "killed"

    def test_an_unknown_turn_event_is_drift(self, stage: CodexStage) -> None:
        start_agent(stage, "work", "novelty")
        result = stage.survey()
        assert [activity_of(s) for s in result.sessions] == [("running", "unknown")]
        assert [(p.kind, "turn_paused" in p.message) for p in result.problems] == [("drift", True)]


class TestDaemon:
    def test_it_owns_every_thread_it_has_loaded(self, stage: CodexStage) -> None:
        daemon = stage.start(environ=DAEMON)
        daemon.do("load")
        daemon.do("work")
        first = daemon.session_id
        daemon.do("load")
        second = daemon.session_id
        sessions = rows(stage)
        assert {s.observation.owner.pid for s in sessions.values() if s.observation.owner} == {
            daemon.pid
        }
        assert (activity_of(sessions[first]), activity_of(sessions[second])) == (
            ("running", "working"),
            ("idle", "idle"),
        )
        assert {s.observation.facts.entry_point for s in sessions.values()} == {"daemon"}

    def test_a_plain_tui_is_only_its_client(self, stage: CodexStage) -> None:
        daemon = stage.start(environ=DAEMON)
        daemon.do("load")
        stage.start(environ=PLAIN_TUI)
        assert set(rows(stage)) == {daemon.session_id}

    def test_the_owner_of_a_resumed_thread_is_the_daemon_once_it_has_loaded_it(
        self, stage: CodexStage
    ) -> None:
        """The daemon that the client starts reads the thread first, and takes it 30 ms later."""
        puppet, session_id = start_agent(stage, "work", "rest")
        puppet.kill()
        client = stage.start(environ=called("resume", session_id, bare=True))
        daemon = stage.start(environ=DAEMON)
        for step in ("databases", f"read {stage.rollout(session_id)}"):
            daemon.do(step)
            row = stage.session(session_id)
            assert row.observation.owner is not None, step
            assert row.observation.owner.pid == client.pid, step
        daemon.do(f"load {session_id}")
        row = stage.session(session_id)
        assert row.observation.owner is not None
        assert row.observation.owner.pid == daemon.pid

    def test_it_does_not_own_a_thread_that_it_only_reads(self, stage: CodexStage) -> None:
        puppet, session_id = start_agent(stage, "work", "rest")
        puppet.kill()
        daemon = stage.start(environ=DAEMON)
        daemon.do(f"read {stage.rollout(session_id)}")
        assert stage.survey().sessions == []
        assert stage.session(session_id).verdict.status == "stopped"

    def test_a_daemon_of_another_home_has_no_clients_here(self, stage: CodexStage) -> None:
        stage.start(environ={**DAEMON, "CODEX_HOME": str(stage.root / "elsewhere")})
        tui = stage.start(environ=PLAIN_TUI)
        assert stage.find_row(tui) is not None

    def test_an_embedded_tui_is_no_client(self, stage: CodexStage) -> None:
        stage.start(environ=DAEMON)
        tui = stage.start(environ=called("-c", "model=x", bare=True))
        assert stage.find_row(tui) is not None

    def test_with_no_thread_it_is_set_aside(self, stage: CodexStage) -> None:
        stage.start(environ=DAEMON)
        assert stage.survey().sessions == []

    @pytest.mark.few(1)
    @pytest.mark.parametrize("flag", ["--version", "-V", "--help"])
    def test_one_that_only_says_its_version_is_no_session(self, stage: CodexStage, flag: str) -> None:
        stage.start(environ=called(flag, bare=True))
        assert stage.survey().sessions == []

    def test_an_agent_server_of_an_editor_owns_its_threads(self, stage: CodexStage) -> None:
        stage.alias = "codex-acp"
        puppet = stage.start(environ=called("--session", "x"))
        puppet.do("work")
        row = stage.find_row(puppet)
        assert row is not None
        assert (row.observation.session_id, row.observation.facts.entry_point) == (
            puppet.session_id,
            "daemon",
        )

    def test_without_a_daemon_a_tui_with_no_lock_is_starting_up(self, stage: CodexStage) -> None:
        row = stage.find_row(stage.start(environ=PLAIN_TUI))
        assert row is not None
        assert row.observation.session_id is None
        assert activity_of(row) == ("running", "unknown")

    def test_an_editors_server_on_stdio_serves_no_tui(self, stage: CodexStage) -> None:
        stage.start(environ=called("app-server", bare=True))
        assert stage.find_row(stage.start(environ=PLAIN_TUI)) is not None


class TestFamilies:
    def test_a_subagent_is_a_session_of_the_same_process(self, stage: CodexStage) -> None:
        puppet, parent = start_agent(stage, "work")
        puppet.do("subagent")
        puppet.do("work")
        child = stage.session(puppet.session_id or "")
        assert child.observation.session_id != parent
        assert child.observation.facts.parent_id == parent
        assert child.observation.owner is not None
        assert child.observation.owner.pid == puppet.pid
        assert stage.session(parent).observation.facts.parent_id is None

    def test_a_fork_names_its_parent(self, stage: CodexStage) -> None:
        puppet, parent = start_agent(stage, "work", "rest")
        puppet.do("forked")
        puppet.do("work")
        assert stage.session(puppet.session_id or "").observation.facts.parent_id == parent


class TestLingeringExec:
    def test_a_finished_exec_is_inferred_to_be_idle(self, stage: CodexStage) -> None:
        puppet, session_id = start_agent(stage, "work", "rest", "release", environ=called("exec", "go"))
        row = stage.session(session_id)
        assert row.verdict.status == "idle"
        assert row.observation.owner is not None
        assert "inferred" in row.observation.evidence[0].note
        puppet.kill()
        assert stage.session(session_id).verdict.outcome == "completed"

    def test_two_of_them_in_one_directory_are_unknown(self, stage: CodexStage) -> None:
        call = called("exec", "go")
        one, first = start_agent(stage, "work", environ=call)
        two, second = start_agent(stage, "work", environ=call)
        for puppet in (one, two):
            puppet.do("rest")
            puppet.do("release")
        assert stage.session(first).verdict.status == "unknown"
        assert stage.session(second).verdict.status == "unknown"

    def test_one_that_waits_for_its_input_owns_no_thread(self, stage: CodexStage) -> None:
        waiting = stage.start(environ=called("exec", "-", bare=True))
        waiting.do("databases")
        other, session_id = start_agent(stage, "work", "rest", environ=called("exec", "go"))
        other.finish()
        verdict = stage.session(session_id).verdict
        assert (verdict.status, verdict.outcome) == ("stopped", "completed")
        row = stage.find_row(waiting)
        assert row is not None
        assert row.observation.session_id is None

    def test_one_with_nothing_open_is_ending_and_may_be_the_owner(self, stage: CodexStage) -> None:
        """The kernel closes what a killed process has open some milliseconds before it is gone."""
        program = "import os, time; os.closerange(0, 1024); time.sleep(600)"
        ending = subprocess.Popen(
            [stage.rename_interpreter("vendor", "bin", "codex"), "-c", program],
            env={**stage.environ, "PYTHONHOME": sys.base_prefix},
        )
        try:
            until(lambda: not os.listdir(f"/proc/{ending.pid}/fd"), "it has nothing open")
            puppet, session_id = start_agent(stage, "work")
            puppet.kill()
            assert stage.session(session_id).verdict.status == "unknown"
        finally:
            ending.kill()
            ending.wait()
        assert stage.session(session_id).verdict.outcome == "killed"


class TestHistory:
    def test_a_killed_one_beside_a_tui_at_start_up_is_still_killed(self, stage: CodexStage) -> None:
        stage.start(environ=called("--no-daemon", bare=True))
        puppet, session_id = start_agent(stage, "work")
        puppet.kill()
        verdict = stage.session(session_id).verdict
        assert (verdict.status, verdict.outcome) == ("stopped", "killed")

    def test_a_thread_taken_during_the_look_is_not_called_stopped(self, stage: CodexStage) -> None:
        puppet = stage.start(environ=called("--no-daemon", bare=True))
        look = Look.take(stage.environ).scope_to("codex")
        look.own_processes = look.unbound_processes = (look.table[puppet.pid],)
        assert list(Codex().live(look)) == []  # its descriptors are read: it holds nothing
        puppet.do("load")
        puppet.do("work")
        later = look.now + 0.02  # as soon as Codex can; a file's own time may lag by a tick
        os.utime(stage.rollout(puppet.session_id or ""), (later, later))
        observations = list(Codex().history(look, HistoryQuery()))
        assert [judge(observation.evidence).status for observation in observations] == ["unknown"]

    def test_the_thread_index_is_not_believed(self, stage: CodexStage) -> None:
        puppet, session_id = start_agent(stage, "work", "rest")
        puppet.finish()
        with sqlite3.connect(stage.codex_home / "state_5.sqlite") as index:
            index.execute("create table threads (id text primary key, rollout_path text, cwd text)")
            index.execute(
                "insert into threads values (?, '/nowhere/rollout.jsonl', '/wrong')", (new_id(),)
            )
        index.close()
        result = stage.survey(HistoryQuery())
        assert [s.observation.session_id for s in result.sessions] == [session_id]
        assert result.sessions[0].observation.facts.cwd == str(stage.work)
        assert result.problems == []

    def test_an_archived_one_is_listed(self, stage: CodexStage) -> None:
        puppet, session_id = start_agent(stage, "work", "rest")
        puppet.finish()
        path = stage.rollout(session_id)
        archive = stage.codex_home / "archived_sessions"
        archive.mkdir()
        path.rename(archive / path.name)
        assert stage.session(session_id).verdict.outcome == "completed"

    def test_a_compressed_one_is_listed_by_its_id(self, stage: CodexStage) -> None:
        session_id = new_id()
        day = stage.codex_home / "sessions" / "2026" / "08" / "01"
        day.mkdir(parents=True)
        (day / f"rollout-2026-08-01T10-00-00-{session_id}.jsonl.zst").write_bytes(b"\x28\xb5\x2f\xfd")
        result = stage.survey(HistoryQuery())
        assert [s.observation.session_id for s in result.sessions] == [session_id]
        assert (result.sessions[0].verdict.status, result.sessions[0].verdict.outcome) == (
            "stopped",
            "unknown",
        )
        assert [p.kind for p in result.problems] == ["unsupported"]

    def test_the_plain_one_is_read_beside_a_compressed_one(self, stage: CodexStage) -> None:
        puppet, session_id = start_agent(stage, "work", "rest")
        puppet.finish()
        path = stage.rollout(session_id)
        path.with_name(f"{path.name}.zst").write_bytes(b"\x28\xb5\x2f\xfd")
        assert stage.session(session_id).verdict.outcome == "completed"

    def test_a_title_is_the_last_given(self, stage: CodexStage) -> None:
        puppet, session_id = start_agent(stage, "work")
        with (stage.codex_home / "session_index.jsonl").open("w") as index:
            for title in ("First", "Second"):
                index.write(f'{{"id":"{session_id}","thread_name":"{title}","updated_at":"x"}}\n')
        assert rows(stage)[session_id].observation.facts.title == "Second"
        puppet.kill()
        assert stage.session(session_id).observation.facts.title == "Second"

    def test_stale_locks_are_reported_by_places(self, stage: CodexStage) -> None:
        puppet, session_id = start_agent(stage, "work")
        puppet.kill()
        look = Look.take(stage.environ).scope_to("codex")
        list(Codex().places(look))
        assert [(p.kind, p.source) for p in look.problems] == [("stale", str(stage.lock(session_id)))]


# turn as the file alone tells it: claim, how it ended
CASES = {
    "exec_failed_http500": ("idle", "failed"),
    "exec_fork": ("idle", "completed"),
    "exec_interrupted_sigint": ("idle", "interrupted"),
    "exec_killed_open_turn": ("working", ""),
    "exec_killed_then_resumed": ("idle", "completed"),
    "exec_resumed_other_cwd": ("idle", "completed"),
    "legacy_head_handmade_then_resumed": ("idle", "completed"),
    "subagent_child": ("idle", "completed"),
    "tui_background_terminal": ("idle", "completed"),
    "tui_daemon_approved": ("idle", "completed"),
    "tui_request_user_input": ("idle", "completed"),
    "tui_waiting_approval_SNAPSHOT": ("working", ""),
}


def sample(case: str) -> Path:
    return next(CORPUS.glob(f"{case}__*"))


class TestCorpus:
    """Rollouts that Codex 0.166.0 wrote."""

    @pytest.fixture
    def look(self, tmp_path: Path) -> Look:
        return Look({}, {"HOME": str(tmp_path)}, 0.0).scope_to("codex")

    def read_sample(self, case: str, look: Look) -> rollout.Rollout:
        contents = rollout.read_rollout(str(sample(case)), look)
        assert look.problems == []
        return contents

    @pytest.mark.parametrize(("case", "expected"), CASES.items())
    def test_the_last_turn(self, case: str, expected: tuple[str, str], look: Look) -> None:
        turn = self.read_sample(case, look).facts.turn
        assert turn is not None
        assert (turn.claim, turn.detail) == expected
        assert turn.offset is not None
        line = sample(case).read_bytes()[turn.offset :]
        assert line.startswith(b'{"timestamp"')

    def test_every_sample_has_a_case(self) -> None:
        assert {path.name.partition("__")[0] for path in CORPUS.glob("*__*")} == set(CASES)

    def test_facts(self, look: Look) -> None:
        facts = self.read_sample("exec_resumed_other_cwd", look).facts
        assert (facts.cwd, facts.model, facts.prompt) == ("/home/user/nogit", "gpt-lab", "hello")
        assert (facts.agent_version, facts.entry_point) == ("0.166.0", "headless")
        assert facts.tokens == Tokens(2046, 20, 200, 0)
        assert facts.started_at == pytest.approx(1794718513.998, abs=0.5)

    def test_a_failed_request_has_no_totals(self, look: Look) -> None:
        assert self.read_sample("exec_failed_http500", look).facts.tokens is None

    def test_parents(self, look: Look) -> None:
        child = self.read_sample("subagent_child", look).facts.parent_id
        assert child == "01a1dd9d-3f7b-7373-bf21-54ac5ad22543"
        fork = self.read_sample("exec_fork", look).facts.parent_id
        assert fork == "01a1dd8f-3b55-7c63-b285-882832c39a34"

    def test_the_legacy_format(self, look: Look) -> None:
        facts = self.read_sample("legacy_head_handmade_then_resumed", look).facts
        assert (facts.prompt, facts.entry_point) == ("legacy hello", "interactive")

    def test_a_thread_of_the_daemon_was_interactive(self, look: Look) -> None:
        assert self.read_sample("tui_daemon_approved", look).facts.entry_point == "interactive"

    def test_the_pending_escalation(self, look: Look) -> None:
        (call,) = self.read_sample("tui_waiting_approval_SNAPSHOT", look).pending
        assert (call.id, call.what, call.is_escalated) == ("call_66_4fa3d7", "echo ok; sleep 4", True)
        assert self.read_sample("tui_daemon_approved", look).pending == ()

    def test_a_pending_question(self, look: Look, tmp_path: Path) -> None:
        lines = sample("tui_request_user_input").read_bytes().splitlines(keepends=True)
        index = next(i for i, line in enumerate(lines) if b'"name":"request_user_input"' in line)
        path = tmp_path / sample("tui_request_user_input").name
        path.write_bytes(b"".join(lines[: index + 2]))
        turn = rollout.read_rollout(str(path), look).facts.turn
        assert turn is not None
        assert (turn.claim, turn.detail) == ("waiting", "question")

    def test_a_torn_last_line_is_ignored(self, look: Look, tmp_path: Path) -> None:
        path = tmp_path / "torn.jsonl"
        path.write_bytes(sample("exec_killed_open_turn").read_bytes() + b'{"timestamp":"2026-11')
        facts = rollout.read_rollout(str(path), look).facts
        assert (facts.turn is not None, facts.garbled) == (True, 0)

    def test_messages(self, look: Look) -> None:
        observation = Observation("codex", "x", (), transcript=str(sample("tui_daemon_approved")))
        messages = [(m.role, m.text[:12]) for m in Codex().messages(observation, look)]
        assert messages[-1] == ("user", "hello tui [[")
        assert ("assistant", "lab answer 3") in messages
        assert [m for m in messages if m[0] == "tool"] == [("tool", '{"cmd": "ech')]
        assert not any(text.startswith("<") for _, text in messages)

    def test_history_over_the_corpus(self, stage: CodexStage) -> None:
        day = stage.codex_home / "sessions" / "2026" / "11" / "15"
        day.mkdir(parents=True)
        for path in CORPUS.glob("*__*"):
            shutil.copyfile(path, day / path.name.partition("__")[2])
        shutil.copyfile(CORPUS / "session_index.jsonl", stage.codex_home / "session_index.jsonl")
        result = stage.survey(HistoryQuery())
        outcomes = sorted(s.verdict.outcome or "" for s in result.sessions)
        assert outcomes == ["completed"] * 8 + ["failed", "interrupted"] + ["killed"] * 2
        assert result.problems == []
        titles = {s.observation.session_id: s.observation.facts.title for s in result.sessions}
        assert titles["01a1dd93-0875-7211-9b24-f03dbe9cb93d"] == "Lab title 2"


class TestLongFiles:
    def test_the_first_line_may_be_long_and_the_prompt_far(self, stage: CodexStage) -> None:
        prompt = "paint " * 15000  # 90 KB, written twice
        _, session_id = start_agent(stage, "work", prompt=prompt)
        facts = stage.session(session_id).observation.facts
        assert facts.prompt == prompt[:1000]
        assert facts.agent_version == "0.166.0"


class TestInvocation:
    @pytest.mark.parametrize(
        ("line", "role"),
        [
            ("codex", "tui"),
            ("codex fix-the-tests", "tui"),
            ("codex -C exec fix", "tui"),
            ("codex exec --json hello", "exec"),
            ("codex -c model=x e hello", "exec"),
            ("codex review --uncommitted", "exec"),
            ("codex app-server --listen unix:// --managed-daemon", "app-server"),
            ("codex app-server --startup-client-info {}", "app-server"),
            ("codex app-server daemon start", "tool"),
            ("codex login", "tool"),
            ("codex --model=x resume --last", "tui"),
        ],
    )
    def test_roles(self, line: str, role: str) -> None:
        assert parse_invocation(tuple(line.split())).role == role

    def test_directory(self) -> None:
        call = parse_invocation(("codex", "exec", "-C", "sub/../repo", "hi"))
        assert call.directory("/home/user") == "/home/user/repo"
        assert parse_invocation(("codex", "exec", "hi")).directory("/home/user") == "/home/user"


class TestOwns:
    @pytest.mark.parametrize(
        "argv",
        [
            ("/x/codex-linux-sandbox", "--", "ls"),
            ("/x/codex-code-mode-host",),
            ("/x/codex", "app-server", "daemon", "pid-update-loop"),
        ],
    )
    def test_helpers_are_not_the_agent(self, argv: tuple[str, ...]) -> None:
        assert not Codex().owns(_described("/x/bin/codex", argv))

    def test_the_node_launcher_is_not_the_agent(self) -> None:
        assert not Codex().owns(_described("/usr/bin/node", ("node", "/x/bin/codex", "exec")))

    def test_the_binary_is(self) -> None:
        assert Codex().owns(_described("/x/bin/codex", ("/x/bin/codex", "exec")))


def _described(exe: str, argv: tuple[str, ...]) -> Process:
    process = read_process(os.getpid(), read_boot_id())
    process._described, process._exe, process._argv, process._uid = True, exe, argv, os.getuid()
    return process
