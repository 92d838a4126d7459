"""Deliveries by a real courier to real servers: none is lost, none held up by another."""

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
from agentctl.daemon.parts.deliverer import NOBODY, Courier
from agentctl.deliver.policy import DAY, Result
from agentctl.deliver.webhook import Webhooks
from agentctl.state import db, journal, outbox, targets
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
def running(home: Path, *, hasty: bool = True, **environ: str) -> Iterator[Courier]:
    given = {"AGENTCTL_HOME": str(home), **environ}
    made = Courier(str(home), given, [(Hasty if hasty else Webhooks)(given)])
    made.start()
    try:
        until(lambda: "targets" in made.status() and made.status()["targets"] != {}, "settings are read")
        yield made
    finally:
        made.stop()


def configured(home: Path, *hooks: tuple[str, str]) -> None:
    text = "".join(f'[webhooks.{name}]\nurl = "{url}"\nsecret = "hush"\n' for name, url in hooks)
    (home / "config.toml").write_text(text)


def happened(home: Path, *subjects: str, at: float | None = None) -> None:
    now = time.time() if at is None else at
    body = {"session": {"id": "s", "outcome": "completed"}}
    journal.record(
        path_of(home), [Event("session.stopped", now, now, "demo", s, None, body) for s in subjects]
    )


def states(home: Path) -> list[str]:
    return [row.state for row, _ in outbox.listed(path_of(home), "webhook", all_of_them=True)]


def settled(home: Path, count: int) -> None:
    def over() -> bool:
        found = states(home)
        return len(found) == count and "pending" not in found

    until(over, f"{count} deliveries settled")


def types(home: Path) -> list[str]:
    return [event.type for event in journal.after(path_of(home), 0)]


def test_an_event_is_delivered_and_that_is_told(home: Path) -> None:
    with Receiver() as receiver:
        configured(home, ("ci", receiver.url))
        with running(home) as courier:
            happened(home, "s1", "s2")
            settled(home, 2)
            until(lambda: courier.status()["pending"] == 0, "nothing is left")
            assert courier.status()["targets"] == {"webhook": ["ci"], "notify": []}
    assert [r.json()["seq"] for r in receiver.requests] == [1, 2]
    assert types(home) == ["session.stopped"] * 2 + ["webhook.delivered"] * 2
    [told] = [e for e in journal.after(path_of(home), 2) if e.subject == "s1"]
    assert told.body["data"]["status"] == 200
    assert told.body["data"]["delivery"] == receiver.requests[0].id


def test_what_was_written_while_nobody_ran_is_delivered_at_the_start(home: Path) -> None:
    with Receiver() as receiver:
        configured(home, ("ci", receiver.url))
        with running(home):
            pass
        happened(home, "s1")
        with running(home):
            settled(home, 1)
    assert len(receiver.requests) == 1


def test_500_and_then_200(home: Path) -> None:
    with Receiver(500, 503, 200) as receiver:
        configured(home, ("ci", receiver.url))
        with running(home):
            happened(home, "s1")
            settled(home, 1)
    assert [r.headers["x-agentctl-attempt"] for r in receiver.requests] == ["1", "2", "3"]
    assert len({r.id for r in receiver.requests}) == 1
    assert types(home) == ["session.stopped", "webhook.delivered"]  # tries that failed are no events


def test_one_that_hangs_holds_nobody_else(home: Path) -> None:
    with Receiver(*[hang] * 9) as stuck, Receiver() as fine:
        configured(home, ("stuck", stuck.url), ("fine", fine.url))
        with running(home) as courier:
            happened(home, "s1", "s2", "s3")
            fine.got(3)
            stuck.got(1)
            until(lambda: courier.status()["at_work"] == 1, "only the one that hangs is at work")
            assert len(stuck.requests) == 1
            stuck.over.set()


def test_gone_is_given_up_at_once(home: Path) -> None:
    with Receiver(410) as receiver:
        configured(home, ("ci", receiver.url))
        with running(home):
            happened(home, "s1")
            settled(home, 1)
    assert types(home) == ["session.stopped", "webhook.dead"]
    assert states(home) == ["dead"]


