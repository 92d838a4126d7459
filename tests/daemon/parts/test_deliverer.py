"""Deliveries by a real deliverer to real servers: none is lost, none is delayed by another."""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from agentctl.config import settings as config
from agentctl.config.settings import Config
from agentctl.daemon.parts.deliverer import NO_TARGET, Deliverer
from agentctl.deliver.policy import DAY, Result
from agentctl.deliver.webhook import WebhookSender
from agentctl.state import db, journal, outbox
from agentctl.state.journal import Event
from agentctl.state.outbox import Delivery
from tests.daemon.dying import Hasty
from tests.receiver import Receiver, hang
from tests.running import SOURCES
from tests.waiting import until


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path


def path_of(home: Path) -> str:
    return str(home / "state.db")


@contextmanager
def running_deliverer(home: Path, *, hasty: bool = True, **environ: str) -> Iterator[Deliverer]:
    settings = {"AGENTCTL_HOME": str(home), **environ}
    deliverer = Deliverer(str(home), settings, [(Hasty if hasty else WebhookSender)(settings)])
    deliverer.start()
    try:
        until(
            lambda: "targets" in deliverer.status() and deliverer.status()["targets"] != {},
            "settings are read",
        )
        yield deliverer
    finally:
        deliverer.stop()


def write_config(home: Path, *hooks: tuple[str, str]) -> None:
    text = "".join(f'[webhooks.{name}]\nurl = "{url}"\nsecret = "hush"\n' for name, url in hooks)
    (home / "config.toml").write_text(text)


def record_stops(home: Path, *subjects: str, at: float | None = None) -> None:
    now = time.time() if at is None else at
    body = {"session": {"id": "s", "outcome": "completed"}}
    journal.append_events(
        path_of(home), [Event("session.stopped", now, now, "demo", s, None, body) for s in subjects]
    )


def read_states(home: Path) -> list[str]:
    return [row.state for row, _ in outbox.list_deliveries(path_of(home), "webhook", all_of_them=True)]


def await_settled(home: Path, count: int) -> None:
    def is_settled() -> bool:
        rows = read_states(home)
        return len(rows) == count and "pending" not in rows

    until(is_settled, f"{count} deliveries settled")


def read_event_types(home: Path) -> list[str]:
    return [event.type for event in journal.read_after(path_of(home), 0)]


def test_a_delivery_is_recorded_in_the_journal(home: Path) -> None:
    with Receiver() as receiver:
        write_config(home, ("ci", receiver.url))
        with running_deliverer(home) as deliverer:
            record_stops(home, "s1", "s2")
            await_settled(home, 2)
            until(lambda: deliverer.status()["pending"] == 0, "nothing is pending")
            assert deliverer.status()["targets"] == {"webhook": ["ci"], "notify": []}
    assert [r.json()["seq"] for r in receiver.requests] == [1, 2]
    assert read_event_types(home) == ["session.stopped"] * 2 + ["webhook.delivered"] * 2
    [event] = [e for e in journal.read_after(path_of(home), 2) if e.subject == "s1"]
    assert event.body["data"]["status"] == 200
    assert event.body["data"]["delivery"] == receiver.requests[0].id


def test_a_webhook_of_the_environment_is_known_before_the_settings_are_read(home: Path) -> None:
    """A launch compares it with its own environment as soon as the daemon answers."""
    Path(path_of(home)).mkdir()  # the database cannot be opened, so the settings are not read
    for url, expected in (("http://127.0.0.1:1/", True), ("", False)):
        environ = {"AGENTCTL_HOME": str(home), "AGENTCTL_WEBHOOK_URL": url}
        deliverer = Deliverer(str(home), environ, [])
        deliverer.start()
        try:
            status = deliverer.status()
            assert (status["environment_webhook"], status["targets"]) == (expected, {})
        finally:
            deliverer.stop()


def test_an_event_from_before_the_start_is_delivered(home: Path) -> None:
    with Receiver() as receiver:
        write_config(home, ("ci", receiver.url))
        with running_deliverer(home):
            pass
        record_stops(home, "s1")
        with running_deliverer(home):
            await_settled(home, 1)
    assert len(receiver.requests) == 1


def test_an_error_of_the_server_is_tried_again(home: Path) -> None:
    with Receiver(500, 503, 200) as receiver:
        write_config(home, ("ci", receiver.url))
        with running_deliverer(home):
            record_stops(home, "s1")
            await_settled(home, 1)
    assert [r.headers["x-agentctl-attempt"] for r in receiver.requests] == ["1", "2", "3"]
    assert len({r.id for r in receiver.requests}) == 1
    assert read_event_types(home) == [
        "session.stopped",
        "webhook.delivered",
    ]  # failed tries are no events


def test_a_receiver_that_hangs_delays_no_other(home: Path) -> None:
    with Receiver(*[hang] * 9) as stuck, Receiver() as fine:
        write_config(home, ("stuck", stuck.url), ("fine", fine.url))
        with running_deliverer(home) as deliverer:
            record_stops(home, "s1", "s2", "s3")
            fine.wait_for(3)
            stuck.wait_for(1)
            until(lambda: deliverer.status()["at_work"] == 1, "only the one that hangs is at work")
            assert len(stuck.requests) == 1
            stuck.over.set()


