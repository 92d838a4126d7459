"""The recorder: each change is in the journal once, whatever happens to the daemon."""

import os
import signal
import sqlite3
import time
from collections.abc import Mapping
from pathlib import Path
from typing import NoReturn

import pytest

from agentctl import paths
from agentctl.config import settings as config
from agentctl.config.settings import Config
from agentctl.daemon.bell import Bell
from agentctl.daemon.parts import recorder as module
from agentctl.daemon.parts.recorder import Recorder
from agentctl.errors import Temporary
from agentctl.state import db, journal, launch_writes, locks
from agentctl.system import pidfd, proc
from agentctl.system.proc import ProcessIdentity
from agentctl.testing import Puppet
from agentctl.truth.event import Event
from agentctl.truth.model import Launch
from tests.daemon.serving import daemon_of, home_of
from tests.fakes.demo import DemoStage
from tests.running import agentctl_of
from tests.waiting import until

ME = proc.read_process(os.getpid(), proc.read_boot_id()).identity


def notes_of(stage: DemoStage) -> str:
    return paths.database_file(home_of(stage))


def read_event_types(stage: DemoStage, subject: str | None = None) -> list[str]:
    events = journal.read_after(notes_of(stage), 0)
    return [e.type for e in events if subject is None or e.subject == subject]


def await_event(stage: DemoStage, kind: str, subject: str | None) -> None:
    until(lambda: kind in read_event_types(stage, subject), f"{kind} of {subject}")


def kill(identity: ProcessIdentity) -> None:
    with pidfd.Handle(identity) as handle:
        handle.signal(signal.SIGKILL)
        assert handle.wait(20)


def test_every_change_is_in_the_journal(stage: DemoStage) -> None:
    puppet = stage.start()
    puppet.do("work")
    daemon_of(stage)
    await_event(stage, "session.running", puppet.session_id)
    puppet.do("rest")
    await_event(stage, "session.idle", puppet.session_id)
    puppet.kill()
    await_event(stage, "session.stopped", puppet.session_id)
    assert read_event_types(stage)[0] == "daemon.started"
    assert read_event_types(stage, puppet.session_id) == [
        "session.running",
        "session.idle",
        "session.stopped",
    ]
    agentctl_of(stage, "daemon", "stop")
    assert read_event_types(stage)[-1] == "daemon.stopped"


def test_a_killed_daemon_loses_and_repeats_no_event(stage: DemoStage) -> None:
    survivor, victim = stage.start(stage.root / "a"), stage.start(stage.root / "b")
    for puppet in (survivor, victim):
        puppet.do("work")  # before the daemon looks: it reports a session of unknown activity, too
    daemon = daemon_of(stage)
    for puppet in (survivor, victim):
        await_event(stage, "session.running", puppet.session_id)
    before = {puppet: read_event_types(stage, puppet.session_id) for puppet in (survivor, victim)}
    kill(daemon)
    victim.kill()
    unseen = stage.start(stage.root / "c")
    unseen.do("work")
    unseen.finish()
    daemon_of(stage)
    await_event(stage, "session.stopped", victim.session_id)
    await_event(stage, "session.stopped", unseen.session_id)
    survivor.do("rest")
    await_event(stage, "session.idle", survivor.session_id)
    assert read_event_types(stage, victim.session_id) == [*before[victim], "session.stopped"]
    assert read_event_types(stage, survivor.session_id) == [*before[survivor], "session.idle"]
    assert read_event_types(stage, unseen.session_id) == ["session.started", "session.stopped"]
    assert read_event_types(stage).count("events.gap") == 1


def test_a_short_launch_is_in_the_journal(stage: DemoStage) -> None:
    daemon_of(stage)
    ran = agentctl_of(stage, "launch", "demo", "-p", "work 0")
    assert ran.code == 0, ran.err
    session_id = ran.lines[0].split()[0]
    await_event(stage, "session.stopped", session_id)
    assert read_event_types(stage, session_id).count("session.stopped") == 1
    assert {"session.started", "session.identified"} & set(read_event_types(stage, session_id))
    stopped = next(
        e for e in journal.read_about(notes_of(stage), session_id) if e.type == "session.stopped"
    )
    assert stopped.body["session"]["exit_code"] == 0
    await_event(stage, "lock.released", str(stage.root))


def test_a_lock_is_released_when_its_time_is_over(stage: DemoStage) -> None:
    daemon_of(stage)
    locks.acquire_lock(notes_of(stage), str(stage.root), "me", None, 0.05)
    await_event(stage, "lock.expired", str(stage.root))


class LoneRecorder:
    """A recorder in the test's own process, without a daemon."""

    def __init__(self, stage: DemoStage) -> None:
        self.notes = notes_of(stage)
        Path(self.notes).parent.mkdir(exist_ok=True)
        self.bell = Bell()
        self.recorder = Recorder(self.notes, stage.environ, ME, self.bell)

    def types(self) -> list[str]:
        return [event.type for event in journal.read_after(self.notes, 0)]

    def start_with_puppet(self, stage: DemoStage) -> Puppet:
        """Return a puppet of which the journal has an event."""
        self.recorder.start()
        puppet = stage.start()
        until(lambda: bool(journal.read_about(self.notes, puppet.session_id or "")), "it watches")
        return puppet


