"""Each change is reported once, with its evidence: of every agent, launched by us or not."""

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentctl import paths
from agentctl.state import launch_writes, launches
from agentctl.system.proc import Process, ProcessIdentity
from agentctl.testing import Puppet, Stage
from agentctl.truth.event import Event
from agentctl.truth.judge import judge
from agentctl.truth.model import Launch
from agentctl.truth.survey import HistoryQuery, Survey
from agentctl.watch import story
from agentctl.watch.observer import Observer
from agentctl.watch.schedule import NEVER, Schedule
from agentctl.watch.sources import NOTHING
from agentctl.watch.story import Story, key_of
from tests.fakes.claude import ClaudeStage
from tests.fakes.codex import CodexStage
from tests.fakes.demo import DemoStage
from tests.fakes.opencode import OpenCodeStage
from tests.fakes.pi import PiStage
from tests.fakes.stages import stages
from tests.waiting import until

STAGES = stages()


class Recorder:
    """An observer that the test drives, and all its events."""

    def __init__(
        self, stage: Stage, story: Story | None = None, away: float | None = None, *, silent: bool = True
    ) -> None:
        self.stage = stage
        self.events: list[Event] = []
        self.observer = Observer(story or Story(), self.events.extend, stage.environ)
        self.observer.begin(away, silent=silent)

    def types(self, subject: str | None = None) -> list[str]:
        return [e.type for e in self.events if subject is None or e.subject == subject]

    def until(self, kind: str, subject: str | None) -> Event:
        def has_event() -> bool:
            self.observer.step(0.02)
            return any((e.type, e.subject) == (kind, subject) for e in self.events)

        until(has_event, f"{kind} of {subject}")
        return next(e for e in self.events if (e.type, e.subject) == (kind, subject))

    def count_looks(self) -> int:
        """Return the number of looks, after one more step."""
        self.observer.step(0.02)
        return self.observer.looks

    def settle(self) -> None:
        """Check that without a change there is no event."""
        count = len(self.events)
        for _ in range(10):
            self.observer.step(0.02)
        assert len(self.events) == count, self.types()


@pytest.fixture
def demo(tmp_path: Path) -> Iterator[DemoStage]:
    stage = DemoStage(tmp_path)
    yield stage
    stage.close()


@pytest.fixture
def recorder(stage: Stage) -> Iterator[Recorder]:
    recorder = Recorder(stage)
    yield recorder
    recorder.observer.close()


def start_work(recorder: Recorder) -> Puppet:
    puppet = recorder.stage.start()
    puppet.do("work")
    recorder.until("session.running", puppet.session_id)
    return puppet


def test_each_change_from_start_to_end_is_one_event(recorder: Recorder) -> None:
    puppet = start_work(recorder)
    assert recorder.types(puppet.session_id)[0] in ("session.started", "session.identified")
    puppet.do("rest")
    idle = recorder.until("session.idle", puppet.session_id)
    assert idle.body["session"]["status"] == "idle"
    assert {piece["claim"] for piece in idle.body["evidence"]} == {"alive", "idle"}
    assert idle.at is not None
    assert abs(idle.at - idle.seen_at) < 60
    puppet.finish()
    stopped = recorder.until("session.stopped", puppet.session_id)
    assert stopped.body["session"]["pid"] is None
    recorder.settle()
    assert recorder.types(puppet.session_id)[1:] == [
        "session.running",
        "session.idle",
        "session.stopped",
    ]
    assert len([kind for kind in recorder.types() if kind == "session.started"]) == 1


@pytest.mark.parametrize("stage", [ClaudeStage, CodexStage], indirect=True)
def test_a_process_of_any_name_is_reported_with_its_first_trace(stage: Stage) -> None:
    stage.alias = "any-name"
    recorder = Recorder(stage)
    try:
        recorder.observer.step(0.02)
        puppet = start_work(recorder)
        puppet.kill()
        recorder.until("session.stopped", puppet.session_id)
    finally:
        recorder.observer.close()


def test_a_kill_is_reported_with_evidence_of_the_kernel(recorder: Recorder) -> None:
    puppet = start_work(recorder)
    puppet.kill()
    stopped = recorder.until("session.stopped", puppet.session_id)
    assert stopped.body["session"]["outcome"] == "killed"
    assert {"ended", "gone"} & {piece["claim"] for piece in stopped.body["evidence"]}
    recorder.settle()


