"""Webhooks as a person sees them: listed, tried again, tested; by a real daemon to a real server."""

import re
import time
from pathlib import Path

import pytest

from agentctl.config import settings as config
from agentctl.state import db, journal, outbox, targets
from agentctl.state.journal import Event
from tests.cli import hostile
from tests.daemon.serving import daemon_of, log_of
from tests.deliver.test_webhook import verified
from tests.ending import kill
from tests.fakes.demo import DemoStage
from tests.receiver import Receiver, hang, redirect
from tests.running import agentctl_of
from tests.waiting import until


def notes(stage: DemoStage) -> str:
    return str(stage.root / "state" / "state.db")


def configured(stage: DemoStage, text: str) -> None:
    state = Path(notes(stage)).parent
    state.mkdir(exist_ok=True)
    (state / "config.toml").write_text(text)
    settings = config.load({"AGENTCTL_HOME": str(state)})
    targets.sync(notes(stage), settings.webhooks, settings.notify)


def hook(name: str, url: str) -> str:
    return f'[webhooks.{name}]\nurl = "{url}"\nsecret = "hush"\n'


def happened(stage: DemoStage, kind: str = "session.stopped") -> None:
    journal.record(notes(stage), [Event(kind, time.time(), None, "demo", "s1")])


def given_up(stage: DemoStage, why: str = "gone") -> str:
    [(row, _)] = outbox.listed(notes(stage), "webhook")
    outbox.dead(notes(stage), row, time.time(), why)
    return row.id


@pytest.fixture
def dead_end(stage: DemoStage) -> str:
    """A webhook that nobody answers, and a delivery to it."""
    configured(stage, hook("ci", "http://me:hush@127.0.0.1:1/?hush"))
    happened(stage)
    return outbox.listed(notes(stage), "webhook")[0][0].id


def test_list_shows_targets_and_what_waits(stage: DemoStage, dead_end: str) -> None:
    ran = agentctl_of(stage, "webhook", "list", COLUMNS="200")
    assert ran.code == 0
    lines = [line.split() for line in ran.lines]
    assert lines[1][:3] == ["ci", "1", "pending"]
    assert "http://127.0.0.1:1/?…" in ran.out
    assert lines[-1][:4] == [dead_end[:8], "ci", "session.stopped", "due,"]
    assert "no daemon runs to deliver them: agentctl daemon start" in ran.err
    assert "hush" not in ran.out


def test_list_all_shows_what_was_delivered_too(stage: DemoStage, dead_end: str) -> None:
    [(row, _)] = outbox.listed(notes(stage), "webhook")
    outbox.delivered(notes(stage), row, time.time(), {})
    assert dead_end[:8] not in agentctl_of(stage, "webhook").out
    ran = agentctl_of(stage, "webhook", "--all", COLUMNS="200")
    assert re.search(r"delivered \d+s ago", ran.out)
    assert ran.err == ""
    shape = agentctl_of(stage, "webhook", "--all", "--json").json()
    assert [one["id"] for one in shape["deliveries"]] == [dead_end]
    assert shape["targets"][0]["delivered"] == 1


def test_one_that_was_given_up_is_told_with_its_reason(stage: DemoStage, dead_end: str) -> None:
    given_up(stage, "it answers 410 \x1b[31mGone")
    ran = agentctl_of(stage, "webhook", COLUMNS="200")
    assert "1 given up" in ran.out
    assert "it answers 410" in ran.out
    assert hostile.harmful(ran.out) == []


def test_one_that_is_not_configured_any_more_is_shown(stage: DemoStage, dead_end: str) -> None:
    configured(stage, "")
    assert "not configured, 1 pending" in agentctl_of(stage, "webhook", COLUMNS="200").out


def test_retry_of_one_that_was_given_up_is_delivered_by_the_daemon(stage: DemoStage) -> None:
    with Receiver() as receiver:
        configured(stage, hook("ci", receiver.url))
        happened(stage)
        id_ = given_up(stage)
        assert agentctl_of(stage, "webhook", "retry").out == "no delivery waits\n"
        ran = agentctl_of(stage, "webhook", "retry", id_[:6])
        assert (ran.code, ran.out, ran.err) == (0, "1 delivery is tried again, now\n", "")
        [request] = receiver.got(1)
    assert request.id == id_
    assert verified(request, b"hush")


def test_retry_of_all_that_were_given_up(stage: DemoStage, dead_end: str) -> None:
    given_up(stage)
    shape = agentctl_of(stage, "webhook", "retry", "--dead", "--json", AGENTCTL_NO_DAEMON="1").json()
    assert [(one["id"], one["state"]) for one in shape["deliveries"]] == [(dead_end, "pending")]
    told = agentctl_of(stage, "webhook", "retry", "--dead", AGENTCTL_NO_DAEMON="1")
    assert told.out == "no delivery was given up\n"


