"""`agentctl events`: with a daemon, without, and after its death; filtered; it ends with its reader."""

import json
import select
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from agentctl import paths
from agentctl.state import db, journal
from agentctl.system import pidfd
from agentctl.testing import Puppet
from agentctl.truth.event import Event
from tests.daemon.serving import daemon_of, daemons_of, home_of
from tests.fakes.demo import DemoStage
from tests.rooms import Room
from tests.running import agentctl_of, read_until, started
from tests.waiting import until


class Stream:
    """The output of one `agentctl events --json`."""

    def __init__(self, child: "subprocess.Popen[bytes]") -> None:
        self._child = child
        self.events: list[dict[str, Any]] = []

    def until(self, kind: str, subject: str | None = None) -> dict[str, Any]:
        while True:
            for event in self.events:
                if event["type"] == kind and subject in (None, event["subject"]):
                    return event
            try:
                raw = read_until(self._child, b"\n")
            except AssertionError as error:
                received = [(event["type"], event["subject"]) for event in self.events]
                raise AssertionError(f"no {kind} of {subject}: {received}; {error}") from None
            while not raw.endswith(b"\n"):
                raw += read_until(self._child, b"\n")
            self.events += map(json.loads, raw.splitlines())

    def has_output(self) -> bool:
        assert self._child.stdout is not None
        return bool(select.select([self._child.stdout], [], [], 0.1)[0])

    def wait_for_events_of(self, puppet: Puppet) -> None:
        """Make the puppet work and rest until an event arrives: without a daemon no other sign shows
        that the watch has begun, and the first look reports nothing."""

        def is_reported() -> bool:
            puppet.do("work")
            puppet.do("rest")
            return self.has_output()

        until(is_reported, "it watches")

    def types(self, subject: str | None) -> list[str]:
        return [event["type"] for event in self.events if event["subject"] == subject]


def test_it_starts_a_daemon(stage: DemoStage) -> None:
    puppet = stage.start()
    puppet.do("work")
    with started(stage, "events", "--json") as child:
        stream = Stream(child)
        running = stream.until("session.running", puppet.session_id)
        assert running["version"] == 1
        assert running["session"]["status"] == "running"
        puppet.do("rest")
        assert stream.until("session.idle", puppet.session_id)["seq"] > running["seq"]
        puppet.kill()
        stopped = stream.until("session.stopped", puppet.session_id)
        # a look before it is reaped shows the signal, a later one only its last turn
        assert stopped["session"]["outcome"] in ("killed", "completed")
    assert len(daemons_of(stage)) == 1


@pytest.mark.parametrize("how", [["--no-daemon"], []])
def test_without_a_daemon_it_watches_itself(stage: DemoStage, how: list[str]) -> None:
    puppet = stage.start()
    puppet.do("rest")
    more = {} if how else {"AGENTCTL_NO_DAEMON": "1"}
    with started(stage, "events", "--json", *how, **more) as child:
        stream = Stream(child)
        stream.wait_for_events_of(puppet)
        second = stage.start()
        stream.until("session.running", second.session_id)
        second.kill()
        stopped = stream.until("session.stopped", second.session_id)
        assert stopped["seq"] is None
        assert agentctl_of(stage, "lock", str(stage.work)).code == 0
        assert stream.until("lock.acquired", str(stage.work))["seq"] == 1
    assert daemons_of(stage) == []


def test_a_killed_daemon_is_started_again_and_the_gap_is_reported(stage: DemoStage) -> None:
    daemon = daemon_of(stage)
    with started(stage, "events", "--json", "--since", "0") as child:
        stream = Stream(child)
        puppet = stage.start()
        stream.until("session.running", puppet.session_id)
        with pidfd.Handle(daemon) as handle:
            handle.signal(signal.SIGKILL)
            assert handle.wait(20)
        puppet.kill()
        stream.until("session.stopped", puppet.session_id)
        stream.until("events.gap")
        assert stream.types(puppet.session_id).count("session.stopped") == 1
    assert len(daemons_of(stage)) == 1


@pytest.mark.parametrize("how", [["--no-daemon"], []])
def test_a_deleted_journal_is_a_gap_and_the_next_is_read(stage: DemoStage, how: list[str]) -> None:
    if not how:
        daemon_of(stage)
    notes = paths.database_file(home_of(stage))
    journal.append_events(notes, [Event("user.before", time.time(), subject="s")] * 9)
    with started(stage, "events", "--json", "--since", "0", *how) as child:
        stream = Stream(child)
        stream.until("user.before", "s")
        for file in (notes, f"{notes}-shm", f"{notes}-wal"):
            Path(file).unlink(missing_ok=True)
        journal.append_events(notes, [Event("user.after", time.time(), subject="s")])
        stream.until("events.gap")
        stream.until("user.after", "s")
        puppet = stage.start()
        stream.wait_for_events_of(puppet)
        puppet.do("work")
        stream.until("session.running", puppet.session_id)