def test_a_resumed_session_starts_again(recorder: Recorder) -> None:
    puppet = start_work(recorder)
    puppet.kill()
    recorder.until("session.stopped", puppet.session_id)
    recorder.events.clear()
    again = recorder.stage.start(resume=puppet.session_id)
    again.do("work")
    recorder.until("session.running", puppet.session_id)
    assert "session.started" in recorder.types()
    recorder.settle()


def test_a_wait_for_the_user_is_reported(recorder: Recorder) -> None:
    puppet = start_work(recorder)
    if not recorder.stage.can_ask:
        pytest.skip("this agent does not tell that it waits")
    puppet.do("ask")
    waits = recorder.until("session.waiting", puppet.session_id)
    assert waits.body["session"]["waiting_for"] is not None


def test_sessions_from_before_the_start_cause_no_event(stage: Stage) -> None:
    puppet = stage.start()
    puppet.do("work")
    puppet.do("rest")
    recorder = Recorder(stage)
    try:
        recorder.settle()
        assert recorder.events == []
        puppet.do("work")
        recorder.until("session.running", puppet.session_id)
    finally:
        recorder.observer.close()


def test_a_new_observer_reports_the_gap_and_what_happened_in_it(stage: Stage) -> None:
    first = Recorder(stage, silent=False)
    survivor, victim = stage.start(stage.root / "a"), stage.start(stage.root / "b")
    for puppet in (survivor, victim):
        puppet.do("work")
        first.until("session.running", puppet.session_id)
    first.observer.close()
    victim.kill()
    unseen = stage.start(stage.root / "c")
    unseen.do("work")
    unseen.do("rest")
    unseen.finish()
    last = {(e.adapter, e.subject): e for e in first.events}
    away = max(e.seen_at for e in first.events)
    second = Recorder(stage, Story(last.values(), away), away, silent=False)
    try:
        second.until("session.stopped", victim.session_id)
        second.until("session.stopped", unseen.session_id)
        second.settle()
        assert second.types()[0] == "events.gap"
        assert second.types(victim.session_id) == ["session.stopped"]
        assert second.types(unseen.session_id) == ["session.started", "session.stopped"]
        assert second.types(survivor.session_id) == []
    finally:
        second.observer.close()


@pytest.mark.parametrize("stage", [OpenCodeStage], indirect=True)  # others have one from the start
def test_a_process_without_a_session_is_reported_by_its_address(recorder: Recorder) -> None:
    puppet = recorder.stage.start()
    assert puppet.session_id is None
    started = recorder.until("session.started", puppet.identity.address)
    assert started.body["session"]["id"] is None
    puppet.do("work")
    event = recorder.until("session.identified", puppet.session_id)
    assert event.body["data"]["was"] == puppet.identity.address
    recorder.until("session.running", puppet.session_id)
    puppet.kill()
    recorder.until("session.stopped", puppet.session_id)
    recorder.settle()
    assert recorder.types().count("session.started") == 1
    assert recorder.types().count("session.stopped") == 1


def test_a_session_recorded_just_before_the_end_is_reported(tmp_path: Path) -> None:
    """Pi before 0.99 does this, in a run of a second or two. No other session is reported, also if two
    end between two looks."""
    stage = PiStage(tmp_path)
    stage.environ["PUPPET_PI"] = "0.73"
    earlier = stage.start()
    earlier.do("work")
    earlier.do("rest")
    earlier.finish()
    recorder = Recorder(stage)
    try:
        puppets = [stage.start(stage.root / name) for name in ("one", "two")]
        until(lambda: recorder.count_looks() > 0 and len(recorder.observer._last) == 2, "both are seen")
        assert recorder.types() == []
        for puppet in puppets:
            puppet.do("work")
            puppet.do("rest")
            puppet.finish()
        for puppet in puppets:
            recorder.until("session.stopped", puppet.session_id)
            assert recorder.types(puppet.session_id) == ["session.started", "session.stopped"]
        recorder.settle()
        assert {event.subject for event in recorder.events} == {p.session_id for p in puppets}
    finally:
        recorder.observer.close()
        stage.close()