def test_events_that_cannot_be_written_are_written_later_in_order(
    stage: DemoStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "PATIENCE", 0.01)
    monkeypatch.setattr(module, "RETRY", 0.01)
    lone = LoneRecorder(stage)
    lone.recorder.start()
    until(lambda: lone.bell.seq > 0, "it has begun")
    holder = sqlite3.connect(lone.notes, isolation_level=None)
    holder.execute("begin exclusive")
    puppet = stage.start()
    puppet.do("work")
    until(lambda: lone.recorder.status().get("state") == "failing", "it cannot write")
    until(lambda: bool(lone.recorder.status().get("pending")), "it waits")
    puppet.do("rest")
    holder.execute("rollback")
    holder.close()
    until(lambda: "session.idle" in lone.types(), "all is written")
    lone.recorder.stop()
    kinds = [kind for kind in lone.types() if kind.startswith("session.")]
    assert kinds[0] == "session.started"  # perhaps before it had its name
    assert kinds[-1] == "session.idle"
    assert lone.types()[-1] == "daemon.stopped"
    assert "state" not in lone.recorder.status()


def test_a_deleted_journal_is_begun_again_with_all_sessions(stage: DemoStage) -> None:
    survivor, victim = stage.start(stage.root / "a"), stage.start(stage.root / "b")
    daemon_of(stage)
    for puppet in (survivor, victim):
        await_event(stage, "session.running", puppet.session_id)
    delete_database(notes_of(stage))
    victim.kill()
    await_event(stage, "session.stopped", victim.session_id)
    await_event(stage, "session.running", survivor.session_id)
    survivor.do("rest")
    await_event(stage, "session.idle", survivor.session_id)
    assert read_event_types(stage, survivor.session_id) == ["session.running", "session.idle"]
    assert read_event_types(stage, victim.session_id) == ["session.running", "session.stopped"]
    assert read_event_types(stage)[0] == "daemon.started"
    assert "events.gap" not in read_event_types(stage), "the daemon watched all the time"
    assert agentctl_of(stage, "daemon", "status", "--json").json()["daemon"]["seq"] == len(
        read_event_types(stage)
    )


def test_a_journal_of_another_process_gets_all_sessions_at_once(stage: DemoStage) -> None:
    puppet = stage.start()
    daemon_of(stage)
    await_event(stage, "session.running", puppet.session_id)
    delete_database(notes_of(stage))
    journal.append_events(notes_of(stage), [Event("user.hello", time.time())])
    await_event(stage, "session.running", puppet.session_id)
    assert read_event_types(stage) == ["user.hello", "daemon.started", "session.running"]


