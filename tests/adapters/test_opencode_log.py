"""What OpenCode's log tells, and what it does not: who works on which session."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from agentctl.adapters.opencode import binding
from agentctl.system.proc import Process
from agentctl.testing import Puppet
from agentctl.truth.model import Session
from tests.fakes.opencode import OpenCodeStage, called, logging
from tests.waiting import until

STAGE = OpenCodeStage


def tui(stage: OpenCodeStage, *words: str) -> Puppet:
    return stage.start(environ=logging(*words))


def did(puppet: Puppet, *steps: str) -> str:
    """The id of the session in which it took these steps."""
    for step in steps:
        puppet.do(step)
    assert puppet.session_id is not None
    return puppet.session_id


def told(session: Session) -> tuple[int | None, str, str]:
    owner, verdict = session.seen.owner, session.verdict
    return owner.pid if owner else None, verdict.status, verdict.outcome or verdict.activity


def bare(stage: OpenCodeStage, puppet: Puppet) -> tuple[str, str]:
    """Of a process without a session."""
    row = stage.row_of(puppet)
    assert row is not None
    assert row.seen.session_id is None
    return row.verdict.status, row.verdict.activity


class TestOwners:
    def test_two_in_one_directory(self, stage: OpenCodeStage) -> None:
        one, two = tui(stage), tui(stage)
        first, second = did(one, "work"), did(two, "work", "rest")
        assert told(stage.session(first)) == (one.pid, "running", "working")
        assert told(stage.session(second)) == (two.pid, "idle", "idle")
        alive = next(e for e in stage.session(first).seen.evidence if e.claim == "alive")
        assert alive.note.startswith("bound by held open: ")
        assert "/log/opencode.log@" in alive.note

    def test_one_of_them_killed(self, stage: OpenCodeStage) -> None:
        one, two, at_its_prompt = tui(stage), tui(stage), tui(stage)
        first, second = did(one, "work"), did(two, "work")
        two.kill()
        assert told(stage.session(first)) == (one.pid, "running", "working")
        assert told(stage.session(second)) == (None, "stopped", "killed")
        assert bare(stage, at_its_prompt) == ("idle", "idle")

    def test_what_it_has_left_is_over(self, stage: OpenCodeStage) -> None:
        puppet = tui(stage)
        old, new = did(puppet, "work", "rest"), did(puppet, "new", "work")
        assert told(stage.session(old)) == (None, "stopped", "completed")
        assert told(stage.session(new)) == (puppet.pid, "running", "working")
        did(puppet, "rest", f"use {old}", "work")
        assert told(stage.session(old)) == (puppet.pid, "running", "working")
        assert told(stage.session(new)) == (None, "stopped", "completed")

    def test_what_it_has_left_at_work_works_on(self, stage: OpenCodeStage) -> None:
        puppet = tui(stage)
        old, new = did(puppet, "work"), did(puppet, "new", "work")
        for session_id in (old, new):
            assert told(stage.session(session_id)) == (puppet.pid, "running", "working")
        did(puppet, "rest", f"use {old}", "rest")
        assert told(stage.session(old)) == (None, "stopped", "completed")
        assert told(stage.session(new)) == (puppet.pid, "idle", "idle")

    def test_the_session_in_its_arguments_may_be_left_too(self, stage: OpenCodeStage) -> None:
        first = tui(stage)
        old = did(first, "work", "rest")
        first.finish()
        puppet = tui(stage, "-s", old)
        assert told(stage.session(old)) == (puppet.pid, "idle", "idle")
        new = did(puppet, "new", "work")
        assert told(stage.session(old)) == (None, "stopped", "completed")
        assert told(stage.session(new)) == (puppet.pid, "running", "working")

    def test_a_server_keeps_all(self, stage: OpenCodeStage) -> None:
        server = stage.start(stage.root / "server", environ=logging("serve"))
        one, two = did(server, "new /a", "work", "rest"), did(server, "new /b", "work")
        at_its_prompt = tui(stage)
        assert told(stage.session(one)) == (server.pid, "idle", "idle")
        assert told(stage.session(two)) == (server.pid, "running", "working")
        assert bare(stage, at_its_prompt) == ("idle", "idle")

    def test_another_process_goes_on_with_it(self, stage: OpenCodeStage) -> None:
        puppet = tui(stage)
        session_id = did(puppet, "work", "rest")
        run = stage.start(environ=logging("run", "--session", session_id, "more"))
        did(run, "work")
        assert told(stage.session(session_id)) == (run.pid, "running", "working")
        run.kill()  # the open turn is not that of the one which still shows it
        assert told(stage.session(session_id)) == (None, "stopped", "killed")
        assert bare(stage, puppet) == ("idle", "idle")


class TestTurnsOfTheDead:
    def test_a_killed_turn_is_not_open_where_it_is_resumed(self, stage: OpenCodeStage) -> None:
        first = tui(stage)
        session_id = did(first, "work")
        first.kill()
        again = tui(stage, "-s", session_id)
        assert told(stage.session(session_id)) == (again.pid, "idle", "idle")
        did(again, "work")
        assert told(stage.session(session_id)) == (again.pid, "running", "working")

    def test_nor_where_nothing_is_logged(self, stage: OpenCodeStage) -> None:
        first = stage.start()
        session_id = did(first, "work")
        first.kill()
        stage.age()
        again = stage.start(environ=called("-s", session_id))
        assert told(stage.session(session_id)) == (again.pid, "idle", "idle")


class TestWhatIsNotToldYet:
    def test_a_new_session_is_never_called_stopped(self, stage: OpenCodeStage) -> None:
        puppet = tui(stage)
        old = did(puppet, "work", "rest", "lag")
        new = did(puppet, "new", "work")
        assert told(stage.session(old)) == (puppet.pid, "idle", "idle")
        assert told(stage.session(new)) == (None, "unknown", "unknown")

    def test_a_first_one_is_inferred_for_a_moment(
        self, stage: OpenCodeStage, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        puppet = tui(stage)
        session_id = did(puppet, "lag", "work")
        assert told(stage.session(session_id)) == (puppet.pid, "running", "working")
        # later it would have been logged: it may be that of one which was killed before
        monkeypatch.setattr(binding, "LOGGED_WITHIN", 0.0)
        assert told(stage.session(session_id)) == (None, "unknown", "unknown")
        assert bare(stage, puppet) == ("running", "unknown")

    def test_one_that_logs_errors_alone_is_not_ruled_out_by_its_silence(
        self, stage: OpenCodeStage
    ) -> None:
        puppet = stage.start()
        session_id = did(puppet, "work", "warn")
        assert told(stage.session(session_id)) == (puppet.pid, "running", "working")

    def test_one_that_logs_all_is(self, stage: OpenCodeStage) -> None:
        silent, puppet = stage.start(), tui(stage)
        session_id = did(silent, "work")
        did(puppet, "new", "work")
        assert told(stage.session(session_id)) == (silent.pid, "running", "working")

    def test_first_lines_written_while_we_look(
        self, stage: OpenCodeStage, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        puppet = stage.start()
        ask = Process.position_in

        def then_it_writes(process: Process, path: str) -> int:
            position = ask(process, path)
            if puppet.session_id is None:
                did(puppet, "speak", "work")
            return position

        monkeypatch.setattr(Process, "position_in", then_it_writes)
        (row,) = stage.survey().sessions
        assert told(row) == (puppet.pid, "running", "working")

    def test_what_a_line_quotes_is_no_line(self, stage: OpenCodeStage) -> None:
        puppet = tui(stage)
        session_id = did(puppet, "work")
        line = "timestamp=2099-01-01T00:00:00.000Z level=INFO run=beef0000 message="
        with (stage.database.parent / "log" / "opencode.log").open("a") as log:
            log.write(f'{line}evaluated pattern="{line}loop session.id={session_id} step=0"\n')
        assert told(stage.session(session_id)) == (puppet.pid, "running", "working")

    @pytest.mark.parametrize("harm", ["emptied", "deleted"])
    def test_a_log_that_was_harmed(self, stage: OpenCodeStage, harm: str) -> None:
        one = tui(stage)
        session_id = did(one, "work")
        log = stage.database.parent / "log" / "opencode.log"
        if harm == "deleted":
            log.unlink()
        else:
            os.truncate(log, 0)
            tui(stage)  # its lines are not those of the first, who stands beyond the end now
        row = stage.session(session_id)
        assert told(row) == (one.pid, "running", "working")
        assert "bound by inferred" in next(e.note for e in row.seen.evidence if e.claim == "alive")


class TestAsking:
    def test_a_tool_that_takes_no_time(self, stage: OpenCodeStage) -> None:
        puppet = tui(stage)
        session_id = did(puppet, "work", "slow grep")
        # the log may tell of a question later than the database tells of the call
        until(
            lambda: told(stage.session(session_id)) == (puppet.pid, "running", "working"),
            "it would have been asked for by now",
        )
        did(puppet, "rest", "work", "ask read")
        verdict = stage.waiting(session_id).verdict
        assert (verdict.status, verdict.waiting_for) == ("waiting", "permission")

    def test_one_that_takes_some_may_run_by_now(self, stage: OpenCodeStage) -> None:
        puppet = tui(stage)
        session_id = did(puppet, "work", "slow webfetch")
        assert told(stage.session(session_id)) == (puppet.pid, "running", "unknown")
        until(
            lambda: told(stage.session(session_id)) == (puppet.pid, "running", "working"),
            "it would have been asked for by now",
        )
        did(puppet, "rest", "work", "ask webfetch")
        _age_the_call(stage)
        assert told(stage.session(session_id)) == (puppet.pid, "running", "unknown")

    def test_without_a_log_nobody_knows(self, stage: OpenCodeStage) -> None:
        """It may log errors alone."""
        puppet = stage.start()
        session_id = did(puppet, "work", "slow webfetch")
        _age_the_call(stage)
        assert told(stage.session(session_id)) == (puppet.pid, "running", "unknown")

    def test_a_call_that_the_log_was_not_asked_about_runs(self, stage: OpenCodeStage) -> None:
        """`write` has no metadata while a language server checks what it wrote."""
        puppet = tui(stage)
        session_id = did(puppet, "work", "slow write")
        until(
            lambda: told(stage.session(session_id)) == (puppet.pid, "running", "working"),
            "it would have been asked for by now",
        )


def _age_the_call(stage: OpenCodeStage) -> None:
    """As if it had begun a while ago, but after its process."""
    stage.write(
        "update part set data = json_set(data, '$.state.time.start',"
        " json_extract(data, '$.state.time.start') - 5000)"
    )


class TestAtItsPrompt:
    def test_it_is_idle(self, stage: OpenCodeStage) -> None:
        assert bare(stage, stage.start()) == ("idle", "idle")
        assert bare(stage, stage.start(stage.root / "server", environ=called("serve"))) == (
            "idle",
            "idle",
        )

    def test_one_that_was_given_a_prompt_is_about_to_work(self, stage: OpenCodeStage) -> None:
        puppet = stage.start(environ=called("--prompt", "hello"))
        assert bare(stage, puppet) == ("running", "unknown")

    def test_an_open_turn_that_may_be_its_own(self, stage: OpenCodeStage, tmp_path: Path) -> None:
        puppet, run = stage.start(), stage.run(tmp_path / "elsewhere")
        did(run, "work")
        assert bare(stage, puppet) == ("idle", "idle")  # it is another's
        run.kill()
        assert bare(stage, puppet) == ("running", "unknown")
