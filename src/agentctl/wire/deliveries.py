"""Webhooks and what became of their deliveries, as plain dicts. docs/reference/json.md is generated from
the tables here. Addresses are shown without user, password and query."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from agentctl.config.targets import Webhook
from agentctl.system.clock import rfc3339
from agentctl.urls import shown
from agentctl.wire.session import VERSION

TARGET_FIELDS: tuple[tuple[str, str, str], ...] = (
    ("name", "string", "as in [webhooks.NAME]; environment: by variables; fuse: by fuse set --webhook URL"),
    ("url", "string | null", "where, without user, password and query; null: not in the settings any more"),
    ("signed", "boolean", "it has a secret"),
    ("events", "array", "patterns of the events that it is told of"),
    ("adapters", "array", "only of these agents; empty: of all"),
    ("groups", "array", "only of these groups; empty: of all"),
    ("pending", "integer", "deliveries that are still to be made"),
    ("dead", "integer", "deliveries that were given up"),
    ("delivered", "integer", "deliveries that were made, for as long as the journal is kept"),
    ("last_delivered_at", "time | null", "when it last took one"),
    ("error", "string | null", "why the latest try failed; null: it did not"),
)  # fmt: skip
DELIVERY_FIELDS: tuple[tuple[str, str, str], ...] = (
    ("id", "string", "as in X-Agentctl-Delivery"),
    ("target", "string", "the name of the webhook"),
    ("url", "string | null", "where, if it is of this delivery alone (fuse set --webhook URL)"),
    ("hook_type", "string | null", "the type of the event"),
    ("seq", "integer", "the number of the event"),
    ("state", "string", "pending, delivered, or dead: given up"),
    ("attempt", "integer", "how many tries there were"),
    ("created_at", "time", "when it was written, with its event"),
    ("attempted_at", "time | null", "the latest try"),
    ("due_at", "time | null", "pending: the next try"),
    ("delivered_at", "time | null", "when it was taken"),
    ("error", "string | null", "why the latest try failed"),
)
TEST_FIELDS: tuple[tuple[str, str, str], ...] = (
    ("target", "string", "the name of the webhook"),
    ("url", "string", "where, without user, password and query"),
    ("ok", "boolean", "it answered 2xx"),
    ("status", "integer | null", "what it answered"),
    ("seconds", "number", "what that took"),
    ("error", "string | null", "what went wrong"),
)


class Row(NamedTuple):
    """A delivery, from the outbox: the layers keep us from naming its type."""

    id: str
    target: str
    url: str | None
    hook_type: str | None
    seq: int
    state: str
    attempt: int
    created_at: float
    attempted_at: float | None
    due_at: float
    delivered_at: float | None
    error: str | None


class Target(NamedTuple):
    name: str
    hook: Webhook | None  # None: not in the settings
    rows: tuple[Row, ...]

    @property
    def error(self) -> str | None:
        """Of the latest try, if it failed."""
        tried = [
            row for row in self.rows if row.attempted_at is not None or row.delivered_at is not None
        ]
        latest = max(tried, key=lambda row: row.delivered_at or row.attempted_at or 0.0, default=None)
        return latest.error if latest is not None and latest.state != "delivered" else None

    @property
    def last_delivered_at(self) -> float | None:
        return max((row.delivered_at for row in self.rows if row.delivered_at is not None), default=None)

    def how_many(self, state: str) -> int:
        return sum(row.state == state for row in self.rows)


def listing(targets: Iterable[Target], rows: Iterable[Row]) -> dict[str, Any]:
    return {
        "version": VERSION,
        "targets": [target(each) for each in targets],
        "deliveries": [delivery(each) for each in rows],
    }


def target(given: Target) -> dict[str, Any]:
    hook = given.hook
    return {
        "name": given.name,
        "url": shown(hook.url.value) if hook is not None else None,
        "signed": hook is not None and hook.secret.value is not None,
        "events": list(hook.events.value) if hook is not None else [],
        "adapters": list(hook.adapters.value) if hook is not None else [],
        "groups": list(hook.groups.value) if hook is not None else [],
        "pending": given.how_many("pending"),
        "dead": given.how_many("dead"),
        "delivered": given.how_many("delivered"),
        "last_delivered_at": rfc3339(given.last_delivered_at),
        "error": given.error,
    }


def delivery(given: Row) -> dict[str, Any]:
    return {
        **given._asdict(),
        "url": shown(given.url) if given.url is not None else None,
        "created_at": rfc3339(given.created_at),
        "attempted_at": rfc3339(given.attempted_at),
        "due_at": rfc3339(given.due_at) if given.state == "pending" else None,
        "delivered_at": rfc3339(given.delivered_at),
    }


def probes(given: Iterable[tuple[Webhook, int | None, float, str | None]]) -> dict[str, Any]:
    rows = [
        {
            "target": hook.name,
            "url": shown(hook.url.value),
            "ok": error is None,
            "status": status,
            "seconds": round(seconds, 3),
            "error": error,
        }
        for hook, status, seconds, error in given
    ]
    return {"version": VERSION, "tests": rows}
