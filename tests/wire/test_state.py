"""The JSON of what agentctl stores: absent facts are null, and secrets are not shown."""

import json
from pathlib import Path

from agentctl.config import settings
from agentctl.config.keys import Setting, Webhook
from agentctl.state.fuses import FIRED, SET, Action, Claim, Fuse, Moment
from agentctl.state.locks import Lock
from agentctl.state.outbox import Delivery
from agentctl.system.proc import ProcessIdentity, pid_namespace
from agentctl.truth.event import Event
from agentctl.truth.model import Problem
from agentctl.wire import state as wire
from agentctl.wire.session import VERSION

PERSON = Lock("/d", "", None, None, "me", "because", 0.0, 60.0)
AGENT = Lock("/d", "1a", ProcessIdentity("b", 7, 9), pid_namespace(), None, None, 0.0, None, "4f2a", "n")
NOW = Moment("boot", 20.0, 2000.0)
ACTIONS = (Action("stop"), Action("webhook", "https://me:secret@example.org/x?token=secret"))
FUSE = Fuse(
    "1a", "/w", None, None, None, "l", ACTIONS, 1000.0, "boot", 50.0, 1050.0, SET, results=(None, None)
)
HOOK = Webhook(
    "ci",
    {
        "url": Setting("https://me:hush@h/x?hush"),
        "secret": Setting("hush"),
        "events": Setting(("session.*",)),
        "adapters": Setting(()),
        "groups": Setting(("g",)),
    },
)
NOTIFY = """
[notify.desk]
desktop = true
[notify.phone]
url = "https://me:secret@ntfy.example/agents?auth=secret"
token = "secret"
on = ["failed"]
groups = ["team"]
[notify.mine]
command = "say x"
"""


def delivery(state: str, at: float, error: str | None = None, url: str | None = None) -> Delivery:
    return Delivery(
        id=f"{state}{at:g}",
        kind="webhook",
        target="ci",
        url=url,
        seq=7,
        created_at=1.0,
        due_at=at + 9,
        first_at=at,
        attempted_at=at,
        attempt=2,
        state=state,
        error=error,
        delivered_at=at if state == "delivered" else None,
        hook_type="session.idle",
    )


def test_locks_of_people_and_of_agents() -> None:
    person, agent = wire.dump_lock(PERSON), wire.dump_lock(AGENT)
    assert (person["kind"], person["pid"], person["launch_id"]) == ("person", None, None)
    assert person["expires_at"] == "1970-01-01T00:01:00.000Z"
    assert (agent["kind"], agent["pid"], agent["session_id"], agent["by"]) == ("agent", 7, "4f2a", None)
    assert not agent["foreign"]
    problem = Problem("", "forbidden", "m", "s")
    envelope = wire.dump_locks([PERSON], [problem])
    assert list(envelope) == ["version", "locks", "problems"]
    assert envelope["problems"] == [problem._asdict()]


def test_a_path_that_is_not_utf8_is_valid_json() -> None:
    odd = PERSON._replace(directory="/\udcff\n")
    assert json.loads(json.dumps(wire.dump_lock(odd)))["directory"] == "/\udcff\n"


def test_a_fuse_is_due_by_the_current_time_of_day() -> None:
    fuse = wire.dump_fuse(FUSE, NOW)
    assert (fuse["due_at"], fuse["left_seconds"]) == ("1970-01-01T00:33:50.000Z", 30.0)
    claim = Claim(ProcessIdentity("boot", 7, 8), None)
    fired = wire.dump_fuse(FUSE._replace(state=FIRED, settled_at=1060.0, claim=claim), NOW)
    assert (fired["due_at"], fired["left_seconds"]) == ("1970-01-01T00:17:30.000Z", None)
    assert fired["fired_by"] == 7


def test_fuses_without_secrets() -> None:
    envelope = wire.dump_fuses([FUSE], NOW)
    assert (envelope["version"], len(envelope["fuses"]), envelope["problems"]) == (1, 1, [])
    assert envelope["fuses"][0]["actions"] == [
        {"do": "stop"},
        {"do": "webhook", "what": "https://example.org/x?…"},
    ]


