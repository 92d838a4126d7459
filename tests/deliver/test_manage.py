"""Webhooks listed, retried and tested, with a real daemon and a real server."""

import re
import time
from pathlib import Path

import pytest

from agentctl.config import settings as config
from agentctl.state import db, journal, outbox
from agentctl.state.journal import Event
from tests.cli import hostile
from tests.daemon.serving import daemon_of, log_of
from tests.deliver.test_webhook import is_verified
from tests.ending import kill
from tests.fakes.demo import DemoStage
from tests.receiver import Receiver, hang, redirect
from tests.running import agentctl_of
from tests.waiting import until


def database(stage: DemoStage) -> str:
    return str(stage.root / "state" / "state.db")


def configure(stage: DemoStage, text: str) -> None:
    state = Path(database(stage)).parent
    state.mkdir(exist_ok=True)
    (state / "config.toml").write_text(text)
    settings = config.load({"AGENTCTL_HOME": str(state)})
    outbox.sync_targets(database(stage), settings.webhooks, settings.notify)


def webhook_section(name: str, url: str) -> str:
    return f'[webhooks.{name}]\nurl = "{url}"\nsecret = "hush"\n'


def append_event(stage: DemoStage, kind: str = "session.stopped") -> None:
    journal.append_events(database(stage), [Event(kind, time.time(), None, "demo", "s1")])


def give_up(stage: DemoStage, why: str = "gone") -> str:
    [(row, _)] = outbox.list_deliveries(database(stage), "webhook")
    outbox.record_dead(database(stage), row, time.time(), why)
    return row.id


@pytest.fixture
def delivery_id(stage: DemoStage) -> str:
    """Return the id of a delivery to a webhook that does not answer."""
    configure(stage, webhook_section("ci", "http://me:hush@127.0.0.1:1/?hush"))
    append_event(stage)
    return outbox.list_deliveries(database(stage), "webhook")[0][0].id


def test_list_shows_targets_and_pending_deliveries(stage: DemoStage, delivery_id: str) -> None:
    ran = agentctl_of(stage, "webhook", "list", COLUMNS="200")
    assert ran.code == 0
    lines = [line.split() for line in ran.lines]
    assert lines[1][:3] == ["ci", "1", "pending"]
    assert "http://127.0.0.1:1/?…" in ran.out
    assert lines[-1][:4] == [delivery_id[:8], "ci", "session.stopped", "due,"]
    assert "deliveries are made only while the daemon runs: agentctl daemon start" in ran.err
    assert "hush" not in ran.out


def test_list_all_shows_delivered_ones_too(stage: DemoStage, delivery_id: str) -> None:
    [(row, _)] = outbox.list_deliveries(database(stage), "webhook")
    outbox.record_delivered(database(stage), row, time.time(), {})
    assert delivery_id[:8] not in agentctl_of(stage, "webhook").out
    ran = agentctl_of(stage, "webhook", "--all", COLUMNS="200")
    assert re.search(r"delivered \d+s ago", ran.out)
    assert ran.err == ""
    shape = agentctl_of(stage, "webhook", "--all", "--json").json()
    assert [one["id"] for one in shape["deliveries"]] == [delivery_id]
    assert shape["targets"][0]["delivered"] == 1


def test_a_dead_delivery_is_listed_with_its_error(stage: DemoStage, delivery_id: str) -> None:
    give_up(stage, "it answers 410 \x1b[31mGone")
    ran = agentctl_of(stage, "webhook", COLUMNS="200")
    assert "1 given up" in ran.out
    assert "it answers 410" in ran.out
    assert hostile.harmful(ran.out) == []


def test_a_removed_webhook_with_a_pending_delivery_is_listed(stage: DemoStage, delivery_id: str) -> None:
    configure(stage, "")
    assert "not configured, 1 pending" in agentctl_of(stage, "webhook", COLUMNS="200").out


def test_the_daemon_delivers_a_dead_delivery_after_retry(stage: DemoStage) -> None:
    with Receiver() as receiver:
        configure(stage, webhook_section("ci", receiver.url))
        append_event(stage)
        id_ = give_up(stage)
        assert agentctl_of(stage, "webhook", "retry").out == "no delivery is pending\n"
        ran = agentctl_of(stage, "webhook", "retry", id_[:6])
        assert (ran.code, ran.out, ran.err) == (0, "retrying 1 delivery now\n", "")
        [request] = receiver.wait_for(1)
    assert request.id == id_
    assert is_verified(request, b"hush")


def test_retry_dead_retries_all_dead_deliveries(stage: DemoStage, delivery_id: str) -> None:
    give_up(stage)
    shape = agentctl_of(stage, "webhook", "retry", "--dead", "--json", AGENTCTL_NO_DAEMON="1").json()
    assert [(one["id"], one["state"]) for one in shape["deliveries"]] == [(delivery_id, "pending")]
    ran = agentctl_of(stage, "webhook", "retry", "--dead", AGENTCTL_NO_DAEMON="1")
    assert ran.out == "no delivery was given up\n"


