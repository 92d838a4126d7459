"""Waiting for sessions, woken by what happens and by nothing else."""

import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from agentctl import paths
from agentctl.launch import exit_record
from agentctl.sessions import query
from agentctl.state import launch_writes
from agentctl.system import proc
from agentctl.system.identity import ProcessIdentity
from agentctl.system.waiter import Watch
from agentctl.testing import Puppet, Stage
from agentctl.truth.model import Launch, Session
from agentctl.truth.survey import Survey
from agentctl.watch import wait as module
from agentctl.watch.wait import Awaited, Vigil
from tests.fakes.demo import DemoStage
from tests.fakes.stages import stages
from tests.waiting import until

LONG = 20.0


def entered(made: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """This very process asks with the stage's environment, and is none of its agents."""
    for name in list(os.environ):
        monkeypatch.delenv(name)
    for name, value in made.environ.items():
        if name != "AGENTCTL_STAGE":
            monkeypatch.setenv(name, value)


@pytest.fixture
def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[DemoStage]:
    made = DemoStage(tmp_path)
    entered(made, monkeypatch)
    yield made
    made.close()


class Kept:
    """A vigil in a thread of its own; `looks` counts how often it looked."""

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, sessions: list[Session], awaited: Awaited = "stopped"
    ) -> None:
        self.looks = 0
        self.told: list[Session] = []
        self.late: list[Session] = []
        ask = query.everything

        def counted(*words: object, **more: object) -> Survey:
            self.looks += 1
            return ask(*words, **more)  # type: ignore[arg-type]

        monkeypatch.setattr("agentctl.sessions.query.everything", counted)
        monkeypatch.setattr(module, "REST", 0)  # every event is followed by a look: none must be needed
        self._thread = threading.Thread(target=self._run, args=(sessions, awaited))
        self._thread.start()

    def _run(self, sessions: list[Session], awaited: Awaited) -> None:
        with Vigil(sessions, awaited) as vigil:
            for session in vigil.keep(LONG):
                self.told.append(session)
            self.late = [subject.session for subject in vigil.pending]

    def end(self) -> list[str]:
        self._thread.join(LONG * 2)
        assert not self._thread.is_alive()
        return [session.verdict.status for session in self.told]

    def sleeps(self) -> None:
        """Until it has looked twice: once to know what to watch, once to have missed nothing."""
        until(lambda: self.looks >= 2, "it has looked twice")


def of(puppet: Puppet) -> Session:
    found = query.everything().sessions
    return next(s for s in found if s.seen.owner and s.seen.owner.identity == puppet.identity)


def working(stage: Stage) -> tuple[Puppet, Session]:
    puppet = stage.start()
    puppet.do("work")
    return puppet, of(puppet)


