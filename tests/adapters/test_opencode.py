"""The OpenCode adapter: the contract, and the ways in which one database serves many processes."""

import json
import os
import sqlite3
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from agentctl.adapters import registry
from agentctl.adapters.opencode import db as opencode_db
from agentctl.adapters.opencode import history
from agentctl.adapters.opencode.argv import _kind, _split_argv
from agentctl.adapters.roots import xdg_directory
from agentctl.state import cache
from agentctl.system.sqlite import Database
from agentctl.testing import AdapterContract, Puppet
from agentctl.truth.look import Look
from agentctl.truth.model import Launch, Session
from agentctl.truth.survey import HistoryQuery, survey
from tests.fakes.opencode import SCHEMA, OpenCodeStage, called, run_steps

CORPUS = Path(__file__).parent.parent / "corpus" / "opencode"


STAGE = OpenCodeStage


class TestOpenCode(AdapterContract):
    pass


def owner(session: Session) -> int | None:
    return session.observation.owner.pid if session.observation.owner is not None else None


def says(session: Session) -> tuple[str, str | None]:
    return session.verdict.status, session.verdict.outcome


def names(session: Session, *puppets: Puppet) -> bool:
    """Whether the reason for an `unknown` names these processes."""
    return all(f"pid {puppet.pid}" in session.verdict.reason for puppet in puppets)


def bound_by(session: Session) -> str:
    alive = next(e for e in session.observation.evidence if e.claim == "alive")
    return alive.note.partition(":")[0]


