"""List, retry and test the targets of deliveries: webhooks and notifications."""

from __future__ import annotations

import os
import time

from agentctl import paths
from agentctl.config import settings as config
from agentctl.config.keys import Notify, Webhook
from agentctl.config.settings import Config
from agentctl.deliver import ensure
from agentctl.deliver.policy import Result
from agentctl.errors import Ambiguous, NoDaemon, NotFound, Unreachable, UsageError
from agentctl.light_typing import Iterator, Mapping, NamedTuple, Sequence
from agentctl.state import outbox
from agentctl.state.outbox import Delivery
from agentctl.truth.event import Event
from agentctl.wire.state import WebhookTarget

OPEN = ("pending", "dead")  # states in which a delivery can be retried
NO_WEBHOOK = "no webhook is configured"
NO_WEBHOOK_HINT = "add [webhooks.NAME] to the settings, or set AGENTCTL_WEBHOOK_URL"
NO_TARGET = "no notification target is configured"
NO_TARGET_HINT = "add [notify.NAME] to config.toml: agentctl config init writes an example"


class WebhookList(NamedTuple):
    targets: list[WebhookTarget]
    deliveries: list[Delivery]
    needs_daemon: bool  # a delivery is pending and no daemon runs


class Retry(NamedTuple):
    deliveries: list[Delivery]  # as they are now
    warnings: list[str]


class Probe(NamedTuple):
    """The result of a test delivery."""

    hook: Webhook
    status: int | None
    seconds: float
    error: str | None


class NotifyList(NamedTuple):
    targets: Mapping[str, Notify]
    last: Mapping[str, Event]  # the result of the last notification, by target
    pending: Mapping[str, int]  # deliveries, by target


def list_webhooks(environ: Mapping[str, str], *, delivered: bool = False) -> WebhookList:
    """Return the webhooks and their open deliveries; `delivered` adds the others. Raises Unreachable."""
    settings, database = config.load(environ), _database(environ)
    rows = _read_rows(database)
    targets = _make_targets(settings, rows)
    is_pending = any(row.state == "pending" for row in rows)
    return WebhookList(
        targets,
        [row for row in rows if delivered or row.state in OPEN],
        needs_daemon=bool(targets) and is_pending and not _is_daemon_running(database),
    )


def retry_deliveries(
    environ: Mapping[str, str], prefix: str | None = None, *, dead: bool = False
) -> Retry:
    """Make deliveries due now: the one whose id has this prefix, all dead ones, or all pending ones.
    Raises NotFound, Ambiguous, UsageError, Unreachable."""
    settings, database = config.load(environ), _database(environ)
    rows = _read_rows(database)
    if prefix is not None:
        ids = {_find_open(rows, prefix).id}
    else:
        ids = {row.id for row in rows if row.state == ("dead" if dead else "pending")}
    outbox.retry_deliveries(database, [row.id for row in rows if row.id in ids], time.time())
    if not ids:
        return Retry([], [])
    warnings = ensure.ensure_delivery(os.path.dirname(database), settings)
    return Retry([row for row in _read_rows(database) if row.id in ids], warnings)


def probe_webhooks(environ: Mapping[str, str], name: str | None = None) -> Iterator[Probe]:
    """Send a test event to each webhook, or to the one of this name, and yield the answers. Raises
    NotFound."""
    from agentctl.deliver.webhook import send_webhook
    from agentctl.wire.webhook import test_event

    for hook in _choose_webhooks(config.load(environ).webhooks, name):
        delivery_id = os.urandom(16).hex()
        result = send_webhook(test_event(time.time()), delivery_id, 1, hook.url.value, hook.secret.value)
        error = None if result.outcome == "delivered" else result.message
        yield Probe(hook, result.status, result.seconds, error)


def list_notify_targets(environ: Mapping[str, str]) -> NotifyList:
    targets = config.load(environ).notify
    state = paths.state_directory(environ)
    if state is None:
        return NotifyList(targets, {}, {})
    database = paths.database_file(state)
    return NotifyList(targets, outbox.read_last_results(database), outbox.count_pending(database))


def probe_notify_targets(
    environ: Mapping[str, str], names: Sequence[str] = ()
) -> Iterator[tuple[Notify, Result]]:
    """Send a test notification to each target, or to those named. Raises NotFound."""
    from agentctl.deliver import notice, notify

    targets = config.load(environ).notify
    if not targets:
        raise NotFound(NO_TARGET, NO_TARGET_HINT)
    for name in names:
        if name not in targets:
            raise NotFound(f"no notification target {name!r}", f"known: {', '.join(targets)}")
    for name, target in targets.items():
        if not names or name in names:
            yield target, notify.send_notice(notice.test_notice(), target, environ)


def _database(environ: Mapping[str, str]) -> str:
    return paths.database_file(paths.require_state_directory(environ))


def _is_daemon_running(database: str) -> bool:
    from agentctl.daemon_client import client

    try:
        client.connect(os.path.dirname(database)).close()
    except NoDaemon:
        return False
    except Unreachable:  # a daemon of another version runs
        return True
    return True


def _read_rows(database: str) -> list[Delivery]:
    rows = outbox.list_deliveries(database, "webhook", all_of_them=True)
    return [delivery._replace(hook_type=kind or None) for delivery, kind in rows]


def _make_targets(settings: Config, rows: list[Delivery]) -> list[WebhookTarget]:
    """Return the webhooks of the settings, and those that have an open delivery."""
    names = dict.fromkeys(
        [*settings.webhooks, *(row.target for row in rows if row.state != "delivered")]
    )
    return [
        WebhookTarget(
            name, settings.webhooks.get(name), tuple(row for row in rows if row.target == name)
        )
        for name in names
    ]


def _find_open(rows: list[Delivery], prefix: str) -> Delivery:
    matches = [row for row in rows if row.id.startswith(prefix)]
    if not prefix or not matches:
        raise NotFound(f"no delivery {prefix!r}", "list them: agentctl webhook list --all")
    if len(matches) > 1:
        raise Ambiguous(f"{prefix!r} matches {len(matches)} deliveries", "give more of the id")
    if matches[0].state not in OPEN:
        raise UsageError(
            f"delivery {matches[0].id} is delivered already",
            "list those that can be retried: agentctl webhook list",
        )
    return matches[0]


def _choose_webhooks(hooks: Mapping[str, Webhook], name: str | None) -> list[Webhook]:
    if not hooks:
        raise NotFound(NO_WEBHOOK, NO_WEBHOOK_HINT)
    if name is None:
        return list(hooks.values())
    if name not in hooks:
        raise NotFound(f"no webhook named {name!r}", f"known: {', '.join(hooks)}")
    return [hooks[name]]