def test_envelopes_of_settings_pruning_and_the_daemon() -> None:
    envelope = wire.dump_settings("/f", [("defaults.model", None, "default", "")])
    assert list(envelope) == ["version", "file", "settings"]
    pruned = wire.dump_pruned([("lock", "/d", "w")], [], dry_run=True)
    assert (pruned["version"], pruned["dry_run"]) == (1, True)
    assert wire.dump_daemon(None) == {"version": VERSION, "daemon": None}
    daemon = wire.dump_daemon({"pid": 7, "something": "newer"})["daemon"]
    assert (daemon["pid"], daemon["seq"]) == (7, None)


def test_webhooks_without_secrets() -> None:
    rows = (
        delivery("delivered", 5.0),
        delivery("pending", 6.0, "refused", "https://a:hush@b/?hush"),
        delivery("dead", 4.0),
    )
    targets = [wire.WebhookTarget("ci", HOOK, rows), wire.WebhookTarget("old", None, ())]
    envelope = wire.dump_webhooks(targets, rows)
    assert "hush" not in json.dumps(envelope)
    first, old = envelope["targets"]
    assert (first["url"], first["signed"], first["groups"]) == ("https://h/x?…", True, ["g"])
    assert (first["pending"], first["dead"], first["delivered"]) == (1, 1, 1)
    assert first["last_delivered_at"] == "1970-01-01T00:00:05.000Z"
    assert (old["url"], old["signed"], old["events"]) == (None, False, [])
    assert [row["due_at"] is None for row in envelope["deliveries"]] == [True, False, True]
    assert envelope["deliveries"][1]["url"] == "https://b/?…"


def test_a_webhook_fails_until_it_takes_a_delivery() -> None:
    failed, delivered = delivery("pending", 6.0, "refused"), delivery("delivered", 7.0)
    never_tried = delivery("dead", 9.0, "no such webhook")._replace(attempted_at=None)
    assert wire.WebhookTarget("ci", HOOK, (failed,)).error == "refused"
    assert wire.WebhookTarget("ci", HOOK, (failed, delivered)).error is None
    assert wire.WebhookTarget("ci", HOOK, (delivered, delivery("pending", 8.0, "refused"))).error
    assert wire.WebhookTarget("ci", HOOK, (never_tried,)).error is None
    assert wire.WebhookTarget("ci", HOOK, ()).error is None


def test_webhook_tests() -> None:
    envelope = wire.dump_webhook_tests([(HOOK, 200, 0.12345, None), (HOOK, None, 1.0, "refused")])
    assert [(row["ok"], row["seconds"], row["error"]) for row in envelope["tests"]] == [
        (True, 0.123, None),
        (False, 1.0, "refused"),
    ]
    assert "hush" not in json.dumps(envelope)


def test_notify_targets(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text(NOTIFY)
    targets = settings.load({"AGENTCTL_HOME": str(tmp_path)}).notify
    last = Event("notify.quiet", 0.0, None, "pi", "4f2a", None, {"data": {"why": "you are there"}})
    envelope = wire.dump_notify_targets(targets.values(), {"desk": last}, {"phone": 2})
    desk, phone, mine = envelope["targets"]
    assert (desk["way"], desk["to"]) == ("desktop", None)
    assert desk["last"] == {
        "result": "quiet",
        "at": "1970-01-01T00:00:00.000Z",
        "why": "you are there",
        "session_id": "4f2a",
    }
    assert (phone["way"], phone["on"], phone["groups"]) == ("url", ["failed"], ["team"])
    assert (phone["pending"], phone["last"]) == (2, None)
    assert (mine["way"], mine["to"]) == ("command", "say x")
    assert "secret" not in str(envelope)


def test_the_reason_of_a_notification() -> None:
    assert wire.notification_reason(Event("notify.failed", 1.0, body={"data": {"error": "e"}})) == "e"
    assert wire.notification_reason(Event("notify.delivered", 1.0)) is None