def test_410_is_not_tried_again(home: Path) -> None:
    with Receiver(410) as receiver:
        write_config(home, ("ci", receiver.url))
        with running_deliverer(home):
            record_stops(home, "s1")
            await_settled(home, 1)
    assert read_event_types(home) == ["session.stopped", "webhook.dead"]
    assert read_states(home) == ["dead"]


def test_a_delivery_is_given_up_after_a_day(home: Path) -> None:
    with Receiver(*[500] * 99) as receiver:
        write_config(home, ("ci", receiver.url))
        with running_deliverer(home):
            pass
        record_stops(home, "s1")
        with db.transaction(path_of(home)) as connection:
            connection.execute("update outbox set first_at = ?, attempt = 9", (time.time() - DAY,))
        with running_deliverer(home):
            await_settled(home, 1)
    assert read_states(home) == ["dead"]
    assert len(receiver.requests) == 1
    [(row, _)] = outbox.list_deliveries(path_of(home), "webhook")
    assert row.error is not None
    assert "answers 500" in row.error


def test_changed_settings_are_used_at_once(home: Path) -> None:
    with Receiver() as old, Receiver() as new:
        write_config(home, ("ci", old.url))
        with running_deliverer(home) as deliverer:
            record_stops(home, "s1")
            old.wait_for(1)
            (home / "config.toml").write_text("[webhooks.ci]\nurl = 7\n")
            until(lambda: deliverer.status().get("state") == "failing", "the mistake is shown")
            assert "config.toml:2: webhooks.ci.url" in deliverer.status()["problem"]
            record_stops(home, "s2")
            old.wait_for(2)  # the settings from before are still used
            write_config(home, ("ci", new.url))
            until(lambda: "problem" not in deliverer.status(), "the mistake is gone")
            record_stops(home, "s3")
            new.wait_for(1)
            await_settled(home, 3)
    assert len(old.requests) == 2


def test_deliveries_to_a_removed_target_wait_for_a_day(home: Path) -> None:
    with Receiver() as receiver:
        write_config(home, ("ci", receiver.url))
        with running_deliverer(home):
            pass
        record_stops(home, "new")
        record_stops(home, "old", at=time.time() - DAY - 1)
        write_config(home)
        with running_deliverer(home):
            until(lambda: sorted(read_states(home)) == ["dead", "pending"], "the old one is given up")
        [dead] = [
            row for row, _ in outbox.list_deliveries(path_of(home), "webhook") if row.state == "dead"
        ]
        assert dead.error == NO_TARGET
        write_config(home, ("ci", receiver.url))
        with running_deliverer(home):
            await_settled(home, 2)
        assert len(receiver.requests) == 1


def test_a_delivery_may_have_its_own_address(home: Path) -> None:
    with Receiver() as receiver, running_deliverer(home, AGENTCTL_WEBHOOK_SECRET="s"):
        with db.transaction(path_of(home)) as connection:
            seq = journal.append_event(connection, Event("fuse.fired", 1.0, subject="/x"))
            connection.execute(
                "insert into outbox (id, kind, target, url, seq, created_at, due_at)"
                " values ('d1', 'webhook', 'fuse', ?, ?, 1, 1)",
                (receiver.url, seq),
            )
        await_settled(home, 1)
    [request] = receiver.requests
    assert (request.id, request.json()["hook_type"]) == ("d1", "fuse.fired")
    assert "x-agentctl-signature" in request.headers


def test_a_delivery_whose_event_is_gone_has_an_error(home: Path) -> None:
    write_config(home, ("ci", "http://127.0.0.1:1/"))
    with running_deliverer(home):
        with db.transaction(path_of(home)) as connection:
            connection.execute(
                "insert into outbox (id, kind, target, seq, created_at, due_at)"
                " values ('d1', 'webhook', 'ci', 99, 1, 1)"
            )
        await_settled(home, 1)
    [(row, _)] = outbox.list_deliveries(path_of(home), "webhook")
    assert row.error == "its event is not in the journal any more"


class Clumsy(Hasty):
    """Fails once, with an unexpected error."""

    failed = False

    def deliver(self, delivery: Delivery, event: Event, settings: Config) -> Result:
        if not self.failed:
            self.failed = True
            raise ZeroDivisionError
        return super().deliver(delivery, event, settings)


