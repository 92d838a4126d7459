"""The daemon's eyes: what happens is in the journal, once, whatever happens to the daemon."""

import os
import signal
import sqlite3
import time
from pathlib import Path
from typing import NoReturn

import pytest

from agentctl import paths
from agentctl.daemon.bell import Bell
from agentctl.daemon.parts import recorder as module
from agentctl.daemon.parts.recorder import Watcher
from agentctl.errors import Passing
from agentctl.state import db, journal, launch_writes, locks
from agentctl.system import pidfd, proc
from agentctl.system.identity import ProcessIdentity
from agentctl.testing import Puppet
from agentctl.truth.event import Event
from agentctl.truth.model import Launch
from tests.daemon.serving import daemon_of, home_of
from tests.fakes.demo import DemoStage
from tests.running import agentctl_of
from tests.waiting import until

ME = proc.read_process(os.getpid(), proc.boot_id()).identity


def notes_of(stage: DemoStage) -> str:
    return paths.notes_file(home_of(stage))


def told(stage: DemoStage, subject: str | None = None) -> list[str]:
    events = journal.after(notes_of(stage), 0)
    return [e.type for e in events if subject is None or e.subject == subject]


def await_event(stage: DemoStage, kind: str, subject: str | None) -> None:
    until(lambda: kind in told(stage, subject), f"{kind} of {subject}")


def kill(identity: ProcessIdentity) -> None:
    with pidfd.Handle(identity) as handle:
        handle.signal(signal.SIGKILL)
        assert handle.wait(20)


def test_what_happens_is_in_the_journal(stage: DemoStage) -> None:
    puppet = stage.start()
    puppet.do("work")
    daemon_of(stage)
    await_event(stage, "session.running", puppet.session_id)
    puppet.do("rest")
    await_event(stage, "session.idle", puppet.session_id)
    puppet.kill()
    await_event(stage, "session.stopped", puppet.session_id)
    assert told(stage)[0] == "daemon.started"
    assert told(stage, puppet.session_id) == ["session.running", "session.idle", "session.stopped"]
    agentctl_of(stage, "daemon", "stop")
    assert told(stage)[-1] == "daemon.stopped"


def test_a_killed_daemon_loses_nothing_and_says_nothing_twice(stage: DemoStage) -> None:
    lives, dies = stage.start(stage.root / "a"), stage.start(stage.root / "b")
    for puppet in (lives, dies):
        puppet.do("work")  # before the daemon looks: it reports a session of unknown activity, too
    daemon = daemon_of(stage)
    for puppet in (lives, dies):
        await_event(stage, "session.running", puppet.session_id)
    before = {puppet: told(stage, puppet.session_id) for puppet in (lives, dies)}
    kill(daemon)
    dies.kill()
    unseen = stage.start(stage.root / "c")
    unseen.do("work")
    unseen.finish()
    daemon_of(stage)
    await_event(stage, "session.stopped", dies.session_id)
    await_event(stage, "session.stopped", unseen.session_id)
    lives.do("rest")
    await_event(stage, "session.idle", lives.session_id)
    assert told(stage, dies.session_id) == [*before[dies], "session.stopped"]
    assert told(stage, lives.session_id) == [*before[lives], "session.idle"]
    assert told(stage, unseen.session_id) == ["session.started", "session.stopped"]
    assert told(stage).count("events.gap") == 1


def test_a_launch_that_has_come_and_gone_is_told(stage: DemoStage) -> None:
    daemon_of(stage)
    ran = agentctl_of(stage, "launch", "demo", "-p", "work 0")
    assert ran.code == 0, ran.err
    session_id = ran.lines[0].split()[0]
    await_event(stage, "session.stopped", session_id)
    assert told(stage, session_id).count("session.stopped") == 1
    assert {"session.started", "session.identified"} & set(told(stage, session_id))
    ended = next(e for e in journal.of(notes_of(stage), session_id) if e.type == "session.stopped")
    assert ended.body["session"]["exit_code"] == 0
    await_event(stage, "lock.released", str(stage.root))


def test_a_lock_is_released_when_its_time_is_over(stage: DemoStage) -> None:
    daemon_of(stage)
    locks.acquire(notes_of(stage), str(stage.root), "me", None, 0.05)
    await_event(stage, "lock.expired", str(stage.root))


class Watching:
    """A watcher of the test's own process, which has no daemon."""

    def __init__(self, stage: DemoStage) -> None:
        self.notes = notes_of(stage)
        Path(self.notes).parent.mkdir(exist_ok=True)
        self.bell = Bell()
        self.watcher = Watcher(self.notes, stage.environ, ME, self.bell)

    def types(self) -> list[str]:
        return [event.type for event in journal.after(self.notes, 0)]

    def begun(self, stage: DemoStage) -> Puppet:
        """One that it has told of."""
        self.watcher.start()
        puppet = stage.start()
        until(lambda: bool(journal.of(self.notes, puppet.session_id or "")), "it watches")
        return puppet


