"""Waiting for sessions, woken by changes only."""

import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from agentctl import paths
from agentctl.launch import exit_record
from agentctl.sessions import query
from agentctl.state import launch_writes
from agentctl.system import proc
from agentctl.system.proc import Process, ProcessIdentity
from agentctl.testing import Puppet, Stage
from agentctl.truth.model import Launch, Session
from agentctl.truth.survey import Survey
from agentctl.watch import wait as module
from agentctl.watch.sources import NOTHING, Sources, Wakeup
from agentctl.watch.wait import SessionWait, WaitState
from tests.fakes.demo import DemoStage
from tests.fakes.stages import stages
from tests.waiting import until

LONG = 20.0


def enter_stage(new_stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """Give this process the stage's environment, without the mark of the stage's agents."""
    for name in list(os.environ):
        monkeypatch.delenv(name)
    for name, value in new_stage.environ.items():
        if name != "AGENTCTL_STAGE":
            monkeypatch.setenv(name, value)


@pytest.fixture
def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[DemoStage]:
    new_stage = DemoStage(tmp_path)
    enter_stage(new_stage, monkeypatch)
    yield new_stage
    new_stage.close()


class BackgroundWait:
    """A wait in a thread of its own; `looks` counts how often it looked."""

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, sessions: list[Session], awaited: WaitState = "stopped"
    ) -> None:
        self.looks = 0
        self.results: list[Session] = []
        self.late: list[Session] = []
        ask = query.survey_sessions

        def count_look(*words: object, **more: object) -> Survey:
            self.looks += 1
            return ask(*words, **more)  # type: ignore[arg-type]

        monkeypatch.setattr("agentctl.sessions.query.survey_sessions", count_look)
        monkeypatch.setattr(
            "agentctl.watch.schedule.REST", 0
        )  # every event is followed by a look: none must be needed
        self._thread = threading.Thread(target=self._run, args=(sessions, awaited))
        self._thread.start()

    def _run(self, sessions: list[Session], awaited: WaitState) -> None:
        with SessionWait(sessions, awaited) as wait:
            for session in wait.iterate(LONG):
                self.results.append(session)
            self.late = [subject.session for subject in wait.pending]

    def end(self) -> list[str]:
        self._thread.join(LONG * 2)
        assert not self._thread.is_alive()
        return [session.verdict.status for session in self.results]

    def await_two_looks(self) -> None:
        """The first look finds what to watch, the second what changed before the watch."""
        until(lambda: self.looks >= 2, "it has looked twice")


def session_of(puppet: Puppet) -> Session:
    sessions = query.survey_sessions().sessions
    return next(
        s for s in sessions if s.observation.owner and s.observation.owner.identity == puppet.identity
    )


def make_unknown(session: Session, *candidates: Process) -> Session:
    """The same session, as a survey shows it that cannot tell which process runs it."""
    return session._replace(
        observation=session.observation._replace(owner=None, candidates=candidates),
        verdict=session.verdict._replace(status="unknown"),
    )


def start_working(stage: Stage) -> tuple[Puppet, Session]:
    puppet = stage.start()
    puppet.do("work")
    return puppet, session_of(puppet)