def test_an_unexpected_error_is_tried_again(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agentctl.daemon.parts.deliverer.REST", 0.05)
    with Receiver() as receiver:
        write_config(home, ("ci", receiver.url))
        environ = {"AGENTCTL_HOME": str(home)}
        deliverer = Deliverer(str(home), environ, [Clumsy(environ)])
        deliverer.start()
        try:
            until(lambda: deliverer.status()["targets"] != {}, "settings are read")
            record_stops(home, "s1")
            await_settled(home, 1)
        finally:
            deliverer.stop()
    assert read_states(home) == ["delivered"]


def test_a_deleted_database_is_not_created_again_but_the_next_one_is_used(home: Path) -> None:
    with Receiver() as receiver:
        write_config(home, ("ci", receiver.url))
        with running_deliverer(home) as deliverer:
            for file in home.glob("state.db*"):
                file.unlink()
            deliverer._waiter.wake()
            record_stops(home, "s0")  # another process creates it again, and it has no target yet
            until(
                lambda: outbox.list_targets(path_of(home)) == {("webhook", "ci")},
                "the database lists the target",
            )
            record_stops(home, "s1")
            receiver.wait_for(1)
            await_settled(home, 1)
    assert receiver.requests[0].json()["seq"] == 2


def test_a_home_that_is_deleted_stays_deleted(tmp_path: Path) -> None:
    home = tmp_path / "state"
    home.mkdir()
    write_config(home, ("ci", "http://127.0.0.1:1/"))
    looks = Looks(home)
    looks.start()
    try:
        until(lambda: looks.status()["targets"] != {}, "settings are read")
        shutil.rmtree(home)
        before = looks.count
        looks._waiter.wake()
        until(lambda: looks.count > before + 1, "it has looked again")
    finally:
        looks.stop()
    assert not home.exists()


def test_no_secret_is_stored_or_shown(home: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG")
    with Receiver(500, 410) as receiver:
        url = receiver.url.replace("http://", "http://me:hush@") + "?key=hush"
        write_config(home, ("ci", url))
        with running_deliverer(home) as deliverer:
            record_stops(home, "s1")
            await_settled(home, 1)
            status = json.dumps(deliverer.status())
    assert "hush" not in status + caplog.text
    assert b"hush" not in (home / "state.db").read_bytes()


class Looks(Deliverer):
    """Counts its looks."""

    count = 0

    def __init__(self, home: Path) -> None:
        environ = {"AGENTCTL_HOME": str(home)}
        super().__init__(str(home), environ, [Hasty(environ)])

    def _start_due(self) -> float:
        self.count += 1
        return super()._start_due()


def test_it_does_not_wake_itself(home: Path) -> None:
    """The deliverer's own look at the database must not wake it."""
    write_config(home, ("ci", "http://127.0.0.1:1/"))
    looks = Looks(home)
    looks.start()
    try:
        until(lambda: looks.status()["targets"] != {}, "settings are read")
        time.sleep(0.5)  # there is no condition to wait for: it must stay quiet
        assert looks.count <= 3
    finally:
        looks.stop()


# A kill between any two steps

EVENTS = 2
DEATHS = 20  # of some hundred lines: spread over all of them, others at each run of the suite


def run_deliverer(home: Path, line: int) -> subprocess.CompletedProcess[str]:
    """Run a deliverer in a process that kills itself before that line; 0: it does not."""
    command = [sys.executable, "-m", "tests.daemon.dying", str(home), str(line)]
    here = str(Path(__file__).parents[3])
    environ = {**os.environ, "PYTHONPATH": f"{SOURCES}:{here}"}
    return subprocess.run(
        command, env=environ, cwd=here, capture_output=True, text=True, timeout=60, check=False
    )


def prepare_home(home: Path, url: str) -> None:
    home.mkdir(exist_ok=True)
    write_config(home, ("ci", url))
    settings = config.load({"AGENTCTL_HOME": str(home)})
    outbox.sync_targets(path_of(home), settings.webhooks, settings.notify)
    record_stops(home, *(f"s{number}" for number in range(EVENTS)))


def read_delivered_ids(home: Path) -> set[str]:
    rows = outbox.list_deliveries(path_of(home), "webhook", all_of_them=True)
    return {row.id for row, _ in rows if row.state == "delivered"}


@pytest.mark.slow
def test_a_kill_between_any_two_steps_loses_nothing(tmp_path: Path) -> None:
    """Only received deliveries are marked, all are received, and their ids show which came twice."""
    with Receiver() as receiver:
        prepare_home(tmp_path / "whole", receiver.url)
        ran = run_deliverer(tmp_path / "whole", 0)
        assert ran.returncode == 0, ran.stderr
    lines = int(ran.stdout)
    assert lines > 100
    died, twice, shift = 0, 0, random.randrange(lines // DEATHS)
    for line in range(1 + shift, lines, lines // DEATHS):
        home = tmp_path / str(line)
        with Receiver() as receiver:
            prepare_home(home, receiver.url)
            ids = {row.id for row, _ in outbox.list_deliveries(path_of(home), "webhook")}
            code = run_deliverer(home, line).returncode
            assert code in (0, -signal.SIGKILL), line  # 0: it needed fewer lines than the first
            died += code != 0
            assert read_delivered_ids(home) <= {request.id for request in receiver.requests}, line
            again = run_deliverer(home, 0)
            assert again.returncode == 0, again.stderr
        received = [request.id for request in receiver.requests]
        assert read_delivered_ids(home) == set(received) == ids, line
        assert len(ids) == EVENTS
        assert read_event_types(home).count("webhook.delivered") == EVENTS, line
        twice += len(received) > EVENTS
    assert died >= DEATHS - 2
    assert twice  # some died between sending and recording: without these the test proves little
