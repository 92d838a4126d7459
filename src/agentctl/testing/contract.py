"""The contract of every adapter, as tests over real processes.

class TestMine(AdapterContract):
    @pytest.fixture
    def stage(self, tmp_path):
        stage = MyStage(tmp_path)
        yield stage
        stage.close()
"""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from agentctl.adapters import registry
from agentctl.system.proc import PROC
from agentctl.testing.puppet import Puppet
from agentctl.testing.stage import Stage
from agentctl.truth.look import Look
from agentctl.truth.survey import HistoryQuery

LIVING = ("running", "waiting", "idle", "unknown")


class AdapterContract:
    """Subclass with a `stage` fixture."""

    def _started(self, stage: Stage) -> tuple[Puppet, str]:
        puppet = stage.start()
        puppet.do("work")
        assert puppet.session_id is not None
        return puppet, puppet.session_id

    def test_a_new_agent_is_listed_at_once(self, stage: Stage) -> None:
        puppet = stage.start()
        row = stage.find_row(puppet)
        assert row is not None
        assert row.verdict.status in LIVING

    def test_an_open_turn_is_running(self, stage: Stage) -> None:
        _, session_id = self._started(stage)
        verdict = stage.session(session_id).verdict
        assert (verdict.status, verdict.activity) == ("running", "working")

    def test_a_question_is_waiting(self, stage: Stage) -> None:
        if not stage.can_ask:
            pytest.skip(f"{stage.adapter} never shows that it waits for the user")
        puppet, session_id = self._started(stage)
        puppet.do("ask")
        verdict = stage.wait_for_question(session_id).verdict
        assert verdict.status == "waiting"
        assert verdict.waiting_for in ("permission", "question", "startup")

    def test_a_closed_turn_is_idle(self, stage: Stage) -> None:
        puppet, session_id = self._started(stage)
        puppet.do("rest")
        assert stage.session(session_id).verdict.status == "idle"
        puppet.do("work")
        assert stage.session(session_id).verdict.status == "running"

    def test_a_clean_end_is_completed(self, stage: Stage) -> None:
        puppet, session_id = self._started(stage)
        puppet.do("rest")
        puppet.finish()
        verdict = stage.session(session_id).verdict
        assert (verdict.status, verdict.outcome) == ("stopped", "completed")
        assert verdict.exit_code is None  # unknown, not 0

    def test_a_failed_turn_is_failed(self, stage: Stage) -> None:
        if not stage.writes_failures:
            pytest.skip(f"{stage.adapter} does not record that a turn failed")
        puppet, session_id = self._started(stage)
        puppet.do("fail")
        puppet.finish(1)
        assert stage.session(session_id).verdict.outcome == "failed"

    def test_a_killed_one_is_stopped_and_never_completed(self, stage: Stage) -> None:
        puppet, session_id = self._started(stage)
        puppet.kill(signal.SIGKILL)
        verdict = stage.session(session_id).verdict
        assert (verdict.status, verdict.outcome) == ("stopped", "killed")

    def test_a_zombie_is_not_alive(self, stage: Stage) -> None:
        puppet, session_id = self._started(stage)
        puppet.kill(signal.SIGKILL, reap=False)
        assert stage.session(session_id).verdict.status == "stopped"

    def test_absent_records_never_make_it_stopped(self, stage: Stage) -> None:
        puppet, _ = self._started(stage)
        for path in stage.records(puppet):
            path.unlink()
        row = stage.find_row(puppet)
        assert row is not None
        assert row.verdict.status in LIVING

    @pytest.mark.parametrize("rubbish", [b"", b"\0" * 4096, b'{"half', b"\xff\xfe[]\n" * 9])
    def test_rubbish_never_makes_it_stopped(self, stage: Stage, rubbish: bytes) -> None:
        puppet, _ = self._started(stage)
        for path in stage.records(puppet):
            path.write_bytes(rubbish)
        row = stage.find_row(puppet)
        assert row is not None
        assert row.verdict.status in LIVING

    def test_a_fifo_in_place_of_a_record_does_not_hang(self, stage: Stage) -> None:
        puppet, _ = self._started(stage)
        for path in stage.records(puppet):
            path.unlink()
            os.mkfifo(path)
        survey = stage.survey(HistoryQuery())
        assert survey.problems
        assert "late" not in {problem.kind for problem in survey.problems}
        assert stage.find_row(puppet) is not None

    def test_of_two_in_one_directory_only_the_dead_one_stops(self, stage: Stage) -> None:
        one, first = self._started(stage)
        two, second = self._started(stage)
        assert first != second
        one.kill()
        assert stage.find_row(two) is not None
        assert stage.session(first).verdict.status in ("stopped", "unknown")
        assert stage.session(second).verdict.status != "stopped"

    def test_history_is_found_by_prefix_and_since(self, stage: Stage) -> None:
        puppet, session_id = self._started(stage)
        puppet.do("rest")
        puppet.finish()
        by_prefix = stage.survey(HistoryQuery(id_prefix=session_id[:-1])).sessions
        assert [s.observation.session_id for s in by_prefix] == [session_id]
        assert stage.survey(HistoryQuery(id_prefix="no such id")).sessions == []
        assert stage.survey(HistoryQuery(since=Look.take().now + 3600)).sessions == []

    def test_facts_and_messages(self, stage: Stage) -> None:
        puppet = stage.start(prompt="paint the shed")
        puppet.do("work")
        puppet.do("rest")
        session = stage.session(puppet.session_id or "")
        assert session.observation.facts.cwd == os.path.realpath(puppet.cwd)
        assert session.observation.facts.prompt == "paint the shed"
        assert session.observation.facts.started_at is not None
        adapter = registry.load(stage.adapter)
        texts = [m.text for m in adapter.messages(session.observation, Look.take(stage.environ))]
        assert any("paint the shed" in text for text in texts)
        assert "paint the shed" in texts[-1]  # newest first

    def test_a_resumed_session_keeps_its_id(self, stage: Stage) -> None:
        puppet, session_id = self._started(stage)
        puppet.do("rest")
        puppet.finish()
        again = stage.start(resume=session_id)
        again.do("work")
        assert again.session_id == session_id
        row = stage.session(session_id)
        assert row.verdict.status == "running"
        assert row.observation.owner is not None
        assert row.observation.owner.pid == again.pid

    def test_evidence_has_addresses_that_exist(self, stage: Stage) -> None:
        _, session_id = self._started(stage)
        for evidence in stage.session(session_id).verdict.used:
            path, _, _ = evidence.address.partition("@")
            if path.startswith("proc:"):
                path = f"{PROC}/{path.removeprefix('proc:')}"
            assert Path(path.partition("#")[0]).exists(), evidence.address

    def test_places_are_told(self, stage: Stage) -> None:
        self._started(stage)
        look = Look.take(stage.environ).scope_to(stage.adapter)
        assert list(registry.load(stage.adapter).places(look))