def test_what_cannot_be_written_is_written_later_in_its_order(
    stage: DemoStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "PATIENCE", 0.01)
    monkeypatch.setattr(module, "AGAIN", 0.01)
    watching = Watching(stage)
    watching.watcher.start()
    until(lambda: watching.bell.seq > 0, "it has begun")
    holder = sqlite3.connect(watching.notes, isolation_level=None)
    holder.execute("begin exclusive")
    puppet = stage.start()
    puppet.do("work")
    until(lambda: watching.watcher.status().get("state") == "failing", "it cannot write")
    until(lambda: bool(watching.watcher.status().get("pending")), "it waits")
    puppet.do("rest")
    holder.execute("rollback")
    holder.close()
    until(lambda: "session.idle" in watching.types(), "all is written")
    watching.watcher.stop()
    found = [kind for kind in watching.types() if kind.startswith("session.")]
    assert found[0] == "session.started"  # perhaps before it had its name
    assert found[-1] == "session.idle"
    assert watching.types()[-1] == "daemon.stopped"
    assert "state" not in watching.watcher.status()


def test_after_the_journal_was_deleted_all_is_told_in_the_next(stage: DemoStage) -> None:
    lives, dies = stage.start(stage.root / "a"), stage.start(stage.root / "b")
    daemon_of(stage)
    for puppet in (lives, dies):
        await_event(stage, "session.running", puppet.session_id)
    deleted(notes_of(stage))
    dies.kill()
    await_event(stage, "session.stopped", dies.session_id)
    await_event(stage, "session.running", lives.session_id)
    lives.do("rest")
    await_event(stage, "session.idle", lives.session_id)
    assert told(stage, lives.session_id) == ["session.running", "session.idle"]
    assert told(stage, dies.session_id) == ["session.running", "session.stopped"]
    assert told(stage)[0] == "daemon.started"
    assert "events.gap" not in told(stage), "somebody has watched all the time"
    assert agentctl_of(stage, "daemon", "status", "--json").json()["daemon"]["seq"] == len(told(stage))


def test_after_another_made_it_anew_all_is_told_at_once(stage: DemoStage) -> None:
    puppet = stage.start()
    daemon_of(stage)
    await_event(stage, "session.running", puppet.session_id)
    deleted(notes_of(stage))
    journal.record(notes_of(stage), [Event("user.hello", time.time())])
    await_event(stage, "session.running", puppet.session_id)
    assert told(stage) == ["user.hello", "daemon.started", "session.running"]