def test_retry_of_what_is_not_there(stage: DemoStage, dead_end: str) -> None:
    ran = agentctl_of(stage, "webhook", "retry", "zzz")
    assert (ran.code, ran.out) == (3, "")
    assert "no delivery 'zzz'" in ran.err
    [(row, _)] = outbox.listed(notes(stage), "webhook")
    outbox.delivered(notes(stage), row, time.time(), {})
    ran = agentctl_of(stage, "webhook", "retry", dead_end)
    assert (ran.code, "was delivered" in ran.err) == (2, True)


def test_retry_of_an_ambiguous_one(stage: DemoStage, dead_end: str) -> None:
    with db.transaction(notes(stage)) as connection:
        for id_ in ("ab1", "ab2"):
            connection.execute(
                "insert into outbox (id, kind, target, seq, created_at, due_at)"
                " values (?, 'webhook', 'ci', 1, 1, 1)",
                (id_,),
            )
    ran = agentctl_of(stage, "webhook", "retry", "ab")
    assert (ran.code, "2 deliveries begin with 'ab'" in ran.err) == (3, True)


def test_a_test_is_sent_now_and_signed(stage: DemoStage) -> None:
    with Receiver() as receiver:
        configured(stage, hook("ci", receiver.url))
        ran = agentctl_of(stage, "webhook", "test")
        assert ran.code == 0
        assert ran.out.startswith("ci: 200 in 0.")
        shape = agentctl_of(stage, "webhook", "test", "ci", "--json").json()
    assert shape["tests"][0]["status"] == 200
    assert shape["tests"][0]["ok"]
    assert [verified(request, b"hush") for request in receiver.requests] == [True, True]
    assert receiver.requests[0].json()["hook_type"] == "webhook.test"
    assert outbox.listed(notes(stage), "webhook") == []


def test_a_test_that_fails_says_why(stage: DemoStage) -> None:
    with Receiver(redirect) as receiver:
        url = receiver.url.replace("http://", "http://me:hush@")
        ran = agentctl_of(stage, "webhook", "test", AGENTCTL_WEBHOOK_URL=url)
    assert ran.code == 1
    assert ran.out.startswith("environment: failed: 127.0.0.1:")
    assert "redirects are not followed" in ran.out
    assert "hush" not in ran.out + ran.err


def test_a_test_of_nobody(stage: DemoStage) -> None:
    ran = agentctl_of(stage, "webhook", "test")
    assert (ran.code, "no webhook is configured" in ran.err) == (3, True)
    configured(stage, hook("ci", "http://127.0.0.1:1/"))
    ran = agentctl_of(stage, "webhook", "test", "other")
    assert ran.code == 3
    assert ran.err.splitlines() == ["agentctl: no webhook named 'other'", "  known: ci"]


def test_without_a_secret_that_is_said(stage: DemoStage) -> None:
    with Receiver() as receiver:
        ran = agentctl_of(stage, "webhook", "test", AGENTCTL_WEBHOOK_URL=receiver.url)
    assert ran.out.endswith("(not signed: it has no secret)\n")


def test_what_waits_is_gone_once_it_is_delivered(stage: DemoStage) -> None:
    with Receiver(500) as receiver:
        configured(stage, hook("ci", receiver.url))
        happened(stage)
        agentctl_of(stage, "webhook", "retry")
        receiver.got(2)
        until(lambda: not outbox.listed(notes(stage), "webhook"), "it is delivered")
    assert agentctl_of(stage, "webhook", COLUMNS="200").lines[1].split()[:2] == ["ci", "ok"]


def test_a_daemon_that_is_killed_while_it_waits_for_an_answer_delivers_when_it_is_back(
    stage: DemoStage,
) -> None:
    with Receiver(hang) as receiver:
        configured(stage, hook("ci", receiver.url))
        daemon = daemon_of(stage)
        happened(stage)
        [first] = receiver.got(1)
        kill(daemon)
        daemon_of(stage)
        second = receiver.got(2)[1]
        until(lambda: not outbox.listed(notes(stage), "webhook"), "it is delivered")
        receiver.over.set()
    assert (first.id, first.headers["x-agentctl-attempt"]) == (second.id, "1")
    assert second.headers["x-agentctl-attempt"] == "2"


def test_status_tells_of_the_courier(stage: DemoStage) -> None:
    configured(stage, hook("ci", "http://me:hush@127.0.0.1:1/?hush"))
    happened(stage)
    daemon_of(stage)

    def tried() -> bool:
        return any(row.error for row, _ in outbox.listed(notes(stage), "webhook"))

    until(tried, "it was tried")
    ran = agentctl_of(stage, "daemon", "status", "--json")
    [courier] = [part for part in ran.json()["daemon"]["parts"] if part["name"] == "courier"]
    assert courier["targets"] == {"webhook": ["ci"], "notify": []}
    assert "hush" not in ran.out + log_of(stage)