def test_the_session_of_a_process_that_ends_during_a_look_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = PiStage(tmp_path)
    stage.environ["PUPPET_PI"] = "0.73"
    recorder = Recorder(stage)
    try:
        puppet = stage.start()
        until(lambda: recorder.count_looks() > 0 and len(recorder.observer._last) == 1, "it is seen")
        ask = Observer._survey

        def end_and_survey(observer: Observer, adapter: str, query: HistoryQuery | None) -> Survey:
            if adapter == "pi" and not puppet.has_ended:
                for step in ("work", "rest"):
                    puppet.do(step)
                puppet.finish()
            return ask(observer, adapter, query)

        monkeypatch.setattr(Observer, "_survey", end_and_survey)
        recorder.observer._look("pi")
        recorder.until("session.stopped", puppet.session_id)
        assert recorder.types(puppet.session_id) == ["session.started", "session.stopped"]
    finally:
        recorder.observer.close()
        stage.close()


def test_the_end_of_a_process_that_leaves_no_file_is_reported(demo: DemoStage) -> None:
    recorder = Recorder(demo)
    try:
        puppet = start_work(recorder)
        for path in demo.records(puppet):
            path.unlink()
        puppet.kill()
        stopped = recorder.until("session.stopped", puppet.session_id)
        assert stopped.body["session"]["exit_code"] in (-9, None)
        recorder.settle()
    finally:
        recorder.observer.close()


def test_a_process_that_hides_its_session_for_a_moment_keeps_it(demo: DemoStage) -> None:
    """Pi does this just after its start, and Claude Code before its end."""
    recorder = Recorder(demo)
    try:
        puppet = start_work(recorder)
        record = demo.records(puppet)[0]
        text = record.read_text()
        looks = recorder.observer.looks
        record.unlink()
        until(lambda: recorder.count_looks() > looks + 1, "it is looked at")
        recorder.settle()
        record.write_text(text)
        puppet.do("rest")
        recorder.until("session.idle", puppet.session_id)
        puppet.kill()
        recorder.until("session.stopped", puppet.session_id)
        recorder.settle()
        assert [e.subject for e in recorder.events if e.type == "session.started"] == [puppet.session_id]
        assert recorder.types().count("session.stopped") == 1
    finally:
        recorder.observer.close()


def test_a_session_that_stays_hidden_is_unknown(demo: DemoStage) -> None:
    """As in `list`: the last status must not stay for ever."""
    recorder = Recorder(demo)
    try:
        puppet = start_work(recorder)
        demo.records(puppet)[0].unlink()
        recorder.until("session.unknown", puppet.session_id)
        recorder.observer._look("demo")
        assert not recorder.observer._doubted, "it is reported, and needs no more looks"
        puppet.kill()
        recorder.until("session.stopped", puppet.session_id)
        recorder.settle()
        assert recorder.types().count("session.started") == 1
        assert recorder.types().count("session.stopped") == 1
    finally:
        recorder.observer.close()


def test_a_new_child_of_a_waiting_or_idle_session_causes_a_look(demo: DemoStage) -> None:
    """Codex writes nothing when the user has allowed a command: it starts it."""
    recorder = Recorder(demo)

    def is_looked_at(parent: int) -> bool:
        schedule = recorder.observer._schedules["demo"] = Schedule()
        recorder.observer._schedule_looks(
            NOTHING, [Process(ProcessIdentity("", 1 << 22, 1), parent, "S", "sh")]
        )
        return schedule.due != NEVER

    try:
        puppet = start_work(recorder)
        assert not is_looked_at(puppet.pid), "one that works has many"
        puppet.do("ask")
        recorder.until("session.waiting", puppet.session_id)
        assert not is_looked_at(1), "a child of another process"
        assert is_looked_at(puppet.pid)
        puppet.do("rest")
        recorder.until("session.idle", puppet.session_id)
        assert is_looked_at(puppet.pid), "it may begin to work outside a turn"
    finally:
        recorder.observer.close()