def test_retry_of_an_unknown_or_delivered_one_is_refused(stage: DemoStage, delivery_id: str) -> None:
    ran = agentctl_of(stage, "webhook", "retry", "zzz")
    assert (ran.code, ran.out) == (3, "")
    assert "no delivery 'zzz'" in ran.err
    [(row, _)] = outbox.list_deliveries(database(stage), "webhook")
    outbox.record_delivered(database(stage), row, time.time(), {})
    ran = agentctl_of(stage, "webhook", "retry", delivery_id)
    assert (ran.code, "is delivered already" in ran.err) == (2, True)


def test_retry_of_an_ambiguous_prefix_is_refused(stage: DemoStage, delivery_id: str) -> None:
    with db.transaction(database(stage)) as connection:
        for id_ in ("ab1", "ab2"):
            connection.execute(
                "insert into outbox (id, kind, target, seq, created_at, due_at)"
                " values (?, 'webhook', 'ci', 1, 1, 1)",
                (id_,),
            )
    ran = agentctl_of(stage, "webhook", "retry", "ab")
    assert (ran.code, "'ab' matches 2 deliveries" in ran.err) == (3, True)


def test_a_test_event_is_sent_at_once_and_signed(stage: DemoStage) -> None:
    with Receiver() as receiver:
        configure(stage, webhook_section("ci", receiver.url))
        ran = agentctl_of(stage, "webhook", "test")
        assert ran.code == 0
        assert ran.out.startswith("ci: 200 in 0.")
        shape = agentctl_of(stage, "webhook", "test", "ci", "--json").json()
    assert shape["tests"][0]["status"] == 200
    assert shape["tests"][0]["ok"]
    assert [is_verified(request, b"hush") for request in receiver.requests] == [True, True]
    assert receiver.requests[0].json()["hook_type"] == "webhook.test"
    assert outbox.list_deliveries(database(stage), "webhook") == []


def test_a_failed_test_shows_the_error(stage: DemoStage) -> None:
    with Receiver(redirect) as receiver:
        url = receiver.url.replace("http://", "http://me:hush@")
        ran = agentctl_of(stage, "webhook", "test", AGENTCTL_WEBHOOK_URL=url)
    assert ran.code == 1
    assert ran.out.startswith("environment: failed: 127.0.0.1:")
    assert "redirects are not followed" in ran.out
    assert "hush" not in ran.out + ran.err


def test_a_test_without_a_matching_webhook_is_not_found(stage: DemoStage) -> None:
    ran = agentctl_of(stage, "webhook", "test")
    assert (ran.code, "no webhook is configured" in ran.err) == (3, True)
    configure(stage, webhook_section("ci", "http://127.0.0.1:1/"))
    ran = agentctl_of(stage, "webhook", "test", "other")
    assert ran.code == 3
    assert ran.err.splitlines() == ["agentctl: no webhook named 'other'", "  known: ci"]


def test_a_test_without_a_secret_says_so(stage: DemoStage) -> None:
    with Receiver() as receiver:
        ran = agentctl_of(stage, "webhook", "test", AGENTCTL_WEBHOOK_URL=receiver.url)
    assert ran.out.endswith("(not signed: it has no secret)\n")


def test_a_delivered_one_is_pending_no_more(stage: DemoStage) -> None:
    with Receiver(500) as receiver:
        configure(stage, webhook_section("ci", receiver.url))
        append_event(stage)
        agentctl_of(stage, "webhook", "retry")
        receiver.wait_for(2)
        until(lambda: not outbox.list_deliveries(database(stage), "webhook"), "it is delivered")
    assert agentctl_of(stage, "webhook", COLUMNS="200").lines[1].split()[:2] == ["ci", "ok"]


def test_a_daemon_killed_during_a_delivery_retries_it_when_restarted(
    stage: DemoStage,
) -> None:
    with Receiver(hang) as receiver:
        configure(stage, webhook_section("ci", receiver.url))
        daemon = daemon_of(stage)
        append_event(stage)
        [first] = receiver.wait_for(1)
        kill(daemon)
        daemon_of(stage)
        second = receiver.wait_for(2)[1]
        until(lambda: not outbox.list_deliveries(database(stage), "webhook"), "it is delivered")
        receiver.over.set()
    assert (first.id, first.headers["x-agentctl-attempt"]) == (second.id, "1")
    assert second.headers["x-agentctl-attempt"] == "2"


def test_daemon_status_shows_the_targets_of_the_courier(stage: DemoStage) -> None:
    configure(stage, webhook_section("ci", "http://me:hush@127.0.0.1:1/?hush"))
    append_event(stage)
    daemon_of(stage)

    def was_tried() -> bool:
        return any(row.error for row, _ in outbox.list_deliveries(database(stage), "webhook"))

    until(was_tried, "it was tried")
    ran = agentctl_of(stage, "daemon", "status", "--json")
    [courier] = [part for part in ran.json()["daemon"]["parts"] if part["name"] == "courier"]
    assert courier["targets"] == {"webhook": ["ci"], "notify": []}
    assert "hush" not in ran.out + log_of(stage)