class TestBinding:
    def test_an_id_in_argv(self, stage: OpenCodeStage) -> None:
        first = stage.run()
        session_id = run_steps(first, "work", "rest")
        first.finish()
        again = stage.run(None, "--session", session_id)
        run_steps(again, "work")
        row = stage.session(session_id)
        assert (owner(row), bound_by(row)) == (again.pid, "bound by argument")

    def test_an_id_in_argv_needs_no_database(self, stage: OpenCodeStage) -> None:
        puppet = stage.run(None, "--session", "ses_nowhere")
        row = stage.session("ses_nowhere")
        assert (owner(row), row.verdict.status) == (puppet.pid, "running")

    def test_a_fork_of_an_id_in_argv_is_another_session(self, stage: OpenCodeStage) -> None:
        first = stage.run()
        source = run_steps(first, "work", "rest")
        first.finish()
        forking = stage.run(None, "--session", source, "--fork")
        copy = run_steps(forking, "work")
        assert copy != source
        assert (owner(stage.session(copy)), owner(stage.session(source))) == (forking.pid, None)
        assert stage.session(copy).observation.facts.parent_id is None

    def test_directory_and_time(self, stage: OpenCodeStage, tmp_path: Path) -> None:
        here, there = stage.run(tmp_path / "here"), stage.run(tmp_path / "there")
        one, two = run_steps(here, "work"), run_steps(there, "work", "rest")
        assert (owner(stage.session(one)), owner(stage.session(two))) == (here.pid, there.pid)
        assert bound_by(stage.session(one)) == "bound by inferred"
        assert stage.session(one).observation.facts.entry_point == "headless"

    def test_two_processes_and_two_sessions_in_one_directory(self, stage: OpenCodeStage) -> None:
        puppets = [stage.start(), stage.start()]
        for session_id in [run_steps(puppet, "work") for puppet in puppets]:
            row = stage.session(session_id)
            assert row.verdict.status == "unknown"
            assert names(row, *puppets)
        rows = [stage.find_row(puppet) for puppet in puppets]
        assert all(row is not None and row.observation.session_id is None for row in rows)

    def test_launch_notes_tell_two_in_one_directory_apart(self, stage: OpenCodeStage) -> None:
        one, two = stage.run(), stage.run()
        first, second = run_steps(one, "work"), run_steps(two, "work")
        assert {says(stage.session(each))[0] for each in (first, second)} == {"unknown"}
        notes = [Launch("a", one.identity, first), Launch("b", two.identity, second)]
        result = survey(Look.take(stage.environ), registry.find_adapters(["opencode"]), notes=notes)
        owners = {session.observation.session_id: owner(session) for session in result.sessions}
        assert owners == {first: one.pid, second: two.pid}
        assert {bound_by(session) for session in result.sessions} == {"bound by launch note"}

    def test_one_launch_note_tells_both_apart(self, stage: OpenCodeStage) -> None:
        one, two = stage.run(), stage.run()
        first, second = run_steps(one, "work"), run_steps(two, "work")
        notes = [Launch("a", one.identity, first)]
        result = survey(Look.take(stage.environ), registry.find_adapters(["opencode"]), notes=notes)
        owners = {session.observation.session_id: owner(session) for session in result.sessions}
        assert owners == {first: one.pid, second: two.pid}

    def test_a_tui_and_a_run_in_one_directory_are_told_apart(self, stage: OpenCodeStage) -> None:
        tui, run = stage.start(), stage.run()
        typed, ran = run_steps(tui, "work"), run_steps(run, "work")
        assert (owner(stage.session(typed)), owner(stage.session(ran))) == (tui.pid, run.pid)

    def test_one_run_after_the_other(self, stage: OpenCodeStage) -> None:
        first = stage.run()
        one = run_steps(first, "work")
        stage.age()
        first.kill()
        second = stage.run()
        two = run_steps(second, "work")
        assert says(stage.session(one)) == ("stopped", "killed")
        assert owner(stage.session(two)) == second.pid

    def test_continue_means_an_older_session(self, stage: OpenCodeStage) -> None:
        first = stage.run()
        old = run_steps(first, "work", "rest")
        first.finish()
        stage.write("update session set time_created = time_created - 5000")
        again = stage.start(environ=called("run", "--continue", "more"), resume=old)
        stage.write("update session set time_updated = ?", time.time_ns() // 1_000_000)
        row = stage.session(old)
        assert (owner(row), bound_by(row)) == (again.pid, "bound by inferred")

    def test_a_tui_goes_from_its_first_session_to_another(self, stage: OpenCodeStage) -> None:
        first = stage.start()
        old = run_steps(first, "work", "rest")
        first.finish()
        tui = stage.start(environ=called("-s", old))
        new = run_steps(tui, "new", "work")
        assert bound_by(stage.session(old)) == "bound by argument"
        assert (owner(stage.session(old)), owner(stage.session(new))) == (tui.pid, tui.pid)
        third = run_steps(tui, "new", "work")
        for session_id in (new, third):  # the second could be that of a TUI that has ended
            assert stage.session(session_id).verdict.status == "unknown"
            assert names(stage.session(session_id), tui)
        assert owner(stage.session(old)) == tui.pid

    def test_a_session_resumed_inside_a_tui_is_never_called_stopped(self, stage: OpenCodeStage) -> None:
        first = stage.start()
        run_steps(first, "work", "rest")
        first.finish()
        stage.age()
        old = stage.age_id(first.session_id or "")
        tui = stage.start()
        new = run_steps(tui, "work", "rest")
        assert (says(stage.session(old)), owner(stage.session(new))) == (
            ("stopped", "completed"),
            tui.pid,
        )
        run_steps(tui, f"use {old}", "work")
        assert stage.session(old).verdict.status == "unknown"
        assert names(stage.session(old), tui)


class TestServers:
    def serve(self, stage: OpenCodeStage, *words: str) -> Puppet:
        return stage.start(stage.root / "server", environ=called(*(words or ("serve", "--port", "0"))))

    @pytest.mark.few(2)
    @pytest.mark.parametrize("words", [("serve",), ("web",), ("acp",), ("--port", "4096")])
    def test_a_server_owns_what_it_wrote(self, stage: OpenCodeStage, words: tuple[str, ...]) -> None:
        server = self.serve(stage, *words)
        one, two = run_steps(server, "new /a", "work"), run_steps(server, "new /b", "work", "rest")
        untouched = run_steps(server, "new /c")
        rows = [stage.session(session_id) for session_id in (one, two, untouched)]
        assert [owner(row) for row in rows] == [server.pid] * 3
        assert [row.verdict.status for row in rows] == ["running", "idle", "idle"]
        expected = "interactive" if words[0] == "--port" else "daemon"
        assert {row.observation.facts.entry_point for row in rows} == {expected}

    def test_what_another_process_runs_is_not_the_server_s(self, stage: OpenCodeStage) -> None:
        server, tui = self.serve(stage), stage.start()
        typed = run_steps(tui, "work")
        run = stage.run(stage.root / "elsewhere", "--session", "ses_named")
        assert owner(stage.session(typed)) == tui.pid
        assert owner(stage.session("ses_named")) == run.pid
        assert stage.find_row(server) is not None

    def test_a_server_and_a_tui_in_one_directory(self, stage: OpenCodeStage) -> None:
        server = self.serve(stage)
        tui = stage.start(stage.root / "server")
        row = stage.session(run_steps(tui, "work"))
        assert row.verdict.status == "unknown"
        assert names(row, server, tui)

    def test_two_servers(self, stage: OpenCodeStage) -> None:
        servers = [self.serve(stage), self.serve(stage, "web")]
        row = stage.session(run_steps(servers[0], "new /a", "work"))
        assert row.verdict.status == "unknown"
        assert names(row, *servers)

    def test_a_client_is_set_aside_and_its_session_is_the_server_s(self, stage: OpenCodeStage) -> None:
        server = self.serve(stage)
        client = stage.run(None, "--attach", "http://127.0.0.1:4096")
        session_id = run_steps(client, "work")  # written by the server in truth; the rows are the same
        assert owner(stage.session(session_id)) == server.pid
        assert stage.find_row(client) is None
        client.finish()
        row = stage.session(session_id)  # the server's, or of a `run` that was killed
        assert row.verdict.status == "unknown"
        assert names(row, server)

    def test_a_run_that_ended_does_not_become_the_server_s(self, stage: OpenCodeStage) -> None:
        server, run = self.serve(stage), stage.run()
        mine = run_steps(server, "new /a", "work")
        session_id = run_steps(run, "work", "rest")
        assert owner(stage.session(session_id)) == run.pid
        run.finish()
        assert says(stage.session(session_id)) == ("stopped", "completed")
        assert owner(stage.session(mine)) == server.pid

    def test_attach_is_a_client_too(self, stage: OpenCodeStage) -> None:
        assert stage.find_row(stage.start(environ=called("attach", "http://127.0.0.1:4096"))) is None


class TestChildren:
    def test_a_sub_agent_is_run_by_its_parent_s_process(self, stage: OpenCodeStage) -> None:
        run = stage.run()
        parent = run_steps(run, "work")
        child = run_steps(run, "sub")
        row = stage.session(child)
        assert (owner(row), row.observation.facts.parent_id) == (run.pid, parent)
        assert row.verdict.status == "running"
        run_steps(run, "rest")
        assert stage.session(child).verdict.status == "idle"
        assert stage.session(parent).verdict.status == "running"
        run.kill()
        assert says(stage.session(child)) == ("stopped", "completed")
        assert says(stage.session(parent)) == ("stopped", "killed")

    def test_it_is_unknown_where_its_parent_is(self, stage: OpenCodeStage) -> None:
        one, two = stage.start(), stage.start()
        run_steps(one, "work")
        row = stage.session(run_steps(one, "sub"))
        assert row.verdict.status == "unknown"
        assert names(row, one, two)

    def test_one_of_an_earlier_process_has_ended(self, stage: OpenCodeStage) -> None:
        run = stage.run()
        parent = run_steps(run, "work")
        child = run_steps(run, "sub", "rest")
        run.kill()
        stage.write("update session set time_updated = time_updated - 5000 where id = ?", child)
        stage.write("update message set time_updated = time_updated - 5000 where session_id = ?", child)
        stage.run(None, "--session", parent)
        assert stage.session(child).verdict.status == "stopped"


class TestTurns:
    @pytest.mark.few(6)
    @pytest.mark.parametrize(
        ("steps", "alive", "dead"),
        [
            (["only_prompt"], "running", "killed"),
            (["work"], "running", "killed"),
            (["work", "tool"], "running", "killed"),
            (["work", "ask"], "waiting", "killed"),
            (["work", "question"], "waiting", "killed"),
            (["work", "gap"], "running", "killed"),
            (["work", "rest"], "idle", "completed"),
            (["work", "fail"], "idle", "failed"),
            (["work", "abort"], "idle", "interrupted"),
            (["work", "give_up"], "idle", "interrupted"),
            (["work", "refuse"], "idle", "interrupted"),
            # between two steps while it lives; afterwards the database does not say how it ended
            (["work", "stumble"], "running", "unknown"),
        ],
    )
    def test_what_the_last_message_means(
        self, stage: OpenCodeStage, steps: list[str], alive: str, dead: str
    ) -> None:
        puppet = stage.start()
        session_id = run_steps(puppet, *steps)
        session = (
            stage.wait_for_question(session_id) if alive == "waiting" else stage.session(session_id)
        )
        assert session.verdict.status == alive
        puppet.kill()
        assert says(stage.session(session_id)) == ("stopped", dead)

    def test_what_it_waits_for(self, stage: OpenCodeStage) -> None:
        puppet = stage.start()
        verdict = stage.wait_for_question(run_steps(puppet, "work", "ask")).verdict
        assert (verdict.waiting_for, verdict.used[-1].authority) == ("permission", "derived")
        assert stage.session(run_steps(puppet, "question")).verdict.waiting_for == "permission"
        assert (
            stage.wait_for_question(run_steps(puppet, "rest", "work", "question")).verdict.waiting_for
            == "question"
        )

    def test_a_call_is_no_wait_in_its_first_second(self, stage: OpenCodeStage) -> None:
        """Nor that it works: an allowed command looks the same for some 100 ms."""
        session_id, soon = run_steps(stage.start(), "work", "ask"), round((time.time() + 60) * 1000)
        stage.write("update part set data = json_set(data, '$.state.time.start', ?)", soon)
        session = stage.session(session_id)
        assert (session.verdict.status, session.verdict.activity) == ("running", "unknown")
        assert "has not held for a second yet" in session.verdict.overruled[-1].note

    def test_with_a_child_process_the_tool_may_run_after_all(self, stage: OpenCodeStage) -> None:
        session_id = run_steps(stage.start(), "work", "ask", "child")
        verdict = stage.session(session_id).verdict
        assert (verdict.status, verdict.activity) == ("running", "unknown")

    def test_of_two_calls_one_runs_and_one_asks(self, stage: OpenCodeStage) -> None:
        session_id = run_steps(stage.start(), "work", "tool", "ask")
        assert stage.wait_for_question(session_id).verdict.waiting_for == "permission"

    @pytest.mark.parametrize("step", ["ask", "question"])
    def test_a_run_never_waits_because_it_refuses_by_itself(
        self, stage: OpenCodeStage, step: str
    ) -> None:
        puppet = stage.run()
        session_id = run_steps(puppet, "work", step)
        stage.write("update part set data = json_set(data, '$.state.time.start', 1)")
        verdict = stage.session(session_id).verdict
        assert (verdict.status, verdict.activity) == ("running", "working")

    def test_a_new_word_is_drift(self, stage: OpenCodeStage) -> None:
        session_id = run_steps(stage.start(), "work", "odd")
        result = stage.survey()
        assert [p.kind for p in result.problems] == ["drift"]
        assert "1.18.33 says finish 'pondering'" in result.problems[0].message
        verdict = stage.session(session_id).verdict
        assert (verdict.status, verdict.activity) == ("running", "unknown")

    def test_a_garbled_message_is_reported(self, stage: OpenCodeStage) -> None:
        puppet = stage.start()
        session_id = run_steps(puppet, "work")
        stage.write("update message set data = '{\"half'")
        assert "malformed" in {p.kind for p in stage.survey().problems}
        assert stage.session(session_id).verdict.status == "running"


class TestMemory:
    """A database is read again only when it can say something else."""

    @pytest.fixture
    def place(self, tmp_path: Path) -> str:
        return str(tmp_path / "state" / "cache")

    def look(self, stage: OpenCodeStage, place: str, since: float = 0.0) -> dict[str | None, Session]:
        with cache.Cache(place) as memory:
            look = Look.take(stage.environ, memory)
            result = survey(look, registry.find_adapters(["opencode"]), HistoryQuery(since), deadline=20)
        assert result.problems == []
        return {session.observation.session_id: session for session in result.sessions}

    def settle(self, stage: OpenCodeStage) -> None:
        """Old enough to be remembered."""
        for path in stage.database.parent.glob("opencode.db*"):
            os.utime(path, (path.stat().st_atime, path.stat().st_mtime - 60))

    def deny(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def refuse(path: str) -> None:
            raise AssertionError(f"{path} was opened")

        monkeypatch.setattr(history, "Database", refuse)

    def test_the_same_answer_without_opening_the_database(
        self, stage: OpenCodeStage, place: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for steps in (["only_prompt"], ["work", "rest"], ["work", "fail"], ["work", "stumble"]):
            puppet = stage.start()
            run_steps(puppet, *steps)
            puppet.kill()
        self.settle(stage)
        sessions = self.look(stage, place)
        self.settle(stage)  # the first to read it after a kill puts its log in order
        assert self.look(stage, place) == sessions
        self.deny(monkeypatch)
        assert self.look(stage, place) == sessions
        assert len(sessions) == 4
        os.unlink(place)
        monkeypatch.undo()
        assert self.look(stage, place) == sessions

    @pytest.mark.few(5)
    @pytest.mark.parametrize("live", [True, False])
    @pytest.mark.parametrize(
        "change",
        [
            "update session set title = 'Other'",
            """update message set data = json_set(data, '$.finish', 'length')""",
            """update part set data = json_set(data, '$.text', 'other')""",
            "update session set directory = '/other'",
            "delete from session",
        ],
    )
    def test_a_change_is_read(
        self, stage: OpenCodeStage, place: str, change: str, *, live: bool
    ) -> None:
        """Any change, even if no row's own time shows it."""
        puppet = stage.start(prompt="a prompt")
        run_steps(puppet, "work", "rest")
        puppet.kill()
        if live:  # a process holds the database open: what is written stays in its write-ahead log
            stage.start(stage.root / "elsewhere", environ=called("models"))
        self.settle(stage)
        before = self.look(stage, place)
        assert self.look(stage, place) == before
        stage.write(change)
        after = self.look(stage, place)
        assert after != before
        os.unlink(place)
        assert self.look(stage, place) == after

    def test_its_owner_is_never_remembered(
        self, stage: OpenCodeStage, place: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        loose = stage.start(stage.work)
        puppet = stage.start(stage.root / "elsewhere")
        session_id = run_steps(puppet, "work", "stumble")
        puppet.kill()
        for _ in range(2):
            self.settle(stage)
            session = self.look(stage, place)[session_id]
            assert session.verdict.status == "unknown"
            assert [e.claim for e in session.observation.evidence] == ["ambiguous", "working"]
        entries = [entry for _, entry in cache.load_entries(place).values()]
        loose.kill()
        self.deny(monkeypatch)
        session = self.look(stage, place)[session_id]
        assert session.verdict.status == "stopped"
        assert [e.claim for e in session.observation.evidence] == ["gone", "idle"]
        monkeypatch.undo()
        os.unlink(place)
        self.look(stage, place)
        assert [entry for _, entry in cache.load_entries(place).values()] == entries

    def test_queries_of_different_ranges_share_the_memory(
        self, stage: OpenCodeStage, place: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        puppet = stage.start()
        old = run_steps(puppet, "work", "rest")
        new = run_steps(puppet, "new", "work", "rest")
        puppet.finish()
        stage.write("update session set time_updated = time_updated - 60000 where id = ?", old)
        since = time.time() - 30
        self.settle(stage)
        for _ in range(2):
            assert set(self.look(stage, place, since)) == {new}
        for _ in range(2):
            assert set(self.look(stage, place)) == {old, new}
        self.deny(monkeypatch)
        assert set(self.look(stage, place)) == {old, new}
        assert set(self.look(stage, place, since)) == {new}

    @pytest.mark.few(3)
    @pytest.mark.parametrize("entry", [None, 7, "word", (), (1, 2), (0, 7), (0, [7]), (0, [(0, 1)])])
    def test_a_strange_memory_is_no_memory(self, stage: OpenCodeStage, place: str, entry: Any) -> None:
        puppet = stage.start()
        run_steps(puppet, "work", "rest")
        puppet.finish()
        self.settle(stage)
        for _ in range(2):
            before = self.look(stage, place)
        entries = cache.load_entries(place)
        assert list(entries) == [str(stage.database)]
        cache.save_entries(place, {path: (mark, entry) for path, (mark, _) in entries.items()})
        assert self.look(stage, place) == before

    def test_a_problem_is_reported_each_time(self, stage: OpenCodeStage, place: str) -> None:
        puppet = stage.start()
        run_steps(puppet, "work", "odd")
        self.settle(stage)
        for turn in range(4):
            if turn == 1:
                puppet.kill()
            with cache.Cache(place) as memory:
                look = Look.take(stage.environ, memory)
                result = survey(look, registry.find_adapters(["opencode"]), HistoryQuery(), deadline=20)
            assert [p.kind for p in result.problems] == ["drift"]


class TestFacts:
    def test_facts(self, stage: OpenCodeStage) -> None:
        puppet = stage.start(prompt="paint the shed")
        session_id = run_steps(puppet, "work")
        facts = stage.session(session_id).observation.facts
        assert (facts.title, facts.tokens, facts.cost_usd) == (None, None, None)
        run_steps(puppet, "rest", "work", "rest")
        stage.write("update session set title = 'Shed'")
        facts = stage.session(session_id).observation.facts
        assert (facts.title, facts.model, facts.agent_version) == ("Shed", "fake/fake-1", "1.18.33")
        assert facts.tokens == (2600, 14, 6, 0)
        assert (facts.cost_usd, facts.entry_point, facts.prompt) == (
            1.0,
            "interactive",
            "paint the shed",
        )
        assert facts.started_at is not None
        assert facts.last_activity_at is not None
        assert facts.started_at < facts.last_activity_at <= time.time()

    def test_messages_come_in_pages_newest_first(self, stage: OpenCodeStage) -> None:
        puppet = stage.start()
        session_id = run_steps(
            puppet, "work", "gap", *["work", "rest"] * opencode_db.PAGE, "work", "fail"
        )
        adapter = registry.load("opencode")
        look = Look.take(stage.environ)
        messages = list(adapter.messages(stage.session(session_id).observation, look))
        assert (messages[0].role, messages[0].text) == ("system", "fake error 400")
        assert [m.text for m in messages if m.role == "user"] == ["a prompt"] * (opencode_db.PAGE + 2)
        assert [(m.tool, m.text) for m in messages if m.role == "tool"] == [("bash", "echo hi\nhi")]
        assert messages[-1].role == "user"
        assert len({m.key for m in messages}) == len(messages)


class TestTheDatabase:
    def test_one_of_its_own(self, stage: OpenCodeStage, tmp_path: Path) -> None:
        chosen = stage.run(tmp_path / "a", "x")
        moved = stage.start(tmp_path / "b", environ={"XDG_DATA_HOME": str(tmp_path / "data")})
        own_file = stage.start(tmp_path / "c", environ={"OPENCODE_DB": str(tmp_path / "my.sqlite")})
        for puppet in (chosen, moved, own_file):
            assert owner(stage.session(run_steps(puppet, "work"))) == puppet.pid
        transcripts = {s.observation.transcript for s in stage.survey().sessions}
        assert str(tmp_path / "my.sqlite") in transcripts
        assert str(tmp_path / "data" / "opencode" / "opencode.db") in transcripts

    def test_a_channel_s_database_is_history_too(self, stage: OpenCodeStage) -> None:
        path = stage.database.with_name("opencode-dev.db")
        puppet = stage.start(environ={"OPENCODE_DB": str(path)})
        session_id = run_steps(puppet, "work", "rest")
        puppet.finish()
        assert says(stage.session(session_id)) == ("stopped", "completed")

    def test_a_locked_one(self, stage: OpenCodeStage) -> None:
        puppet = stage.start()
        run_steps(puppet, "work", "rest")
        puppet.finish()
        other = sqlite3.connect(stage.database, isolation_level=None)
        other.execute("pragma locking_mode = exclusive")
        other.execute("begin exclusive")
        result = stage.survey(HistoryQuery())
        other.close()
        assert "locked" in result.problems[0].message
        assert result.sessions == []  # never "stopped" for want of reading

    def test_one_that_is_just_being_made_is_not_opened(self, stage: OpenCodeStage) -> None:
        """The process that makes it may not wait for the lock of a reader."""
        stage.database.parent.mkdir(parents=True)
        stage.database.touch()
        (problem,) = stage.survey(HistoryQuery()).problems
        assert (problem.kind, problem.message) == ("unsupported", "it is just being made")
        os.utime(stage.database, (1000, 1000))
        (problem,) = stage.survey(HistoryQuery()).problems
        assert "no such table" in problem.message, "it was opened"

    def test_one_that_is_just_being_opened_is_not_opened(self, stage: OpenCodeStage) -> None:
        """The process that makes the log's index locks all others out, and opening it does not wait."""
        puppet = stage.start()
        run_steps(puppet, "work", "rest")
        puppet.kill()
        other = stage.start(environ={"OPENCODE_DB": ":memory:"})
        other.do(f"hold {stage.database}")
        row = stage.find_row(other)
        assert row is not None
        assert (row.observation.session_id, row.verdict.activity) == (None, "unknown")
        other.do(f"hold {stage.database}-shm")
        row = stage.find_row(other)
        assert row is not None
        assert row.verdict.activity != "unknown"

    def test_a_schema_we_do_not_know(self, stage: OpenCodeStage) -> None:
        puppet = stage.start()
        run_steps(puppet, "work")
        stage.write("alter table session rename column directory to folder")
        result = stage.survey(HistoryQuery())
        assert {p.kind for p in result.problems} == {"unsupported"}
        row = stage.find_row(puppet)
        assert row is not None
        assert row.verdict.status == "running"

    def test_an_older_schema(self, stage: OpenCodeStage) -> None:
        puppet = stage.start()
        session_id = run_steps(puppet, "work", "rest")
        for column in ("model", "cost", "tokens_input", "permission"):
            stage.write(f"alter table session drop column {column}")
        row = stage.session(session_id)
        assert (row.verdict.status, row.observation.facts.model) == ("idle", "fake/fake-1")
        assert row.observation.facts.cost_usd is None

    @pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
    def test_a_forbidden_one(self, stage: OpenCodeStage) -> None:
        puppet = stage.start()
        run_steps(puppet, "work")
        stage.database.chmod(0)
        assert "forbidden" in {p.kind for p in stage.survey(HistoryQuery()).problems}
        assert stage.find_row(puppet) is not None

    def test_one_deleted_while_in_use(self, stage: OpenCodeStage) -> None:
        puppet = stage.start()
        run_steps(puppet, "work")
        stage.database.unlink()
        result = stage.survey()
        assert any("deleted" in p.message and str(puppet.pid) in p.message for p in result.problems)
        assert stage.find_row(puppet) is not None

    def test_a_prefix_has_no_wildcards(self, stage: OpenCodeStage) -> None:
        puppet = stage.start()
        session_id = run_steps(puppet, "work", "rest")
        puppet.finish()
        for prefix in ("ses%", "ses_%", "SES_", "%", "_es"):
            assert stage.survey(HistoryQuery(id_prefix=prefix)).sessions == []
        assert len(stage.survey(HistoryQuery(id_prefix=session_id)).sessions) == 1

    def test_a_session_written_after_the_look_is_not_called_stopped(self, stage: OpenCodeStage) -> None:
        look = Look.take(stage.environ)
        session_id = run_steps(stage.start(), "work")  # its process is not in this look
        result = survey(look, registry.find_adapters(["opencode"]), HistoryQuery(), deadline=20)
        assert [(s.observation.session_id, s.verdict.status) for s in result.sessions] == [
            (session_id, "unknown")
        ]


class TestTheCostOfHistory:
    @pytest.mark.parametrize("steps", [[], ["work", "ask"]])
    def test_no_table_is_scanned(
        self, stage: OpenCodeStage, monkeypatch: pytest.MonkeyPatch, steps: list[str]
    ) -> None:
        puppet = stage.run()
        for step in steps:
            puppet.do(step)
        scans: list[str] = []
        rows = Database.rows

        def record_scans(
            self: Database, query: str, parameters: Sequence[object] = ()
        ) -> list[tuple[Any, ...]]:
            if not query.startswith("pragma"):
                plan = [row[3] for row in rows(self, f"explain query plan {query}", parameters)]
                scans.extend(f"{step}: {query}" for step in plan if step.startswith("SCAN"))
            return rows(self, query, parameters)

        monkeypatch.setattr(Database, "rows", record_scans)
        assert [s.observation.session_id for s in stage.survey().sessions] == [puppet.session_id]
        # the exception: the latest messages in order of insertion, limited in number
        assert scans
        assert all("from message order by rowid desc limit" in scan for scan in scans)

    @pytest.mark.parametrize("recent", [2, 512])
    def test_beyond_the_latest_messages_nothing_is_lost(
        self, stage: OpenCodeStage, monkeypatch: pytest.MonkeyPatch, recent: int
    ) -> None:
        first = stage.start()
        originals = [run_steps(first, "new", "work", "rest") for _ in range(3)]
        first.finish()
        stage.age()
        old = [stage.age_id(session_id) for session_id in originals]
        server = stage.start(environ=called("serve"))
        for session_id in old:
            run_steps(server, f"use {session_id}", "work")
        monkeypatch.setattr(opencode_db, "RECENT", recent)
        assert {s.observation.session_id for s in stage.survey().sessions} == set(old)

    def test_an_id_holds_its_time(self) -> None:
        at = 1794718459.839
        real = "ses_e22719840ffeYm2kNOWvfCAujM"
        assert opencode_db._first_id_at(at + 0.001) < real < opencode_db._first_id_at(at - 0.001)

    def test_ids_that_start_over(self, stage: OpenCodeStage) -> None:
        session_id = run_steps(stage.run(), "work")
        over = (1 << opencode_db.ID_BITS) / 1000  # the 25th time was in 2024
        with Database(str(stage.database)) as db:
            rows = opencode_db.read_recent_rows(db, (), 25 * over - 60, 25 * over + 7200)
        assert [row.id for row in rows] == [session_id]


class TestOtherCalls:
    @pytest.mark.parametrize(
        ("words", "kind"),
        [
            ("", "tui"),
            ("some/project", "tui"),
            ("--model a/b -s ses_1", "tui"),
            ("--prompt run", "tui"),
            ("--port 4096", "server"),
            ("--hostname=0.0.0.0 project", "server"),
            ("--log-level DEBUG serve", "server"),
            ("run --port 4096 hello", "run"),
            ("run --title serve hello", "run"),
            ("run -- --attach x", "run"),
            ("run --attach=http://x hello", "client"),
            ("attach http://x", "client"),
            ("session list", "none"),
            ("auth login", "none"),
            ("db path", "none"),
            ("run --help", "none"),
            ("--version", "none"),
        ],
    )
    def test_kinds(self, words: str, kind: str) -> None:
        assert _kind(*_split_argv(["opencode", *words.split()])) == kind

    def test_a_call_without_a_session_has_no_row(self, stage: OpenCodeStage) -> None:
        puppet = stage.start(environ=called("session", "list"))
        assert stage.find_row(puppet) is None
        assert stage.survey(HistoryQuery()).sessions == []

    def test_a_stranger_is_not_ours(self, stage: OpenCodeStage) -> None:
        puppet = stage.start()
        process = Look.take(stage.environ).table[puppet.pid]
        adapter = registry.load("opencode")
        assert adapter.owns(process)
        process._exe = "/usr/bin/vim"
        assert not adapter.owns(process)
        process._exe = None  # withheld: its name in argv decides
        assert adapter.owns(process)

    def test_a_stale_lock_is_reported(self, stage: OpenCodeStage) -> None:
        lock = stage.home / ".local" / "state" / "opencode" / "locks" / "1ab.lock"
        lock.mkdir(parents=True)
        (lock / "meta.json").write_text('{"token":"x","pid":4194305,"hostname":"h"}')
        look = Look.take(stage.environ).scope_to("opencode")
        assert list(registry.load("opencode").places(look))
        assert [(p.kind, p.source) for p in look.problems] == [("stale", str(lock / "meta.json"))]


class TestCorpus:
    """Rows that OpenCode 1.18.33 wrote."""

    def test_how_each_ended(self, stage: OpenCodeStage) -> None:
        stage.database.parent.mkdir(parents=True)
        connection = sqlite3.connect(stage.database)
        connection.executescript(SCHEMA.read_text() + (CORPUS / "sessions.sql").read_text())
        connection.close()
        result = stage.survey(HistoryQuery())
        assert result.problems == []
        rows = {str(s.observation.session_id)[:14]: s for s in result.sessions}
        assert {key: s.verdict.outcome for key, s in rows.items()} == {
            "ses_e22491dfcf": "completed",
            "ses_e22491232f": "completed",  # two steps
            "ses_e22490632f": "failed",
            "ses_e2248fbc2f": "killed",  # no such model: nothing was written but the prompt
            "ses_e2248f3fef": "completed",
            "ses_e2248ee96f": "completed",  # its sub-agent
            "ses_e2248e785f": "killed",
            "ses_e2248b131f": "interrupted",
            "ses_e2248b0a0f": "killed",  # while it waited for a permission
            "ses_e2248831df": "completed",  # a fork
        }
        child = rows["ses_e2248ee96f"].observation.facts
        assert child.parent_id == rows["ses_e2248f3fef"].observation.session_id
        fork = rows["ses_e2248831df"].observation.facts
        assert (fork.parent_id, fork.title, fork.prompt) == (None, "Fake title (fork #1)", "hello")
        assert rows["ses_e22491232f"].observation.facts.tokens == (15422, 14, 6, 0)
        assert rows["ses_e2248fbc2f"].observation.facts.title is None


class TestFilesOfOldVersions:
    """Storage before 1.2."""

    def old(
        self, stage: OpenCodeStage, session_id: str, *, oldest: bool = False, **last: object
    ) -> None:
        data = stage.database.parent
        base = data / "project" / "home-me" / "storage" / "session" if oldest else data / "storage"
        info = base / "info" if oldest else base / "session" / "global"
        message, part = base / "message" / session_id, base / "part"
        part = part / session_id if oldest else part
        info_record = {"id": session_id, "version": "1.1.13", "directory": "/old", "title": "Old",
                "time": {"created": 1768161770846, "updated": 1768161772227}}  # fmt: skip
        answer = {"id": "msg_2", "role": "assistant", "modelID": "m", "providerID": "p",
                  "time": {"created": 1768161771000, "completed": 1768161772000}, **last}  # fmt: skip
        for path, record in (
            (info / f"{session_id}.json", info_record),
            (
                message / "msg_1.json",
                {"id": "msg_1", "role": "user", "time": {"created": 1768161770858}},
            ),
            (message / "msg_2.json", answer),
            (part / "msg_1" / "prt_1.json", {"type": "text", "text": "paint the shed"}),
            (part / "msg_2" / "prt_2.json", {"type": "text", "text": "painted"}),
        ):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps(record))

    @pytest.mark.parametrize("oldest", [False, True])
    def test_it_is_history(self, stage: OpenCodeStage, oldest: bool) -> None:
        self.old(stage, "ses_old", oldest=oldest, finish="stop")
        row = stage.session("ses_old")
        facts = row.observation.facts
        assert says(row) == ("stopped", "completed")
        assert (facts.cwd, facts.title, facts.prompt) == ("/old", "Old", "paint the shed")
        assert (facts.model, facts.agent_version, facts.started_at) == ("p/m", "1.1.13", 1768161770.846)
        messages = registry.load("opencode").messages(row.observation, Look.take(stage.environ))
        assert [m.text for m in messages] == ["painted", "paint the shed"]

    def test_how_it_ended(self, stage: OpenCodeStage) -> None:
        self.old(stage, "ses_1", error={"name": "MessageAbortedError"})
        self.old(stage, "ses_2", time={"created": 1768161771000})
        self.old(stage, "ses_3")  # before `finish` was written
        outcomes = [stage.session(f"ses_{n}").verdict.outcome for n in (1, 2, 3)]
        assert outcomes == ["interrupted", "killed", "completed"]

    def test_a_session_in_the_database_and_in_old_files_is_listed_once(
        self, stage: OpenCodeStage
    ) -> None:
        session_id = run_steps(puppet := stage.start(), "work", "rest")
        self.old(stage, session_id)
        assert owner(stage.session(session_id)) == puppet.pid
        assert stage.survey(HistoryQuery(since=time.time() - 3600)).problems == []

    def test_old_files_are_not_listed_when_the_database_cannot_be_read(
        self, stage: OpenCodeStage
    ) -> None:
        self.old(stage, "ses_old")
        stage.database.write_bytes(b"rubbish" * 99)
        result = stage.survey(HistoryQuery())
        assert result.sessions == []
        assert [p.kind for p in result.problems] == ["malformed"]

    def test_a_garbled_one_is_unknown(self, stage: OpenCodeStage) -> None:
        self.old(stage, "ses_old")
        (stage.database.parent / "storage" / "session" / "global" / "ses_old.json").write_text("{")
        assert stage.session("ses_old").verdict.status == "unknown"
        assert stage.survey(HistoryQuery()).problems


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({"HOME": "/h"}, "/h/.local/share"),
        ({"HOME": "/h", "XDG_DATA_HOME": "/x"}, "/x"),
        ({"HOME": "/h", "XDG_DATA_HOME": "relative"}, "/h/.local/share"),
        ({"HOME": "/h", "XDG_DATA_HOME": ""}, "/h/.local/share"),
    ],
)
def test_xdg(environ: dict[str, str], expected: str) -> None:
    assert xdg_directory(environ, "XDG_DATA_HOME", ".local/share") == expected
