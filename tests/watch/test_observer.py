"""What changes is told, once, with its evidence: of every agent, launched by us or not."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentctl import paths
from agentctl.state import launch_writes
from agentctl.system.identity import ProcessIdentity
from agentctl.system.proc import Process
from agentctl.testing import Puppet, Stage
from agentctl.truth.event import Event
from agentctl.truth.judge import judge
from agentctl.truth.model import Launch
from agentctl.truth.survey import Survey, Wanted
from agentctl.watch import patience
from agentctl.watch.observer import Observer
from agentctl.watch.schedule import NEVER, Rhythm
from agentctl.watch.sources import NOTHING
from agentctl.watch.story import Story, key_of
from tests.fakes.claude import ClaudeStage
from tests.fakes.codex import CodexStage
from tests.fakes.demo import DemoStage
from tests.fakes.pi import PiStage
from tests.fakes.stages import stages
from tests.waiting import until

STAGES = stages()


class Told:
    """An observer that is driven by the test, and all it has told."""

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
        def found() -> bool:
            self.observer.step(0.02)
            return any((e.type, e.subject) == (kind, subject) for e in self.events)

        until(found, f"{kind} of {subject}")
        return next(e for e in self.events if (e.type, e.subject) == (kind, subject))

    def stepped(self) -> int:
        """How often it has looked, after one more step."""
        self.observer.step(0.02)
        return self.observer.looks

    def settle(self) -> None:
        """Nothing more is told when nothing happens."""
        count = len(self.events)
        for _ in range(10):
            self.observer.step(0.02)
        assert len(self.events) == count, self.types()


@pytest.fixture
def demo(tmp_path: Path) -> Iterator[DemoStage]:
    made = DemoStage(tmp_path)
    yield made
    made.close()


@pytest.fixture
def told(stage: Stage) -> Iterator[Told]:
    made = Told(stage)
    yield made
    made.observer.close()


def begun(told: Told) -> Puppet:
    puppet = told.stage.start()
    puppet.do("work")
    told.until("session.running", puppet.session_id)
    return puppet


def test_from_its_start_to_its_end(told: Told) -> None:
    puppet = begun(told)
    assert told.types(puppet.session_id)[0] in ("session.started", "session.identified")
    puppet.do("rest")
    idle = told.until("session.idle", puppet.session_id)
    assert idle.body["session"]["status"] == "idle"
    assert {piece["claim"] for piece in idle.body["evidence"]} == {"alive", "idle"}
    assert idle.at is not None
    assert abs(idle.at - idle.seen_at) < 60
    puppet.finish()
    ended = told.until("session.stopped", puppet.session_id)
    assert ended.body["session"]["pid"] is None
    told.settle()
    assert told.types(puppet.session_id)[1:] == ["session.running", "session.idle", "session.stopped"]
    assert len([kind for kind in told.types() if kind == "session.started"]) == 1


@pytest.mark.parametrize("stage", [ClaudeStage, CodexStage], indirect=True)
def test_one_of_any_name_is_told_when_it_leaves_its_first_trace(stage: Stage) -> None:
    stage.alias = "any-name"
    told = Told(stage)
    try:
        told.observer.step(0.02)
        puppet = begun(told)
        puppet.kill()
        told.until("session.stopped", puppet.session_id)
    finally:
        told.observer.close()


def test_a_violent_end_is_told_by_the_kernels_word(told: Told) -> None:
    puppet = begun(told)
    puppet.kill()
    ended = told.until("session.stopped", puppet.session_id)
    assert ended.body["session"]["outcome"] == "killed"
    assert {"ended", "gone"} & {piece["claim"] for piece in ended.body["evidence"]}
    told.settle()


def test_one_that_is_resumed_starts_again(told: Told) -> None:
    puppet = begun(told)
    puppet.kill()
    told.until("session.stopped", puppet.session_id)
    told.events.clear()
    again = told.stage.start(resume=puppet.session_id)
    again.do("work")
    told.until("session.running", puppet.session_id)
    assert "session.started" in told.types()
    told.settle()


def test_one_that_waits_for_a_person(told: Told) -> None:
    puppet = begun(told)
    if not told.stage.can_ask:
        pytest.skip("this agent does not tell that it waits")
    puppet.do("ask")
    waits = told.until("session.waiting", puppet.session_id)
    assert waits.body["session"]["waiting_for"] is not None


def test_what_was_there_before_is_the_beginning_and_no_news(stage: Stage) -> None:
    puppet = stage.start()
    puppet.do("work")
    puppet.do("rest")
    told = Told(stage)
    try:
        told.settle()
        assert told.events == []
        puppet.do("work")
        told.until("session.running", puppet.session_id)
    finally:
        told.observer.close()


def test_who_comes_back_tells_the_gap_and_what_happened_in_it(stage: Stage) -> None:
    first = Told(stage, silent=False)
    lives, dies = stage.start(stage.root / "a"), stage.start(stage.root / "b")
    for puppet in (lives, dies):
        puppet.do("work")
        first.until("session.running", puppet.session_id)
    first.observer.close()
    dies.kill()
    unseen = stage.start(stage.root / "c")
    unseen.do("work")
    unseen.do("rest")
    unseen.finish()
    last = {(e.adapter, e.subject): e for e in first.events}
    away = max(e.seen_at for e in first.events)
    second = Told(stage, Story(last.values(), away), away, silent=False)
    try:
        second.until("session.stopped", dies.session_id)
        second.until("session.stopped", unseen.session_id)
        second.settle()
        assert second.types()[0] == "events.gap"
        assert second.types(dies.session_id) == ["session.stopped"]
        assert second.types(unseen.session_id) == ["session.started", "session.stopped"]
        assert second.types(lives.session_id) == []
    finally:
        second.observer.close()


def test_a_process_without_a_session_is_told_of_by_its_address(told: Told) -> None:
    puppet = told.stage.start()
    if puppet.session_id is not None:
        pytest.skip("this agent has its session from the start")
    started = told.until("session.started", puppet.identity.address)
    assert started.body["session"]["id"] is None
    puppet.do("work")
    found = told.until("session.identified", puppet.session_id)
    assert found.body["data"]["was"] == puppet.identity.address
    told.until("session.running", puppet.session_id)
    puppet.kill()
    told.until("session.stopped", puppet.session_id)
    told.settle()
    assert told.types().count("session.started") == 1
    assert told.types().count("session.stopped") == 1


def test_a_session_that_a_process_wrote_down_just_before_its_end(tmp_path: Path) -> None:
    """As Pi before 0.99 does, which runs for a second or two: it is told, and nothing else is. Also of
    two that end between two looks."""
    stage = PiStage(tmp_path)
    stage.environ["PUPPET_PI"] = "0.73"
    earlier = stage.start()
    earlier.do("work")
    earlier.do("rest")
    earlier.finish()
    told = Told(stage)
    try:
        puppets = [stage.start(stage.root / name) for name in ("one", "two")]
        until(lambda: told.stepped() > 0 and len(told.observer._last) == 2, "both are seen")
        assert told.types() == []
        for puppet in puppets:
            puppet.do("work")
            puppet.do("rest")
            puppet.finish()
        for puppet in puppets:
            told.until("session.stopped", puppet.session_id)
            assert told.types(puppet.session_id) == ["session.started", "session.stopped"]
        told.settle()
        assert {event.subject for event in told.events} == {p.session_id for p in puppets}
    finally:
        told.observer.close()
        stage.close()


def test_a_process_that_ends_while_it_is_looked_at_leaves_its_session(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = PiStage(tmp_path)
    stage.environ["PUPPET_PI"] = "0.73"
    told = Told(stage)
    try:
        puppet = stage.start()
        until(lambda: told.stepped() > 0 and len(told.observer._last) == 1, "it is seen")
        ask = Observer._ask

        def ends(observer: Observer, adapter: str, wanted: Wanted | None) -> Survey:
            if adapter == "pi" and not puppet.ended:
                for step in ("work", "rest"):
                    puppet.do(step)
                puppet.finish()
            return ask(observer, adapter, wanted)

        monkeypatch.setattr(Observer, "_ask", ends)
        told.observer._look("pi")
        told.until("session.stopped", puppet.session_id)
        assert told.types(puppet.session_id) == ["session.started", "session.stopped"]
    finally:
        told.observer.close()
        stage.close()


def test_a_process_that_leaves_no_file_has_still_ended(demo: DemoStage) -> None:
    told = Told(demo)
    try:
        puppet = begun(told)
        for path in demo.records(puppet):
            path.unlink()
        puppet.kill()
        ended = told.until("session.stopped", puppet.session_id)
        assert ended.body["session"]["exit_code"] in (-9, None)
        told.settle()
    finally:
        told.observer.close()


def test_a_process_that_hides_its_session_goes_on_with_it(demo: DemoStage) -> None:
    """As Pi does a moment after its start, and Claude Code before its end."""
    told = Told(demo)
    try:
        puppet = begun(told)
        record = demo.records(puppet)[0]
        said = record.read_text()
        looks = told.observer.looks
        record.unlink()
        until(lambda: told.stepped() > looks + 1, "it is looked at")
        told.settle()
        record.write_text(said)
        puppet.do("rest")
        told.until("session.idle", puppet.session_id)
        puppet.kill()
        told.until("session.stopped", puppet.session_id)
        told.settle()
        assert [e.subject for e in told.events if e.type == "session.started"] == [puppet.session_id]
        assert told.types().count("session.stopped") == 1
    finally:
        told.observer.close()


def test_a_process_that_goes_on_hiding_its_session_makes_it_unknown(demo: DemoStage) -> None:
    """As `list` tells it: the last word is not to stand for ever."""
    told = Told(demo)
    try:
        puppet = begun(told)
        demo.records(puppet)[0].unlink()
        told.until("session.unknown", puppet.session_id)
        told.observer._look("demo")
        assert not told.observer._doubted, "it is told, and nothing to look for again and again"
        puppet.kill()
        told.until("session.stopped", puppet.session_id)
        told.settle()
        assert told.types().count("session.started") == 1
        assert told.types().count("session.stopped") == 1
    finally:
        told.observer.close()


def test_a_child_of_one_that_waits_may_be_what_it_waited_for(demo: DemoStage) -> None:
    """Codex writes nothing when a person has allowed a command: it starts it."""
    told = Told(demo)

    def is_looked_at(parent: int) -> bool:
        rhythm = told.observer._rhythm["demo"] = Rhythm()
        told.observer._heard(NOTHING, [Process(ProcessIdentity("", 1 << 22, 1), parent, "S", "sh")])
        return rhythm.due != NEVER

    try:
        puppet = begun(told)
        assert not is_looked_at(puppet.pid), "one that works has many"
        puppet.do("ask")
        told.until("session.waiting", puppet.session_id)
        assert not is_looked_at(1), "nobody's child"
        assert is_looked_at(puppet.pid)
        puppet.do("rest")
        told.until("session.idle", puppet.session_id)
        assert is_looked_at(puppet.pid), "it may begin to work outside a turn"
    finally:
        told.observer.close()


def test_that_nothing_tells_what_it_is_doing_is_told_after_a_moment_of_doubt(
    demo: DemoStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An agent that is about to end takes away what says that it is idle: that is no work."""
    told = Told(demo)
    try:
        puppet = begun(told)
        puppet.do("rest")
        told.until("session.idle", puppet.session_id)
        (idle,) = told.observer._last.values()
        alive = idle.seen.evidence[:1]
        silent = idle._replace(seen=idle.seen._replace(evidence=alive), verdict=judge(alive))
        assert (silent.verdict.status, silent.verdict.activity) == ("running", "unknown")
        key = key_of(silent)
        assert told.observer._told(key, silent) == []
        assert told.observer._told(key, idle) == [], "it was a moment"
        assert told.observer._told(key, silent) == []
        monkeypatch.setattr(patience, "DOUBT", 0.0)
        assert [e.type for e in told.observer._told(key, silent)] == ["session.running"]
    finally:
        told.observer.close()