def test_a_day_of_tries_is_enough(home: Path) -> None:
    with Receiver(*[500] * 99) as receiver:
        configured(home, ("ci", receiver.url))
        with running(home):
            pass
        happened(home, "s1")
        with db.transaction(path_of(home)) as connection:
            connection.execute("update outbox set first_at = ?, attempt = 9", (time.time() - DAY,))
        with running(home):
            settled(home, 1)
    assert states(home) == ["dead"]
    assert len(receiver.requests) == 1
    [(row, _)] = outbox.listed(path_of(home), "webhook")
    assert row.error is not None
    assert "answers 500" in row.error


def test_the_settings_are_read_anew(home: Path) -> None:
    with Receiver() as old, Receiver() as new:
        configured(home, ("ci", old.url))
        with running(home) as courier:
            happened(home, "s1")
            old.got(1)
            (home / "config.toml").write_text("[webhooks.ci]\nurl = 7\n")
            until(lambda: courier.status().get("state") == "failing", "the mistake is told")
            assert "config.toml:2: webhooks.ci.url" in courier.status()["problem"]
            happened(home, "s2")
            old.got(2)  # what held before, holds
            configured(home, ("ci", new.url))
            until(lambda: "problem" not in courier.status(), "the mistake is gone")
            happened(home, "s3")
            new.got(1)
            settled(home, 3)
    assert len(old.requests) == 2


def test_what_waits_for_a_target_that_is_gone_waits_a_day(home: Path) -> None:
    with Receiver() as receiver:
        configured(home, ("ci", receiver.url))
        with running(home):
            pass
        happened(home, "new")
        happened(home, "old", at=time.time() - DAY - 1)
        configured(home)
        with running(home):
            until(lambda: sorted(states(home)) == ["dead", "pending"], "the old one is given up")
        [dead] = [row for row, _ in outbox.listed(path_of(home), "webhook") if row.state == "dead"]
        assert dead.error == NOBODY
        configured(home, ("ci", receiver.url))
        with running(home):
            settled(home, 2)
        assert len(receiver.requests) == 1


def test_an_address_that_comes_with_a_delivery(home: Path) -> None:
    with Receiver() as receiver, running(home, AGENTCTL_WEBHOOK_SECRET="s"):
        with db.transaction(path_of(home)) as connection:
            seq = journal.append(connection, Event("fuse.fired", 1.0, subject="/x"))
            connection.execute(
                "insert into outbox (id, kind, target, url, seq, created_at, due_at)"
                " values ('d1', 'webhook', 'fuse', ?, ?, 1, 1)",
                (receiver.url, seq),
            )
        settled(home, 1)
    [request] = receiver.requests
    assert (request.id, request.json()["hook_type"]) == ("d1", "fuse.fired")
    assert "x-agentctl-signature" in request.headers


def test_an_event_that_is_gone_is_told(home: Path) -> None:
    configured(home, ("ci", "http://127.0.0.1:1/"))
    with running(home):
        with db.transaction(path_of(home)) as connection:
            connection.execute(
                "insert into outbox (id, kind, target, seq, created_at, due_at)"
                " values ('d1', 'webhook', 'ci', 99, 1, 1)"
            )
        settled(home, 1)
    [(row, _)] = outbox.listed(path_of(home), "webhook")
    assert row.error == "its event is not in the journal any more"


class Clumsy(Hasty):
    """Fails in a way that nobody expected, once."""

    failed = False

    def deliver(self, delivery: Delivery, event: Event, settings: Config) -> Result:
        if not self.failed:
            self.failed = True
            raise ZeroDivisionError
        return super().deliver(delivery, event, settings)