def test_an_unknown_activity_is_reported_only_if_it_lasts(
    demo: DemoStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An agent that is about to end removes the evidence that it is idle: that is no work."""
    recorder = Recorder(demo)
    try:
        puppet = start_work(recorder)
        puppet.do("rest")
        recorder.until("session.idle", puppet.session_id)
        (idle,) = recorder.observer._last.values()
        alive = idle.observation.evidence[:1]
        silent = idle._replace(
            observation=idle.observation._replace(evidence=alive), verdict=judge(alive)
        )
        assert (silent.verdict.status, silent.verdict.activity) == ("running", "unknown")
        key = key_of(silent)
        assert recorder.observer._update(key, silent) == []
        assert recorder.observer._update(key, idle) == [], "it was a moment"
        assert recorder.observer._update(key, silent) == []
        monkeypatch.setattr(story, "DOUBT", 0.0)
        assert [e.type for e in recorder.observer._update(key, silent)] == ["session.running"]
    finally:
        recorder.observer.close()


@pytest.fixture
def pi(tmp_path: Path) -> Iterator[PiStage]:
    stage = PiStage(tmp_path)
    yield stage
    stage.close()


@pytest.mark.few(1)
@pytest.mark.parametrize("harm", ["deleted", "emptied"])
def test_a_session_whose_file_is_lost_is_unknown(pi: PiStage, harm: str) -> None:
    """Its process lives and does not show the session: it may not be reported as working."""
    recorder = Recorder(pi)
    try:
        puppet = start_work(recorder)
        (path,) = pi.files()
        if harm == "deleted":
            path.unlink()
        else:
            os.truncate(path, 0)
        recorder.until("session.unknown", puppet.session_id)
        recorder.settle()
        assert "session.stopped" not in recorder.types()
    finally:
        recorder.observer.close()


def test_work_outside_a_turn_is_reported(pi: PiStage) -> None:
    """No file changes: a new child of an idle session causes the look."""
    recorder = Recorder(pi)
    try:
        puppet = start_work(recorder)
        puppet.do("rest")
        recorder.until("session.idle", puppet.session_id)
        recorder.events.clear()
        puppet.do("command")
        assert (
            recorder.until("session.running", puppet.session_id).body["session"]["activity"] == "working"
        )
    finally:
        recorder.observer.close()


def test_an_activity_that_becomes_unknown_is_reported(tmp_path: Path) -> None:
    """A torn line stays: `working` is replaced by an unknown activity."""
    codex = CodexStage(tmp_path)
    recorder = Recorder(codex)
    try:
        puppet = start_work(recorder)
        recorder.events.clear()
        (path,) = codex.codex_home.glob("sessions/*/*/*/*.jsonl")
        with path.open("ab") as file:
            file.write(b'{"timestamp":"2026-11')
        assert (
            recorder.until("session.running", puppet.session_id).body["session"]["activity"] == "unknown"
        )
        recorder.settle()
    finally:
        recorder.observer.close()
        codex.close()


def test_a_look_rests_while_a_launch_without_a_session_ends(
    pi: PiStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its shim still has to record the exit code: there is a rest between two looks."""
    puppet = pi.start()
    note = Launch("1a", puppet.identity, adapter="pi", cwd=str(pi.work))
    launch_writes.begin_launch(paths.database_file(pi.environ["AGENTCTL_HOME"]), note)
    recorder = Recorder(pi)
    fresh = []
    end_look = Schedule.end_look

    def record_fresh(schedule: Schedule, *moments: float, **flags: bool) -> None:
        fresh.append(flags["fresh"])
        end_look(schedule, *moments, **flags)

    try:
        until(lambda: recorder.count_looks() > 0 and len(recorder.observer._last) == 1, "it is seen")
        puppet.kill()
        recorder.observer._look("pi")
        monkeypatch.setattr(Schedule, "end_look", record_fresh)
        recorder.observer._look("pi")
        assert fresh == [False]
        recorder.until("session.stopped", puppet.identity.address)
    finally:
        recorder.observer.close()


def test_the_end_of_a_launch_that_has_no_name_yet_waits_for_its_exit_code(demo: DemoStage) -> None:
    """The agent ended before its launcher had recorded which session it ran."""
    recorder = Recorder(demo)
    notes = paths.database_file(demo.environ["AGENTCTL_HOME"])
    try:
        puppet = start_work(recorder)
        note = Launch("1a", puppet.identity, adapter="demo", cwd=str(demo.work))
        launch_writes.begin_launch(notes, note)
        folder = Path(launches.launch_folder(notes, note.id))
        folder.mkdir(parents=True, mode=0o700)
        (folder / "exit").write_text(json.dumps({"code": -9, "at": time.time() + 1}))
        puppet.kill()
        looks = recorder.observer.looks
        until(lambda: recorder.count_looks() > looks + 1, "its end is seen")
        recorder.settle()
        launch_writes.record_session(notes, note._replace(session_id=puppet.session_id))
        stopped = recorder.until("session.stopped", puppet.session_id)
        assert stopped.body["session"]["exit_code"] == -9
        assert stopped.body["session"]["launch"]["id"] == "1a"
    finally:
        recorder.observer.close()