@pytest.mark.slow
def test_a_daemon_that_a_person_stopped_stays_stopped(
    stage: DemoStage,
) -> None:
    daemon_of(stage)
    with started(stage, "events", "--since", "0") as child:
        puppet = stage.start()
        read_until(child, (puppet.session_id or "")[:8].encode())
        assert agentctl_of(stage, "daemon", "stop").code == 0
        _, err = child.communicate(timeout=60)
        assert child.returncode == 5
    assert err.decode().splitlines()[0] == "agentctl: the daemon was stopped"
    assert daemons_of(stage) == []


def _record_events(stage: DemoStage, *types: str) -> str:
    notes = paths.database_file(home_of(stage))
    journal.append_events(notes, [Event(kind, float(n), subject="s") for n, kind in enumerate(types, 1)])
    return notes


def test_since_selects_recorded_events(stage: DemoStage) -> None:
    _record_events(stage, "session.started", "session.idle", "session.stopped")
    ran = agentctl_of(stage, "events", "--since", "1", "--no-follow", "--json")
    assert [json.loads(line)["seq"] for line in ran.lines] == [2, 3]
    ran = agentctl_of(stage, "events", "--since", "1970-01-01T00:00:03Z", "--no-follow", "--json")
    assert [json.loads(line)["seq"] for line in ran.lines] == [3]
    ran = agentctl_of(stage, "events", "--since", "1h", "--no-follow")
    assert (ran.code, ran.out) == (0, "")
    ran = agentctl_of(
        stage, "events", "--since", "0", "--type", "session.idle", "--count", "1", "--json"
    )
    assert [json.loads(line)["type"] for line in ran.lines] == ["session.idle"]
    assert daemons_of(stage) == []


def test_pruned_events_are_a_gap(stage: DemoStage) -> None:
    notes = _record_events(stage, *["session.stopped"] * 5)
    with db.transaction(notes) as connection:
        journal.prune_events(connection, 4.0)
    ran = agentctl_of(stage, "events", "--since", "1", "--no-follow", "--json")
    events = [json.loads(line) for line in ran.lines]
    assert [event["type"] for event in events] == ["events.gap", "session.stopped", "session.stopped"]


def test_a_number_beyond_the_end_of_the_journal_is_a_gap(stage: DemoStage) -> None:
    _record_events(stage, "user.a", "user.b")
    ran = agentctl_of(stage, "events", "--since", "77", "--no-follow", "--json")
    assert [json.loads(line)["type"] for line in ran.lines] == ["events.gap", "user.a", "user.b"]


def test_it_ends_with_its_reader(stage: DemoStage) -> None:
    daemon_of(stage)
    with started(stage, "events") as child:
        assert child.stdout is not None
        child.stdout.close()
        assert child.wait(20) == 0


def test_wrong_words_are_usage_errors(stage: DemoStage) -> None:
    for words in (["--type", "session.dead"], ["--since", "yesterday"], ["--count", "0"]):
        ran = agentctl_of(stage, "events", *words)
        assert (ran.code, ran.out) == (2, "")
        assert len(ran.err.splitlines()) == 2


def test_a_new_agent_is_reported_without_loadavg(stage: DemoStage, tmp_path: Path) -> None:
    (tmp_path / "loadavg").write_text("")
    agent = ("-m", "agentctl.demo.agent", "--steps", "a prompt")
    with Room() as room:
        room.cover("/proc/loadavg", tmp_path / "loadavg")
        with (
            room.started(stage, *agent) as first,
            room.started(stage, "-m", "agentctl", "events", "--no-daemon", "--json") as child,
        ):
            read_until(first, b"\n")
            stream = Stream(child)

            def is_watching() -> bool:
                assert first.stdin is not None
                for step in (b"work\n", b"rest\n"):
                    first.stdin.write(step)
                    first.stdin.flush()
                    read_until(first, b"\n")
                return stream.has_output()

            until(is_watching, "it watches")
            # in a home of its own: beside the first one's files it would be seen
            with room.started(stage, *agent, DEMO_AGENT_HOME=str(tmp_path / "other")) as second:
                stream.until("session.started", read_until(second, b"\n").decode().strip())