@pytest.mark.parametrize(
    ("awaited", "step"),
    [("idle", "rest"), ("waiting", "ask"), ("settled", "rest"), ("settled", "ask")],
)
@pytest.mark.parametrize("kind", stages(), ids=lambda kind: kind.adapter)
def test_a_step_of_every_agent_wakes(
    kind: type[Stage], awaited: Awaited, step: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = kind(tmp_path)
    entered(stage, monkeypatch)
    try:
        if step == "ask" and not stage.can_ask:
            pytest.skip("this agent does not tell that it waits")
        puppet, session = working(stage)
        kept = Kept(monkeypatch, [session], awaited)
        kept.sleeps()
        puppet.do(step)
        assert kept.end() == ["idle" if step == "rest" else "waiting"]
    finally:
        stage.close()


@pytest.mark.parametrize("awaited", ["stopped", "idle", "waiting", "settled"])
@pytest.mark.parametrize("end", [Puppet.finish, Puppet.kill], ids=["a clean end", "kill -9"])
def test_an_end_ends_every_wait(
    stage: DemoStage, awaited: Awaited, end: Callable[[Puppet], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    puppet, session = working(stage)
    kept = Kept(monkeypatch, [session], awaited)
    kept.sleeps()
    end(puppet)
    assert kept.end() == ["stopped"]
    assert kept.told[0].verdict.outcome in ("completed", "killed")


@pytest.mark.parametrize("awaited", ["stopped", "idle"])
def test_what_is_so_already_is_told_at_once(
    stage: DemoStage, awaited: Awaited, monkeypatch: pytest.MonkeyPatch
) -> None:
    puppet, session = working(stage)
    puppet.do("rest")
    if awaited == "stopped":
        puppet.kill()
    kept = Kept(monkeypatch, [session], awaited)
    assert kept.end() == [awaited]
    assert kept.looks <= 2


def test_what_happens_before_the_watch_is_set_up_is_not_missed(
    stage: DemoStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    puppet, session = working(stage)
    set_up = Vigil._set_up
    steps = ["rest"]

    def late(self: Vigil) -> bool:
        if steps:
            puppet.do(steps.pop())  # we have looked, and do not watch yet
        return set_up(self)

    monkeypatch.setattr(Vigil, "_set_up", late)
    assert Kept(monkeypatch, [session], "idle").end() == ["idle"]


def test_an_end_before_its_process_is_watched_is_not_missed(
    stage: DemoStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    puppet, session = working(stage)
    open_ = Vigil._open

    def late(self: Vigil, identity: ProcessIdentity) -> bool:
        puppet.kill()
        return open_(self, identity)

    monkeypatch.setattr(Vigil, "_open", late)
    monkeypatch.setattr(
        "agentctl.watch.watched_files.files_of", lambda _: iter(())
    )  # no file of it is news
    assert Kept(monkeypatch, [session]).end() == ["stopped"]


def test_several_are_told_each_when_it_comes(stage: DemoStage, monkeypatch: pytest.MonkeyPatch) -> None:
    (one, first), (two, second), (_, third) = (working(stage) for _ in range(3))
    kept = Kept(monkeypatch, [first, second], "idle")
    kept.sleeps()
    two.do("rest")
    until(lambda: len(kept.told) == 1, "the second is told")
    one.kill()
    assert kept.end() == ["idle", "stopped"]
    assert [s.seen.session_id for s in kept.told] == [two.session_id, one.session_id]
    assert third.seen.session_id not in [s.seen.session_id for s in kept.told]


def test_others_do_not_wake_it(stage: DemoStage, monkeypatch: pytest.MonkeyPatch) -> None:
    """They write into the same directories. Ours it sleeps through as well, but for one look each."""
    puppet, session = working(stage)
    other, _ = working(stage)
    kept = Kept(monkeypatch, [session])
    kept.sleeps()
    looks = kept.looks
    for _ in range(20):
        other.do("rest")
        other.do("work")
    assert kept.looks == looks
    puppet.kill()
    assert kept.end() == ["stopped"]


def test_one_that_writes_all_the_time_does_not_make_us_late(
    stage: DemoStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There is always something that has happened: the clock must be asked, too."""
    _, session = working(stage)
    monkeypatch.setattr(Watch, "wait", lambda *_: True)
    late: list[Session] = []

    def run() -> None:
        with Vigil([session], "stopped") as vigil:
            assert list(vigil.keep(0.1)) == []
            late.extend(subject.session for subject in vigil.pending)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(LONG)
    assert [each.seen.session_id for each in late] == [session.seen.session_id]


def test_a_long_wait_is_no_reason_for_a_long_rest(
    stage: DemoStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a look costs is made up for, not how long nothing happened before it."""
    puppet, session = working(stage)
    now, rests = [0.0], []

    def waited(*_: object) -> bool:
        now[0] += 1000
        puppet.do("rest")
        return True

    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: now[0]))
    monkeypatch.setattr("agentctl.system.waiter.Watch.wait", waited)
    monkeypatch.setattr(Vigil, "_rest", lambda _self, seconds, _end: rests.append(seconds))
    with Vigil([session], "idle") as vigil:
        assert [s.verdict.status for s in vigil.keep()] == ["idle"]
    assert rests == [0]


def test_time_over(stage: DemoStage) -> None:
    puppet, session = working(stage)
    with Vigil([session], "stopped") as vigil:
        assert list(vigil.keep(0.05)) == []
        (late,) = vigil.pending
    assert late.session.verdict.status == "running"
    assert late.owner == puppet.identity


def test_when_the_time_is_over_it_looks_once_more(
    stage: DemoStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a file system that tells nothing: it has changed, and nobody woke us."""
    puppet, session = working(stage)

    def tells_nothing(_: Watch, timeout: float | None) -> bool:
        assert timeout is not None
        puppet.do("ask")
        return False

    monkeypatch.setattr(Watch, "wait", tells_nothing)
    with Vigil([session], "waiting") as vigil:
        assert [found.verdict.status for found in vigil.keep(LONG)] == ["waiting"]
        assert vigil.pending == []


def test_a_process_that_had_no_session_yet(stage: DemoStage, monkeypatch: pytest.MonkeyPatch) -> None:
    puppet = stage.start()
    record, text = stage.records(puppet)[0], stage.records(puppet)[0].read_text()
    record.unlink()
    bare = of(puppet)
    assert bare.seen.session_id is None
    record.write_text(text)
    kept = Kept(monkeypatch, [bare])
    kept.sleeps()
    puppet.do("work")
    puppet.finish()
    assert kept.end() == ["stopped"]
    assert kept.told[0].seen.session_id == puppet.session_id


def test_a_process_that_never_has_one(stage: DemoStage, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its end is the kernel's word; how it ended is known where the kernel still tells."""
    puppet = stage.start()
    stage.records(puppet)[0].unlink()
    kept = Kept(monkeypatch, [of(puppet)])
    kept.sleeps()
    puppet.kill(reap=False)
    assert kept.end() == ["stopped"]
    assert kept.told[0].verdict.exit_code == -9
    puppet.reap()


def test_a_process_that_ended_before_we_had_a_handle(
    stage: DemoStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It had no session, so nothing but the kernel tells of its end; the code is nobody's to know."""
    puppet = stage.start()
    stage.records(puppet)[0].unlink()
    bare = of(puppet)
    puppet.kill()
    kept = Kept(monkeypatch, [bare])
    until(lambda: bool(kept.told) or kept.looks > 50, "it is told, or looked for again and again")
    assert kept.looks < 10
    assert kept.end() == ["stopped"]
    assert kept.told[0].verdict.exit_code is None


def test_absent_is_not_dead(stage: DemoStage, monkeypatch: pytest.MonkeyPatch) -> None:
    """All its files are gone, so that no source names it any more; its process is there."""
    puppet, session = working(stage)
    kept = Kept(monkeypatch, [session])
    kept.sleeps()
    looks = kept.looks
    for path in stage.records(puppet):
        path.unlink()
    until(lambda: kept.looks > looks, "it noticed")
    assert kept.told == []
    puppet.kill()
    assert kept.end() == ["stopped"]


def test_no_row_at_all_is_not_dead_either(stage: DemoStage, monkeypatch: pytest.MonkeyPatch) -> None:
    """As when its adapter chokes: only the kernel's word ends it."""
    puppet, session = working(stage)
    monkeypatch.setattr("agentctl.sessions.query.everything", lambda *_: Survey([], []))
    with Vigil([session], "stopped") as vigil:
        assert list(vigil.keep(0.05)) == []
        assert len(vigil.pending) == 1
        puppet.kill()
        (told,) = vigil.keep(LONG)
    assert told.verdict.status == "stopped"


def test_what_was_seen_before_the_end_does_not_tell_how_it_ended(
    stage: DemoStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    puppet, session = working(stage)
    monkeypatch.setattr("agentctl.sessions.query.everything", lambda *_: Survey([], []))
    with Vigil([session], "stopped") as vigil:
        assert list(vigil.keep(0.05)) == []
        puppet.finish()  # its turn was open when we looked, and closed when it ended
        (told,) = vigil.keep(LONG)
    assert (told.verdict.status, told.verdict.outcome) == ("stopped", "unknown")


def test_what_nobody_can_tell_is_told_after_a_second_look(
    stage: DemoStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    puppet, session = working(stage)
    other = stage.start()
    for path in (stage.records(puppet)[0], stage.records(other)[0]):
        path.unlink()  # two processes of which nobody knows what they run, and one session
    puppet.kill()
    kept = Kept(monkeypatch, [session])
    assert kept.end() == ["unknown"]
    assert kept.looks > 2


def test_a_later_doubt_does_not_undo_an_end(stage: DemoStage, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who was launched has an exit code to wait for. Meanwhile nobody can tell any more what some other
    agent runs, as when it begins to end: this one has stopped all the same."""
    puppet, session = working(stage)
    note = Launch("l1", puppet.identity, puppet.session_id)
    launch_writes.begin(paths.notes_file(stage.environ["AGENTCTL_HOME"]), note)
    other = stage.start()
    puppet.kill()
    recorded = exit_record.recorded

    def meanwhile(launch: Launch) -> Launch:
        stage.records(other)[0].unlink()
        return recorded(launch)

    monkeypatch.setattr(exit_record, "recorded", meanwhile)
    with Vigil([session], "stopped") as vigil:
        (told,) = vigil.keep(LONG)
    assert (told.verdict.status, told.verdict.outcome) == ("stopped", "killed")


def test_a_doubt_is_over_when_the_process_is(stage: DemoStage, monkeypatch: pytest.MonkeyPatch) -> None:
    """An agent that is just ending has removed its record: for a moment nobody can tell what it runs."""
    puppet, session = working(stage)
    nobody_knows = session._replace(
        seen=session.seen._replace(owner=None), verdict=session.verdict._replace(status="unknown")
    )
    ask, looked = query.everything, threading.Event()

    def doubtful(*words: object, **more: object) -> Survey:
        looked.set()
        process = proc.current(puppet.identity)  # a zombie until its parent has heard of it
        ending = process is not None and process.alive
        return Survey([nobody_knows], []) if ending else ask(*words, **more)  # type: ignore[arg-type]

    monkeypatch.setattr("agentctl.sessions.query.everything", doubtful)
    monkeypatch.setattr(module, "DOUBT", LONG)
    kept = Kept(monkeypatch, [session])
    assert looked.wait(LONG)
    puppet.kill()
    assert kept.end() == ["stopped"]
    assert kept.looks < 5


def test_a_doubt_is_over_when_the_process_ended_before_it_was_watched(
    stage: DemoStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    puppet, session = working(stage)
    nobody_knows = session._replace(
        seen=session.seen._replace(owner=None), verdict=session.verdict._replace(status="unknown")
    )
    ask = query.everything

    def ends_meanwhile(*words: object, **more: object) -> Survey:
        process = proc.current(puppet.identity)
        if process is None or not process.alive:
            return ask(*words, **more)  # type: ignore[arg-type]
        puppet.kill()
        return Survey([nobody_knows], [])

    monkeypatch.setattr("agentctl.sessions.query.everything", ends_meanwhile)
    monkeypatch.setattr(module, "DOUBT", float("inf"))  # nothing else would end it
    with Vigil([session], "stopped") as vigil:
        (told,) = vigil.keep()
    assert told.verdict.status == "stopped"


def test_a_doubt_outlasts_the_end_of_one_of_two(
    stage: DemoStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The handle of the one that has ended wakes for ever, and says nothing of the other."""
    puppet, session = working(stage)
    other = stage.start()
    process = proc.current(other.identity)
    assert process is not None
    seen = session.seen._replace(owner=None, candidates=(process,))
    nobody_knows = session._replace(seen=seen, verdict=session.verdict._replace(status="unknown"))
    ask, looks = query.everything, threading.Semaphore(0)

    def doubtful(*words: object, **more: object) -> Survey:
        looks.release()
        now = proc.current(other.identity)
        lives = now is not None and now.alive
        return Survey([nobody_knows], []) if lives else ask(*words, **more)  # type: ignore[arg-type]

    monkeypatch.setattr("agentctl.sessions.query.everything", doubtful)
    monkeypatch.setattr(module, "DOUBT", LONG)
    kept = Kept(monkeypatch, [session])
    assert looks.acquire(timeout=LONG)
    puppet.kill()
    assert looks.acquire(timeout=LONG)
    other.kill()
    assert kept.end() == ["stopped"]
    assert kept.looks < 6
