"""What OpenCode's log shows, and what it does not: which process works on which session."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentctl.adapters.opencode import binding, log
from agentctl.system import files
from agentctl.system.proc import Process
from agentctl.testing import Puppet
from agentctl.truth.model import Session
from tests.fakes.opencode import OpenCodeStage, called, logging, milliseconds, run_steps
from tests.waiting import until

STAGE = OpenCodeStage


def tui(stage: OpenCodeStage, *words: str) -> Puppet:
    return stage.start(environ=logging(*words))


def state_of(session: Session) -> tuple[int | None, str, str]:
    owner, verdict = session.observation.owner, session.verdict
    return owner.pid if owner else None, verdict.status, verdict.outcome or verdict.activity


def bare_state(stage: OpenCodeStage, puppet: Puppet) -> tuple[str, str]:
    """Of a process without a session."""
    row = stage.find_row(puppet)
    assert row is not None
    assert row.observation.session_id is None
    return row.verdict.status, row.verdict.activity


class TestOwners:
    def test_two_in_one_directory(self, stage: OpenCodeStage) -> None:
        one, two = tui(stage), tui(stage)
        first, second = run_steps(one, "work"), run_steps(two, "work", "rest")
        assert state_of(stage.session(first)) == (one.pid, "running", "working")
        assert state_of(stage.session(second)) == (two.pid, "idle", "idle")
        alive = next(e for e in stage.session(first).observation.evidence if e.claim == "alive")
        assert alive.note.startswith("bound by held open: ")
        assert "/log/opencode.log@" in alive.note

    def test_one_of_them_killed(self, stage: OpenCodeStage) -> None:
        one, two, at_its_prompt = tui(stage), tui(stage), tui(stage)
        first, second = run_steps(one, "work"), run_steps(two, "work")
        two.kill()
        assert state_of(stage.session(first)) == (one.pid, "running", "working")
        assert state_of(stage.session(second)) == (None, "stopped", "killed")
        assert bare_state(stage, at_its_prompt) == ("idle", "idle")

    def test_a_session_that_it_has_left_is_over(self, stage: OpenCodeStage) -> None:
        puppet = tui(stage)
        old, new = run_steps(puppet, "work", "rest"), run_steps(puppet, "new", "work")
        assert state_of(stage.session(old)) == (None, "stopped", "completed")
        assert state_of(stage.session(new)) == (puppet.pid, "running", "working")
        run_steps(puppet, "rest", f"use {old}", "work")
        assert state_of(stage.session(old)) == (puppet.pid, "running", "working")
        assert state_of(stage.session(new)) == (None, "stopped", "completed")

    def test_a_session_that_it_has_left_at_work_goes_on(self, stage: OpenCodeStage) -> None:
        puppet = tui(stage)
        old, new = run_steps(puppet, "work"), run_steps(puppet, "new", "work")
        for session_id in (old, new):
            assert state_of(stage.session(session_id)) == (puppet.pid, "running", "working")
        run_steps(puppet, "rest", f"use {old}", "rest")
        assert state_of(stage.session(old)) == (None, "stopped", "completed")
        assert state_of(stage.session(new)) == (puppet.pid, "idle", "idle")

    def test_the_session_in_its_arguments_may_be_left_too(self, stage: OpenCodeStage) -> None:
        first = tui(stage)
        old = run_steps(first, "work", "rest")
        first.finish()
        puppet = tui(stage, "-s", old)
        assert state_of(stage.session(old)) == (puppet.pid, "idle", "idle")
        new = run_steps(puppet, "new", "work")
        assert state_of(stage.session(old)) == (None, "stopped", "completed")
        assert state_of(stage.session(new)) == (puppet.pid, "running", "working")

    def test_a_server_keeps_all(self, stage: OpenCodeStage) -> None:
        server = stage.start(stage.root / "server", environ=logging("serve"))
        one, two = run_steps(server, "new /a", "work", "rest"), run_steps(server, "new /b", "work")
        at_its_prompt = tui(stage)
        assert state_of(stage.session(one)) == (server.pid, "idle", "idle")
        assert state_of(stage.session(two)) == (server.pid, "running", "working")
        assert bare_state(stage, at_its_prompt) == ("idle", "idle")

    def test_another_process_goes_on_with_it(self, stage: OpenCodeStage) -> None:
        puppet = tui(stage)
        session_id = run_steps(puppet, "work", "rest")
        run = stage.start(environ=logging("run", "--session", session_id, "more"))
        run_steps(run, "work")
        assert state_of(stage.session(session_id)) == (run.pid, "running", "working")
        run.kill()  # the open turn is not that of the one which still shows it
        assert state_of(stage.session(session_id)) == (None, "stopped", "killed")
        assert bare_state(stage, puppet) == ("idle", "idle")


class TestKilledTurns:
    def test_a_killed_turn_is_not_open_where_it_is_resumed(self, stage: OpenCodeStage) -> None:
        first = tui(stage)
        session_id = run_steps(first, "work")
        first.kill()
        again = tui(stage, "-s", session_id)
        assert state_of(stage.session(session_id)) == (again.pid, "idle", "idle")
        run_steps(again, "work")
        assert state_of(stage.session(session_id)) == (again.pid, "running", "working")

    def test_a_killed_turn_is_not_open_where_nothing_is_logged(self, stage: OpenCodeStage) -> None:
        first = stage.start()
        session_id = run_steps(first, "work")
        first.kill()
        stage.age()
        again = stage.start(environ=called("-s", session_id))
        assert state_of(stage.session(session_id)) == (again.pid, "idle", "idle")


class TestBeforeItIsLogged:
    def test_a_new_session_is_never_called_stopped(self, stage: OpenCodeStage) -> None:
        puppet = tui(stage)
        old = run_steps(puppet, "work", "rest", "lag")
        new = run_steps(puppet, "new", "work")
        assert state_of(stage.session(old)) == (puppet.pid, "idle", "idle")
        assert state_of(stage.session(new)) == (None, "unknown", "unknown")

    def test_a_first_one_is_inferred_for_a_moment(
        self, stage: OpenCodeStage, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        puppet = tui(stage)
        session_id = run_steps(puppet, "lag", "work")
        assert state_of(stage.session(session_id)) == (puppet.pid, "running", "working")
        # later it would have been logged: it may be that of one which was killed before
        monkeypatch.setattr(binding, "LOG_DELAY", 0.0)
        assert state_of(stage.session(session_id)) == (None, "unknown", "unknown")
        assert bare_state(stage, puppet) == ("running", "unknown")

    def test_one_that_logs_errors_alone_is_not_ruled_out_by_its_silence(
        self, stage: OpenCodeStage
    ) -> None:
        puppet = stage.start()
        session_id = run_steps(puppet, "work", "warn")
        assert state_of(stage.session(session_id)) == (puppet.pid, "running", "working")

    def test_one_that_logs_all_is_ruled_out_by_its_silence(self, stage: OpenCodeStage) -> None:
        silent, puppet = stage.start(), tui(stage)
        session_id = run_steps(silent, "work")
        # The fake dates an answer after its prompt, even within a millisecond: let that one pass.
        answered_by = milliseconds() + 2
        until(lambda: milliseconds() > answered_by, "the next millisecond")
        run_steps(puppet, "new", "work")
        assert state_of(stage.session(session_id)) == (silent.pid, "running", "working")

    def test_first_lines_written_while_we_look(
        self, stage: OpenCodeStage, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        puppet = stage.start()
        ask = Process.read_file_position

        def then_it_writes(process: Process, path: str) -> int:
            position = ask(process, path)
            if puppet.session_id is None:
                run_steps(puppet, "speak", "work")
            return position

        monkeypatch.setattr(Process, "read_file_position", then_it_writes)
        (row,) = stage.survey().sessions
        assert state_of(row) == (puppet.pid, "running", "working")

    def test_a_line_quoted_in_a_line_is_no_line(self, stage: OpenCodeStage) -> None:
        puppet = tui(stage)
        session_id = run_steps(puppet, "work")
        line = "timestamp=2099-01-01T00:00:00.000Z level=INFO run=beef0000 message="
        with (stage.database.parent / "log" / "opencode.log").open("a") as log:
            log.write(f'{line}evaluated pattern="{line}loop session.id={session_id} step=0"\n')
        assert state_of(stage.session(session_id)) == (puppet.pid, "running", "working")

    @pytest.mark.parametrize("harm", ["emptied", "deleted"])
    def test_a_log_that_was_harmed(self, stage: OpenCodeStage, harm: str) -> None:
        one = tui(stage)
        session_id = run_steps(one, "work")
        log = stage.database.parent / "log" / "opencode.log"
        if harm == "deleted":
            log.unlink()
        else:
            os.truncate(log, 0)
            tui(stage)  # its lines are not those of the first, whose position is beyond the end now
        row = stage.session(session_id)
        assert state_of(row) == (one.pid, "running", "working")
        assert "bound by inferred" in next(
            e.note for e in row.observation.evidence if e.claim == "alive"
        )


class TestAsking:
    @pytest.mark.slow
    def test_a_tool_that_takes_no_time(self, stage: OpenCodeStage) -> None:
        puppet = tui(stage)
        session_id = run_steps(puppet, "work", "slow grep")
        # the log may show a question later than the database shows the call
        until(
            lambda: state_of(stage.session(session_id)) == (puppet.pid, "running", "working"),
            "it would have been asked for by now",
        )
        run_steps(puppet, "rest", "work", "ask read")
        verdict = stage.wait_for_question(session_id).verdict
        assert (verdict.status, verdict.waiting_for) == ("waiting", "permission")

    @pytest.mark.slow
    def test_one_that_takes_some_may_run_by_now(self, stage: OpenCodeStage) -> None:
        puppet = tui(stage)
        session_id = run_steps(puppet, "work", "slow webfetch")
        assert state_of(stage.session(session_id)) == (puppet.pid, "running", "unknown")
        until(
            lambda: state_of(stage.session(session_id)) == (puppet.pid, "running", "working"),
            "it would have been asked for by now",
        )
        run_steps(puppet, "rest", "work", "ask webfetch")
        _age_the_call(stage)
        assert state_of(stage.session(session_id)) == (puppet.pid, "running", "unknown")

    def test_without_a_log_its_activity_is_unknown(self, stage: OpenCodeStage) -> None:
        """It may log errors alone."""
        puppet = stage.start()
        session_id = run_steps(puppet, "work", "slow webfetch")
        _age_the_call(stage)
        assert state_of(stage.session(session_id)) == (puppet.pid, "running", "unknown")

    @pytest.mark.slow
    def test_a_call_that_the_log_was_not_asked_about_runs(self, stage: OpenCodeStage) -> None:
        """`write` has no metadata while a language server checks what it wrote."""
        puppet = tui(stage)
        session_id = run_steps(puppet, "work", "slow write")
        until(
            lambda: state_of(stage.session(session_id)) == (puppet.pid, "running", "working"),
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
        assert bare_state(stage, stage.start()) == ("idle", "idle")
        assert bare_state(stage, stage.start(stage.root / "server", environ=called("serve"))) == (
            "idle",
            "idle",
        )

    def test_one_that_was_given_a_prompt_is_about_to_work(self, stage: OpenCodeStage) -> None:
        puppet = stage.start(environ=called("--prompt", "hello"))
        assert bare_state(stage, puppet) == ("running", "unknown")

    def test_an_open_turn_that_may_be_its_own(self, stage: OpenCodeStage, tmp_path: Path) -> None:
        puppet, run = stage.start(), stage.run(tmp_path / "elsewhere")
        run_steps(run, "work")
        assert bare_state(stage, puppet) == ("idle", "idle")  # it is another's
        run.kill()
        assert bare_state(stage, puppet) == ("running", "unknown")


MENTION = re.compile(
    rb"(?m)^timestamp=(\S+) level=\w+ run=(\w+) message="
    rb'(?:created id|(?:loop|process|"exiting loop") session\.id)=(ses_\w+)'
    rb"(?: messageID=(msg_\w+)| step=(\d+))?"
)
TIMES = (b"timestamp=2026-11-15T05:09:28.160Z", b"timestamp=", b"time=1")
LEVELS = (b"level=INFO", b"level=", b"INFO")
RUNS = (b"run=5d22d89c", b"run=", b"run=a-b")
MESSAGES = (
    b"message=loop", b"message=process", b'message="exiting loop"', b"message=created", b"message=other",
)  # fmt: skip
SESSIONS = (b"session.id=ses_a1", b"session.id=ses_a1,", b"session.id=", b"id=ses_b2", b"id=ses_")
ENDS = (
    b"",
    b" messageID=msg_c3",
    b" messageID=msg_c3\xc3\xa4",
    b" step=0",
    b" step=12",
    b" step=",
    b" a=b",
)
HEADS = st.tuples(*map(st.sampled_from, (TIMES, LEVELS, RUNS)))
LINES = st.builds(
    lambda quote, head, message, session, end: quote + b" ".join((*head, message, session)) + end,
    st.sampled_from((b"", b"", b"a ")),
    st.one_of(st.just((TIMES[0], LEVELS[0], RUNS[0])), HEADS),
    st.sampled_from(MESSAGES),
    st.sampled_from(SESSIONS),
    st.sampled_from(ENDS),
)


@given(st.lists(LINES), st.booleans())
def test_the_lines_are_those_of_a_regular_expression(lines: list[bytes], is_complete: bool) -> None:
    data = b"\n".join(lines) + (b"\n" if is_complete else b"")
    expected = [
        log.Mention(
            100 + match.start(),
            run.decode(),
            session.decode(),
            message.decode() if message else None,
            stamp,
            step == b"0",
        )
        for match in MENTION.finditer(data)
        for stamp, run, session, message, step in [match.groups()]
    ]
    piece = files.Piece("log", data, offset=100, size=100 + len(data), mtime=0.0)
    assert sorted(log._read_mentions(piece), key=str) == sorted(expected, key=str)