@pytest.fixture
def pi(tmp_path: Path) -> Iterator[PiStage]:
    made = PiStage(tmp_path)
    yield made
    made.close()


@pytest.mark.parametrize("harm", ["deleted", "emptied"])
def test_one_whose_file_is_lost_is_told_to_be_unknown(pi: PiStage, harm: str) -> None:
    """Its process lives, and shows it no more: that it works is not said any longer."""
    told = Told(pi)
    try:
        puppet = begun(told)
        (path,) = pi.files()
        if harm == "deleted":
            path.unlink()
        else:
            os.truncate(path, 0)
        told.until("session.unknown", puppet.session_id)
        told.settle()
        assert "session.stopped" not in told.types()
    finally:
        told.observer.close()


def test_what_begins_outside_a_turn_is_told(pi: PiStage) -> None:
    """No file changes: a child of one that is idle is looked at."""
    told = Told(pi)
    try:
        puppet = begun(told)
        puppet.do("rest")
        told.until("session.idle", puppet.session_id)
        told.events.clear()
        puppet.do("command")
        assert told.until("session.running", puppet.session_id).body["session"]["activity"] == "working"
    finally:
        told.observer.close()


def test_that_nobody_can_tell_any_more_is_told(tmp_path: Path) -> None:
    """A line that stays torn: what was told of a running one is taken back."""
    codex = CodexStage(tmp_path)
    told = Told(codex)
    try:
        puppet = begun(told)
        told.events.clear()
        (path,) = codex.codex_home.glob("sessions/*/*/*/*.jsonl")
        with path.open("ab") as file:
            file.write(b'{"timestamp":"2026-11')
        assert told.until("session.running", puppet.session_id).body["session"]["activity"] == "unknown"
        told.settle()
    finally:
        told.observer.close()
        codex.close()


def test_the_end_of_a_launch_without_a_session_is_not_looked_for_all_the_time(
    pi: PiStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its shim has yet to write down how it ended: that is waited for, with a rest between two looks."""
    puppet = pi.start()
    note = Launch("1a", puppet.identity, adapter="pi", cwd=str(pi.work))
    launch_writes.begin(paths.notes_file(pi.environ["AGENTCTL_HOME"]), note)
    told = Told(pi)
    fresh = []
    ended = Rhythm.ended

    def noted(rhythm: Rhythm, *moments: float, **found: bool) -> None:
        fresh.append(found["fresh"])
        ended(rhythm, *moments, **found)

    try:
        until(lambda: told.stepped() > 0 and len(told.observer._last) == 1, "it is seen")
        puppet.kill()
        told.observer._look("pi")
        monkeypatch.setattr(Rhythm, "ended", noted)
        told.observer._look("pi")
        assert fresh == [False]
        told.until("session.stopped", puppet.identity.address)
    finally:
        told.observer.close()