def test_what_is_deleted_while_it_cannot_be_written_is_begun_anew(
    stage: DemoStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As people do whose disk is full."""
    monkeypatch.setattr(module, "AGAIN", 0.01)
    watching = Watching(stage)
    puppet = watching.begun(stage)
    with monkeypatch.context() as patch:
        patch.setattr(db, "step", _full)
        puppet.do("rest")
        until(lambda: watching.watcher.status().get("state") == "failing", "it cannot write")
        deleted(watching.notes)
    until(lambda: "session.idle" in watching.types(), "it is told")
    watching.watcher.stop()
    assert watching.types()[0] == "daemon.started"
    assert watching.types()[-1] == "daemon.stopped"


def test_where_all_is_deleted_nothing_comes_back(
    stage: DemoStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "AGAIN", 60.0)
    watching = Watching(stage)
    puppet = watching.begun(stage)
    deleted(watching.notes)
    puppet.do("rest")
    until(lambda: bool(watching.watcher.status().get("pending")), "there is news")
    watching.watcher.stop()
    assert not os.path.exists(watching.notes)


def _full(_: object, path: str) -> NoReturn:
    raise Passing(path, "no space left on its disk")


def deleted(notes: str) -> None:
    """In the order of `rm state.db*`."""
    for file in (notes, f"{notes}-shm", f"{notes}-wal"):
        Path(file).unlink(missing_ok=True)


def test_of_more_than_can_be_kept_the_oldest_becomes_a_gap(
    stage: DemoStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST", 10)
    monkeypatch.setattr(module, "AGAIN", 0.0)
    Path(home_of(stage)).mkdir(exist_ok=True)
    os.mkdir(notes_of(stage))
    watching = Watching(stage)
    for number in range(25):
        watching.watcher._tell([Event("session.idle", float(number), subject=str(number))])
    os.rmdir(notes_of(stage))
    watching.watcher._tell([Event("session.stopped", 99.0, subject="last")])
    events = journal.after(watching.notes, 0)
    assert events[0].type == "events.gap"
    assert [e.subject for e in events[1:]] == [
        *(str(n) for n in range(25 - len(events) + 2, 25)),
        "last",
    ]


def test_one_that_cannot_be_written_is_a_gap_and_keeps_back_no_other(stage: DemoStage) -> None:
    watching = Watching(stage)
    odd = Event("session.idle", 2.0, "noon", subject="odd")  # type: ignore[arg-type]
    whole = [Event("session.idle", float(at), subject=str(at)) for at in (1, 3)]
    watching.watcher._tell([whole[0], odd, whole[1]])
    watching.watcher._tell([Event("session.idle", 4.0, subject="4")])
    events = journal.after(watching.notes, 0)
    assert [event.subject for event in events] == ["1", None, "3", "4"]
    assert events[1].type == "events.gap"
    assert "an event could not be written" in events[1].body["data"]["reason"]
    assert watching.watcher.status()["pending"] is None


def test_the_journal_is_kept_to_its_size(stage: DemoStage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "WEIGHED", 50)
    stage.environ["AGENTCTL_JOURNAL_MAX_SIZE"] = "1M"
    watching = Watching(stage)
    now = time.time()
    for batch in range(20):
        told = [
            Event("session.stopped", now, now, "demo", f"{batch}.{n}", None, {"data": {"k": "x" * 4000}})
            for n in range(50)
        ]
        watching.watcher._tell(told)
        watching.watcher._due()
    with db.transaction(watching.notes) as connection:
        assert db.extent(connection).used <= 1 << 20
    subjects = [event.subject for event in journal.after(watching.notes, 0)]
    assert subjects[-1] == "19.49"
    assert "0.0" not in subjects


def test_a_launch_by_another_wakes_it(stage: DemoStage) -> None:
    """Its process is no agent: nothing is told but what the launcher wrote, and nobody falls."""
    daemon_of(stage)
    until(lambda: "daemon.started" in told(stage), "it watches")
    launch_writes.begin(notes_of(stage), Launch("1a", ME, "s1", adapter="demo", cwd=str(stage.root)))
    launch_writes.begin(notes_of(stage), Launch("2b", ME, "s2", adapter="no such", cwd="/"))
    puppet = stage.start()
    await_event(stage, "session.running", puppet.session_id)
    assert told(stage, "s1") == ["launch.started"]


@pytest.mark.parametrize(("namespace", "ends"), [("pid:[1]", False), (proc.namespace(), True)])
def test_what_a_daemon_of_another_container_told_of_is_not_ended_for_not_being_here(
    stage: DemoStage, namespace: str, ends: bool
) -> None:
    """Its processes have other numbers there: that they are absent here proves nothing."""
    address = f"proc:{2**22 - 1}@1"
    watching = Watching(stage)
    data = {"process": address, "boot": proc.boot_id()}
    journal.record(
        watching.notes,
        [
            Event("daemon.started", 1.0, body={"data": {"namespace": namespace}}),
            Event(
                "session.running",
                2.0,
                adapter="demo",
                subject=address,
                body={"session": {"status": "running"}, "data": data},
            ),
        ],
    )
    watching.watcher.start()
    puppet = stage.start()  # whatever was there before has been looked at when this one is told of
    until(lambda: bool(journal.of(watching.notes, puppet.session_id or "")), "it watches")
    watching.watcher.stop()
    assert "events.gap" in watching.types()
    ended = [e for e in journal.of(watching.notes, address) if e.type == "session.stopped"]
    assert bool(ended) is ends


def test_after_what_nobody_foresaw_it_begins_anew(
    stage: DemoStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "REST", 0.01)
    broken = iter([True])

    def once(self: Watcher) -> None:
        if next(broken, False):
            raise KeyError("nothing")
        due(self)

    due = Watcher._due
    monkeypatch.setattr(Watcher, "_due", once)
    watching = Watching(stage)
    watching.watcher.start()
    until(lambda: watching.types().count("daemon.started") == 2, "it watches again")
    puppet = stage.start()
    until(lambda: bool(journal.of(watching.notes, puppet.session_id or "")), "and tells")
    watching.watcher.stop()
    assert "state" not in watching.watcher.status()


def test_it_can_be_stopped_while_it_rests(stage: DemoStage, monkeypatch: pytest.MonkeyPatch) -> None:
    """What it was woken by is closed then, and its number may be another file's."""

    def broken(_: Watcher) -> NoReturn:
        raise KeyError("nothing")

    monkeypatch.setattr(Watcher, "_due", broken)
    watching = Watching(stage)
    watching.watcher.start()
    until(lambda: watching.types()[-1:] == ["daemon.stopped"], "it rests")
    watching.watcher.stop()
    assert watching.types() == ["daemon.started", "daemon.stopped"]