def test_what_nobody_expected_is_tried_again(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agentctl.daemon.parts.deliverer.REST", 0.05)
    with Receiver() as receiver:
        configured(home, ("ci", receiver.url))
        environ = {"AGENTCTL_HOME": str(home)}
        courier = Courier(str(home), environ, [Clumsy(environ)])
        courier.start()
        try:
            until(lambda: courier.status()["targets"] != {}, "settings are read")
            happened(home, "s1")
            settled(home, 1)
        finally:
            courier.stop()
    assert states(home) == ["delivered"]


def test_a_database_that_is_deleted_is_not_made_again_but_the_next_one_is_served(home: Path) -> None:
    with Receiver() as receiver:
        configured(home, ("ci", receiver.url))
        with running(home) as courier:
            for file in home.glob("state.db*"):
                file.unlink()
            courier._wake.call()
            happened(home, "s0")  # another process makes it anew, and in that nobody is to be told yet
            until(lambda: targets.known(path_of(home)) == {("webhook", "ci")}, "it knows who is told")
            happened(home, "s1")
            receiver.got(1)
            settled(home, 1)
    assert receiver.requests[0].json()["seq"] == 2


def test_a_home_that_is_deleted_stays_deleted(tmp_path: Path) -> None:
    home = tmp_path / "state"
    home.mkdir()
    configured(home, ("ci", "http://127.0.0.1:1/"))
    looks = Looks(home)
    looks.start()
    try:
        until(lambda: looks.status()["targets"] != {}, "settings are read")
        shutil.rmtree(home)
        before = looks.count
        looks._wake.call()
        until(lambda: looks.count > before + 1, "it has looked again")
    finally:
        looks.stop()
    assert not home.exists()


def test_no_secret_is_kept_or_told(home: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG")
    with Receiver(500, 410) as receiver:
        url = receiver.url.replace("http://", "http://me:hush@") + "?key=hush"
        configured(home, ("ci", url))
        with running(home) as courier:
            happened(home, "s1")
            settled(home, 1)
            told = json.dumps(courier.status())
    assert "hush" not in told + caplog.text
    assert b"hush" not in (home / "state.db").read_bytes()


class Looks(Courier):
    """Counts them."""

    count = 0

    def __init__(self, home: Path) -> None:
        environ = {"AGENTCTL_HOME": str(home)}
        super().__init__(str(home), environ, [Hasty(environ)])

    def _round(self) -> float:
        self.count += 1
        return super()._round()


def test_quiet_when_nothing_happens(home: Path) -> None:
    """Our own looks at the database must not wake us."""
    configured(home, ("ci", "http://127.0.0.1:1/"))
    looks = Looks(home)
    looks.start()
    try:
        until(lambda: looks.status()["targets"] != {}, "settings are read")
        time.sleep(0.5)  # nothing is waited for: it is to stay quiet
        assert looks.count <= 3
    finally:
        looks.stop()


# Killed between any two steps

EVENTS = 2
DEATHS = 20  # of some hundred lines: spread over all of them, others at each run of the suite


def lives(home: Path, line: int) -> subprocess.CompletedProcess[str]:
    """A courier of its own process, which dies before that line; 0: it does not."""
    command = [sys.executable, "-m", "tests.daemon.dying", str(home), str(line)]
    here = str(Path(__file__).parents[3])
    environ = {**os.environ, "PYTHONPATH": f"{SOURCES}:{here}"}
    return subprocess.run(
        command, env=environ, cwd=here, capture_output=True, text=True, timeout=60, check=False
    )


def prepared(home: Path, url: str) -> None:
    home.mkdir(exist_ok=True)
    configured(home, ("ci", url))
    settings = config.load({"AGENTCTL_HOME": str(home)})
    targets.sync(path_of(home), settings.webhooks, settings.notify)
    happened(home, *(f"s{number}" for number in range(EVENTS)))


def marked(home: Path) -> set[str]:
    rows = outbox.listed(path_of(home), "webhook", all_of_them=True)
    return {row.id for row, _ in rows if row.state == "delivered"}


def test_killed_between_any_two_steps_it_loses_nothing(tmp_path: Path) -> None:
    """Nothing is marked that was not received, everything is received, and the ids tell what was
    received twice."""
    with Receiver() as receiver:
        prepared(tmp_path / "whole", receiver.url)
        ran = lives(tmp_path / "whole", 0)
        assert ran.returncode == 0, ran.stderr
    lines = int(ran.stdout)
    assert lines > 100
    died, twice, shift = 0, 0, random.randrange(lines // DEATHS)
    for line in range(1 + shift, lines, lines // DEATHS):
        home = tmp_path / str(line)
        with Receiver() as receiver:
            prepared(home, receiver.url)
            ids = {row.id for row, _ in outbox.listed(path_of(home), "webhook")}
            ended = lives(home, line).returncode
            assert ended in (0, -signal.SIGKILL), line  # 0: it was done in fewer lines than the first
            died += ended != 0
            assert marked(home) <= {request.id for request in receiver.requests}, line
            again = lives(home, 0)
            assert again.returncode == 0, again.stderr
        received = [request.id for request in receiver.requests]
        assert marked(home) == set(received) == ids, line
        assert len(ids) == EVENTS
        assert types(home).count("webhook.delivered") == EVENTS, line
        twice += len(received) > EVENTS
    assert died >= DEATHS - 2
    assert twice  # where it dies after sending and before noting so: else this proves little