@pytest.mark.few(5)
@pytest.mark.parametrize(
    ("awaited", "step"),
    [("idle", "rest"), ("waiting", "ask"), ("settled", "rest"), ("settled", "ask")],
)
@pytest.mark.parametrize("kind", stages(), ids=lambda kind: kind.adapter)
def test_a_step_of_any_agent_ends_the_wait(
    kind: type[Stage], awaited: WaitState, step: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = kind(tmp_path)
    enter_stage(stage, monkeypatch)
    try:
        if step == "ask" and not stage.can_ask:
            pytest.skip("this agent does not tell that it waits")
        puppet, session = start_working(stage)
        waiting = BackgroundWait(monkeypatch, [session], awaited)
        waiting.await_two_looks()
        puppet.do(step)
        assert waiting.end() == ["idle" if step == "rest" else "waiting"]
    finally:
        stage.close()


@pytest.mark.few(4)
@pytest.mark.parametrize("awaited", ["stopped", "idle", "waiting", "settled"])
@pytest.mark.parametrize("end", [Puppet.finish, Puppet.kill], ids=["a clean end", "kill -9"])
def test_an_end_ends_every_wait(
    stage: DemoStage, awaited: WaitState, end: Callable[[Puppet], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    puppet, session = start_working(stage)
    waiting = BackgroundWait(monkeypatch, [session], awaited)
    waiting.await_two_looks()
    end(puppet)
    (status,) = waiting.end()
    if end is Puppet.finish and awaited in ("idle", "settled") and status == "idle":
        return  # the agent closes its turn before it exits, and a look came in between
    assert status == "stopped"
    assert waiting.results[0].verdict.outcome in ("completed", "killed")


@pytest.mark.parametrize("awaited", ["stopped", "idle"])
def test_a_state_that_is_reached_already_ends_the_wait_at_once(
    stage: DemoStage, awaited: WaitState, monkeypatch: pytest.MonkeyPatch
) -> None:
    puppet, session = start_working(stage)
    puppet.do("rest")
    if awaited == "stopped":
        puppet.kill()
    waiting = BackgroundWait(monkeypatch, [session], awaited)
    assert waiting.end() == [awaited]
    assert waiting.looks <= 2


def test_a_change_before_the_watch_is_not_missed(
    stage: DemoStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    puppet, session = start_working(stage)
    watch = SessionWait._watch
    steps = ["rest"]

    def rest_and_watch(self: SessionWait) -> bool:
        if steps:
            puppet.do(steps.pop())  # after the look, and before the watch
        return watch(self)

    monkeypatch.setattr(SessionWait, "_watch", rest_and_watch)
    assert BackgroundWait(monkeypatch, [session], "idle").end() == ["idle"]


def test_an_end_before_the_watch_is_not_missed(
    stage: DemoStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    puppet, session = start_working(stage)
    open_handle = Sources._open_handle

    def kill_and_open(self: Sources, identity: ProcessIdentity, watcher: str) -> bool:
        puppet.kill()
        return open_handle(self, identity, watcher)

    monkeypatch.setattr(Sources, "_open_handle", kill_and_open)
    monkeypatch.setattr(
        "agentctl.watch.watched_files.session_files", lambda _: iter(())
    )  # no file of it is news
    assert BackgroundWait(monkeypatch, [session]).end() == ["stopped"]


def test_each_of_several_sessions_is_yielded_when_it_is_ready(
    stage: DemoStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    (one, first), (two, second), (_, third) = (start_working(stage) for _ in range(3))
    waiting = BackgroundWait(monkeypatch, [first, second], "idle")
    waiting.await_two_looks()
    two.do("rest")
    until(lambda: len(waiting.results) == 1, "the second is idle")
    one.kill()
    assert waiting.end() == ["idle", "stopped"]
    assert [s.observation.session_id for s in waiting.results] == [two.session_id, one.session_id]
    assert third.observation.session_id not in [s.observation.session_id for s in waiting.results]


def test_other_sessions_do_not_wake_it(stage: DemoStage, monkeypatch: pytest.MonkeyPatch) -> None:
    """They write into the same directories."""
    puppet, session = start_working(stage)
    other, _ = start_working(stage)
    waiting = BackgroundWait(monkeypatch, [session])
    waiting.await_two_looks()
    looks = waiting.looks
    for _ in range(20):
        other.do("rest")
        other.do("work")
    assert waiting.looks == looks
    puppet.kill()
    assert waiting.end() == ["stopped"]


def test_a_session_that_writes_all_the_time_does_not_delay_the_timeout(
    stage: DemoStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There is always a change: the clock must be read, too."""
    _, session = start_working(stage)
    monkeypatch.setattr(Sources, "wait", lambda *_: Wakeup(frozenset({"demo"})))
    monkeypatch.setattr("agentctl.watch.schedule.REST", 0)
    late: list[Session] = []

    def run() -> None:
        with SessionWait([session], "stopped") as wait:
            assert list(wait.iterate(0.1)) == []
            late.extend(subject.session for subject in wait.pending)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(LONG)
    assert [each.observation.session_id for each in late] == [session.observation.session_id]


def test_a_long_wait_causes_no_long_rest(stage: DemoStage, monkeypatch: pytest.MonkeyPatch) -> None:
    """The rest makes up for the cost of a look, not for the quiet time before it."""
    puppet, session = start_working(stage)
    now, waits = [0.0], []

    def change(_: Sources, seconds: float) -> Wakeup:
        waits.append(seconds)
        now[0] += 1000
        puppet.do("rest")
        return Wakeup(frozenset({"demo"}))

    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: now[0], time=lambda: now[0]))
    monkeypatch.setattr(Sources, "wait", change)
    with SessionWait([session], "idle") as wait:
        assert [s.verdict.status for s in wait.iterate()] == ["idle"]
    assert len(waits) == 1


def test_a_timeout_leaves_the_session_pending(stage: DemoStage) -> None:
    puppet, session = start_working(stage)
    with SessionWait([session], "stopped") as wait:
        assert list(wait.iterate(0.05)) == []
        (late,) = wait.pending
    assert late.session.verdict.status == "running"
    assert late.owner == puppet.identity


def test_at_the_timeout_it_looks_once_more(stage: DemoStage, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a file system without notifications no change wakes the wait."""
    puppet, session = start_working(stage)

    def no_news(_: Sources, seconds: float) -> Wakeup:
        puppet.do("ask")
        now[0] += seconds
        return NOTHING

    now = [0.0]
    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: now[0], time=time.time))
    monkeypatch.setattr(Sources, "wait", no_news)
    with SessionWait([session], "waiting") as wait:
        assert [each.verdict.status for each in wait.iterate(LONG)] == ["waiting"]
        assert wait.pending == []


def test_a_process_gets_its_session_during_the_wait(
    stage: DemoStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    puppet = stage.start()
    record, text = stage.records(puppet)[0], stage.records(puppet)[0].read_text()
    record.unlink()
    bare = session_of(puppet)
    assert bare.observation.session_id is None
    record.write_text(text)
    waiting = BackgroundWait(monkeypatch, [bare])
    waiting.await_two_looks()
    puppet.do("work")
    puppet.finish()
    assert waiting.end() == ["stopped"]
    assert waiting.results[0].observation.session_id == puppet.session_id


def test_a_process_that_never_has_a_session_ends_the_wait(
    stage: DemoStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel reports its end, and its exit code while it is not reaped."""
    puppet = stage.start()
    stage.records(puppet)[0].unlink()
    waiting = BackgroundWait(monkeypatch, [session_of(puppet)])
    waiting.await_two_looks()
    puppet.kill(reap=False)
    assert waiting.end() == ["stopped"]
    assert waiting.results[0].verdict.exit_code == -9
    puppet.reap()


def test_the_end_of_a_process_without_a_session_or_a_handle_is_no_busy_wait(
    stage: DemoStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only the kernel reports its end, and its exit code is lost."""
    puppet = stage.start()
    stage.records(puppet)[0].unlink()
    bare = session_of(puppet)
    puppet.kill()
    waiting = BackgroundWait(monkeypatch, [bare])
    until(
        lambda: bool(waiting.results) or waiting.looks > 50, "it is yielded, or looked for all the time"
    )
    assert waiting.looks < 10
    assert waiting.end() == ["stopped"]
    assert waiting.results[0].verdict.exit_code is None


def test_a_session_without_files_is_not_stopped(
    stage: DemoStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All its files are gone, so that no source shows it; its process is alive."""
    puppet, session = start_working(stage)
    waiting = BackgroundWait(monkeypatch, [session])
    waiting.await_two_looks()
    looks = waiting.looks
    for path in stage.records(puppet):
        path.unlink()
    until(lambda: waiting.looks > looks, "it noticed")
    assert waiting.results == []
    puppet.kill()
    assert waiting.end() == ["stopped"]


def test_a_session_missing_from_the_survey_is_not_stopped(
    stage: DemoStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An adapter that fails lists nothing: only the kernel can show the end."""
    puppet, session = start_working(stage)
    monkeypatch.setattr("agentctl.sessions.query.survey_sessions", lambda *_: Survey([], []))
    with SessionWait([session], "stopped") as wait:
        assert list(wait.iterate(0.05)) == []
        assert len(wait.pending) == 1
        puppet.kill()
        (results,) = wait.iterate(LONG)
    assert results.verdict.status == "stopped"


def test_evidence_from_before_the_end_does_not_decide_the_outcome(
    stage: DemoStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    puppet, session = start_working(stage)
    monkeypatch.setattr("agentctl.sessions.query.survey_sessions", lambda *_: Survey([], []))
    with SessionWait([session], "stopped") as wait:
        assert list(wait.iterate(0.05)) == []
        puppet.finish()  # its turn was open at the last look, and closed at the end
        (results,) = wait.iterate(LONG)
    assert (results.verdict.status, results.verdict.outcome) == ("stopped", "unknown")


@pytest.mark.slow
def test_an_unknown_status_is_yielded_after_a_second_look(
    stage: DemoStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    puppet, session = start_working(stage)
    other = stage.start()
    for path in (stage.records(puppet)[0], stage.records(other)[0]):
        path.unlink()  # two processes may run the one session
    puppet.kill()
    waiting = BackgroundWait(monkeypatch, [session])
    assert waiting.end() == ["unknown"]
    assert waiting.looks > 2


def test_a_later_doubt_does_not_undo_an_end(stage: DemoStage, monkeypatch: pytest.MonkeyPatch) -> None:
    """During the wait for the exit code of a launch, another agent removes its record, as an agent that
    begins to end does. The launched session has stopped all the same."""
    puppet, session = start_working(stage)
    note = Launch("l1", puppet.identity, puppet.session_id)
    launch_writes.begin_launch(paths.database_file(stage.environ["AGENTCTL_HOME"]), note)
    other = stage.start()
    puppet.kill()
    await_exit = exit_record.await_exit

    def remove_record(launch: Launch) -> Launch:
        stage.records(other)[0].unlink()
        return await_exit(launch)

    monkeypatch.setattr(exit_record, "await_exit", remove_record)
    with SessionWait([session], "stopped") as wait:
        (results,) = wait.iterate(LONG)
    assert (results.verdict.status, results.verdict.outcome) == ("stopped", "killed")


def test_a_doubt_ends_with_the_process(stage: DemoStage, monkeypatch: pytest.MonkeyPatch) -> None:
    """An agent that is just ending has removed its record: for a moment its session is unknown."""
    puppet, session = start_working(stage)
    unknown = make_unknown(session)
    ask, has_looked = query.survey_sessions, threading.Event()

    def survey_unknown(*words: object, **more: object) -> Survey:
        has_looked.set()
        process = proc.find_process(puppet.identity)  # a zombie until its parent has heard of it
        ending = process is not None and process.is_alive
        return Survey([unknown], []) if ending else ask(*words, **more)  # type: ignore[arg-type]

    monkeypatch.setattr("agentctl.sessions.query.survey_sessions", survey_unknown)
    monkeypatch.setattr(module, "DOUBT", LONG)
    waiting = BackgroundWait(monkeypatch, [session])
    assert has_looked.wait(LONG)
    puppet.kill()
    assert waiting.end() == ["stopped"]
    assert waiting.looks < 5


def test_a_doubt_ends_if_the_process_ended_before_the_watch(
    stage: DemoStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    puppet, session = start_working(stage)
    unknown = make_unknown(session)
    ask = query.survey_sessions

    def ends_meanwhile(*words: object, **more: object) -> Survey:
        process = proc.find_process(puppet.identity)
        if process is None or not process.is_alive:
            return ask(*words, **more)  # type: ignore[arg-type]
        puppet.kill()
        return Survey([unknown], [])

    monkeypatch.setattr("agentctl.sessions.query.survey_sessions", ends_meanwhile)
    monkeypatch.setattr(module, "DOUBT", float("inf"))  # nothing else would end it
    with SessionWait([session], "stopped") as wait:
        (results,) = wait.iterate()
    assert results.verdict.status == "stopped"


def test_a_doubt_outlasts_the_end_of_one_of_two(
    stage: DemoStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The handle of the ended process stays readable, and says nothing about the other."""
    puppet, session = start_working(stage)
    other = stage.start()
    process = proc.find_process(other.identity)
    assert process is not None
    unknown = make_unknown(session, process)
    ask, looks = query.survey_sessions, threading.Semaphore(0)

    def survey_unknown(*words: object, **more: object) -> Survey:
        looks.release()
        now = proc.find_process(other.identity)
        lives = now is not None and now.is_alive
        return Survey([unknown], []) if lives else ask(*words, **more)  # type: ignore[arg-type]

    monkeypatch.setattr("agentctl.sessions.query.survey_sessions", survey_unknown)
    monkeypatch.setattr(module, "DOUBT", LONG)
    waiting = BackgroundWait(monkeypatch, [session])
    assert looks.acquire(timeout=LONG)
    puppet.kill()
    assert looks.acquire(timeout=LONG)
    other.kill()
    assert waiting.end() == ["stopped"]
    assert waiting.looks < 6
