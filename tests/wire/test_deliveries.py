"""Webhooks and deliveries as JSON: every field of the tables, nothing secret."""

import json

from agentctl.config.sources import Setting
from agentctl.config.targets import Webhook
from agentctl.wire.deliveries import (
    DELIVERY_FIELDS,
    TARGET_FIELDS,
    TEST_FIELDS,
    Row,
    Target,
    listing,
    probes,
)

HOOK = Webhook(
    "ci",
    Setting("https://me:hush@h/x?hush"),
    Setting("hush"),
    Setting(("session.*",)),
    Setting(()),
    Setting(("g",)),
)


def row(state: str, at: float, error: str | None = None, url: str | None = None) -> Row:
    delivered = at if state == "delivered" else None
    return Row(
        f"{state}{at:g}", "ci", url, "session.idle", 7, state, 2, 1.0, at, at + 9, delivered, error
    )


def names(fields: tuple[tuple[str, str, str], ...]) -> list[str]:
    return [name for name, _, _ in fields]


def test_every_field_and_nothing_secret() -> None:
    rows = (
        row("delivered", 5.0),
        row("pending", 6.0, "refused", "https://a:hush@b/?hush"),
        row("dead", 4.0),
    )
    made = listing([Target("ci", HOOK, rows), Target("old", None, ())], rows)
    assert "hush" not in json.dumps(made)
    first, old = made["targets"]
    assert list(first) == list(old) == names(TARGET_FIELDS)
    assert (first["url"], first["signed"], first["groups"]) == ("https://h/x?…", True, ["g"])
    assert (first["pending"], first["dead"], first["delivered"]) == (1, 1, 1)
    assert first["last_delivered_at"] == "1970-01-01T00:00:05.000Z"
    assert (old["url"], old["signed"], old["events"]) == (None, False, [])
    assert list(made["deliveries"][0]) == names(DELIVERY_FIELDS)
    assert [one["due_at"] is None for one in made["deliveries"]] == [True, False, True]
    assert made["deliveries"][1]["url"] == "https://b/?…"


def test_a_target_fails_until_it_takes_one() -> None:
    failed, taken = row("pending", 6.0, "refused"), row("delivered", 7.0)
    assert Target("ci", HOOK, (failed,)).error == "refused"
    assert Target("ci", HOOK, (failed, taken)).error is None
    assert Target("ci", HOOK, (taken, row("pending", 8.0, "refused"))).error == "refused"
    assert Target("ci", HOOK, ()).error is None


def test_a_test_that_was_sent() -> None:
    made = probes([(HOOK, 200, 0.12345, None), (HOOK, None, 1.0, "refused")])
    assert [list(one) for one in made["tests"]] == [names(TEST_FIELDS)] * 2
    assert [(one["ok"], one["seconds"], one["error"]) for one in made["tests"]] == [
        (True, 0.123, None),
        (False, 1.0, "refused"),
    ]
    assert "hush" not in json.dumps(made)