def test_a_journal_deleted_while_it_cannot_be_written_is_begun_again(
    stage: DemoStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Users delete it when their disk is full."""
    monkeypatch.setattr(module, "RETRY", 0.01)
    lone = LoneRecorder(stage)
    puppet = lone.start_with_puppet(stage)
    with monkeypatch.context() as patch:
        patch.setattr(db, "begin_transaction", raise_full_disk)
        puppet.do("rest")
        until(lambda: lone.recorder.status().get("state") == "failing", "it cannot write")
        delete_database(lone.notes)
    until(lambda: "session.idle" in lone.types(), "it is recorded")
    lone.recorder.stop()
    assert lone.types()[0] == "daemon.started"
    assert lone.types()[-1] == "daemon.stopped"


def test_the_end_does_not_create_a_deleted_journal(
    stage: DemoStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "RETRY", 60.0)
    lone = LoneRecorder(stage)
    puppet = lone.start_with_puppet(stage)
    delete_database(lone.notes)
    puppet.do("rest")
    until(lambda: bool(lone.recorder.status().get("pending")), "there is news")
    lone.recorder.stop()
    assert not os.path.exists(lone.notes)


def test_pruning_creates_no_database(stage: DemoStage, monkeypatch: pytest.MonkeyPatch) -> None:
    """Deleted at the worst moment: after pruning has begun, before it opens the database."""
    lone = LoneRecorder(stage)
    lone.start_with_puppet(stage)
    true_load = config.load

    def delete_and_load(environ: Mapping[str, str]) -> Config:
        delete_database(lone.notes)
        return true_load(environ)

    monkeypatch.setattr(config, "load", delete_and_load)
    lone.recorder._prune(0.0)
    assert not os.path.exists(lone.notes)
    lone.recorder.stop()
    assert not os.path.exists(lone.notes)


def raise_full_disk(_: object, path: str) -> NoReturn:
    raise Temporary(path, "no space left on its disk")


def delete_database(notes: str) -> None:
    """In the order of `rm state.db*`."""
    for file in (notes, f"{notes}-shm", f"{notes}-wal"):
        Path(file).unlink(missing_ok=True)


def test_the_oldest_of_too_many_pending_events_become_a_gap(
    stage: DemoStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST", 10)
    monkeypatch.setattr(module, "RETRY", 0.0)
    Path(home_of(stage)).mkdir(exist_ok=True)
    os.mkdir(notes_of(stage))
    lone = LoneRecorder(stage)
    for number in range(25):
        lone.recorder._record([Event("session.idle", float(number), subject=str(number))])
    os.rmdir(notes_of(stage))
    lone.recorder._record([Event("session.stopped", 99.0, subject="last")])
    events = journal.read_after(lone.notes, 0)
    assert events[0].type == "events.gap"
    assert [e.subject for e in events[1:]] == [
        *(str(n) for n in range(25 - len(events) + 2, 25)),
        "last",
    ]


def test_an_event_that_cannot_be_written_is_a_gap_and_delays_no_other(stage: DemoStage) -> None:
    lone = LoneRecorder(stage)
    odd = Event("session.idle", 2.0, "noon", subject="odd")  # type: ignore[arg-type]
    whole = [Event("session.idle", float(at), subject=str(at)) for at in (1, 3)]
    lone.recorder._record([whole[0], odd, whole[1]])
    lone.recorder._record([Event("session.idle", 4.0, subject="4")])
    events = journal.read_after(lone.notes, 0)
    assert [event.subject for event in events] == ["1", None, "3", "4"]
    assert events[1].type == "events.gap"
    assert "an event could not be written" in events[1].body["data"]["reason"]
    assert lone.recorder.status()["pending"] is None


def test_the_journal_is_kept_to_its_size(stage: DemoStage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PRUNE_AFTER", 50)
    stage.environ["AGENTCTL_JOURNAL_MAX_SIZE"] = "1M"
    lone = LoneRecorder(stage)
    now = time.time()
    for batch in range(20):
        read_event_types = [
            Event("session.stopped", now, now, "demo", f"{batch}.{n}", None, {"data": {"k": "x" * 4000}})
            for n in range(50)
        ]
        lone.recorder._record(read_event_types)
        lone.recorder._do_due()
    with db.transaction(lone.notes) as connection:
        assert db.measure_file(connection).used <= 1 << 20
    subjects = [event.subject for event in journal.read_after(lone.notes, 0)]
    assert subjects[-1] == "19.49"
    assert "0.0" not in subjects


def test_a_launch_by_another_wakes_it(stage: DemoStage) -> None:
    """Its process is no agent: the launcher's own event is recorded, and the daemon goes on."""
    daemon_of(stage)
    until(lambda: "daemon.started" in read_event_types(stage), "it watches")
    launch_writes.begin_launch(
        notes_of(stage), Launch("1a", ME, "s1", adapter="demo", cwd=str(stage.root))
    )
    launch_writes.begin_launch(notes_of(stage), Launch("2b", ME, "s2", adapter="no such", cwd="/"))
    puppet = stage.start()
    await_event(stage, "session.running", puppet.session_id)
    assert read_event_types(stage, "s1") == ["launch.started"]


@pytest.mark.parametrize(("namespace", "ends"), [("pid:[1]", False), (proc.pid_namespace(), True)])
def test_a_session_of_another_container_is_not_stopped_because_it_is_absent_here(
    stage: DemoStage, namespace: str, ends: bool
) -> None:
    """Its processes have other pids there: their absence here proves nothing."""
    address = f"proc:{2**22 - 1}@1"
    lone = LoneRecorder(stage)
    data = {"process": address, "boot": proc.read_boot_id()}
    journal.append_events(
        lone.notes,
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
    lone.recorder.start()
    puppet = stage.start()  # when this one is recorded, all that was there before has been looked at
    until(lambda: bool(journal.read_about(lone.notes, puppet.session_id or "")), "it watches")
    lone.recorder.stop()
    assert "events.gap" in lone.types()
    stops = [e for e in journal.read_about(lone.notes, address) if e.type == "session.stopped"]
    assert bool(stops) is ends


def test_an_unexpected_error_starts_it_again(stage: DemoStage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "REST", 0.01)
    broken = iter([True])

    def fail_once(self: Recorder) -> None:
        if next(broken, False):
            raise KeyError("nothing")
        due(self)

    due = Recorder._do_due
    monkeypatch.setattr(Recorder, "_do_due", fail_once)
    lone = LoneRecorder(stage)
    lone.recorder.start()
    until(lambda: lone.types().count("daemon.started") == 2, "it watches again")
    puppet = stage.start()
    until(lambda: bool(journal.read_about(lone.notes, puppet.session_id or "")), "and records")
    lone.recorder.stop()
    assert "state" not in lone.recorder.status()


def test_it_can_be_stopped_while_it_rests(stage: DemoStage, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its inotify descriptor is closed then, and the number may be another file's."""

    def broken(_: Recorder) -> NoReturn:
        raise KeyError("nothing")

    monkeypatch.setattr(Recorder, "_do_due", broken)
    lone = LoneRecorder(stage)
    lone.recorder.start()
    until(lambda: lone.types()[-1:] == ["daemon.stopped"], "it rests")
    lone.recorder.stop()
    assert lone.types() == ["daemon.started", "daemon.stopped"]
