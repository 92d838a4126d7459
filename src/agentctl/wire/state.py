"""The JSON of what agentctl itself keeps: locks, fuses, settings, deliveries, the daemon.

docs/reference/json.md is generated from the tables here. URLs are shown without user, password and query.
"""

from __future__ import annotations

from agentctl.config.keys import Notify, Webhook
from agentctl.light_typing import Any, Iterable, Mapping, NamedTuple
from agentctl.state.fuses import ACTIVE, Fuse, Moment
from agentctl.state.locks import Lock
from agentctl.state.outbox import Delivery
from agentctl.system.clock import format_rfc3339
from agentctl.truth.event import Event
from agentctl.truth.model import Problem
from agentctl.urls import redact_url
from agentctl.wire.session import VERSION, Fields, dump_problem

LOCK_FIELDS: Fields = (
    ("directory", "string", "the real path of the locked directory"),
    ("kind", "string", "agent: locked while its process lives; person: until released or expired"),
    ("session_id", "string | null", "agent: the session that works there; null: not known"),
    ("launch_id", "string | null", "agent: the launch that took the lock"),
    ("name", "string | null", "agent: the name of the launch"),
    ("pid", "integer | null", "agent: the process that the lock ends with"),
    ("foreign", "boolean", "the process is in another container: whether it lives cannot be checked"),
    ("by", "string | null", "person: who took the lock"),
    ("reason", "string | null", "person: why"),
    ("created_at", "time", "since when"),
    ("expires_at", "time | null", "person: until when; null: until released"),
)
FUSE_FIELDS: Fields = (
    ("id", "string", "commands accept any unambiguous prefix"),
    ("directory", "string | null", "the real path of the directory that the fuse is on; null: it is on a session"),
    ("adapter", "string | null", "the agent of the session that the fuse is on"),
    ("session_id", "string | null", "the session that the fuse is on; null: on a directory, or not known yet"),
    ("launch_id", "string | null", "the launch that has this fuse as its --timeout; null: set by hand"),
    ("label", "string | null", "set with --label; timeout for a timeout"),
    ("state", "string", "burning (set), firing, fired, failed or cancelled"),
    ("actions", "array", "in the order they run: do (stop, run, emit, webhook) and what; a URL without its secrets"),
    ("created_at", "time", "when it was set"),
    ("due_at", "time", "when it fires, by the current time of day"),
    ("left_seconds", "number | null", "until it fires; negative: overdue; null: no longer set"),
    ("cwd", "string | null", "where its command runs; null: in a folder of its own"),
    ("fired_by", "integer | null", "pid of the process that fires or fired it"),
    ("settled_at", "time | null", "when it fired, failed or was cancelled"),
    ("reason", "string | null", "why it was cancelled"),
    ("results", "array", "the result of each action, in the same order, see below; null: not run yet"),
)  # fmt: skip
FUSE_RESULT_FIELDS: Fields = (
    ("do", "string", "the action: stop, run, emit or webhook"),
    ("ok", "boolean", "whether the action succeeded"),
    ("at", "time", "when it ran"),
    ("error", "string", "why the action could not run"),
    ("command", "string", "run: the command"),
    ("code", "integer | null", "run: the exit code; null: not known, or the command took too long"),
    ("seconds", "number", "run: how long the command took"),
    ("output", "string", "run: the file with the output of the command"),
    ("stopped", "array", "stop: for each session the proof, as in `stop`, and error"),
    ("delivery", "string", "webhook: the id of the delivery; `webhook list` shows its state"),
)
SETTING_FIELDS: Fields = (
    ("key", "string", "as in the file, with its section: defaults.model"),
    ("value", "any", "the value in use; durations in seconds; set for a secret; null: not set"),
    ("source", "string", "environment, file or default"),
    ("where", "string | null", "the variable, or the file and line"),
)
PRUNED_FIELDS: Fields = (
    ("kind", "string", "launch, folder, lock, cache or file; end: overdue work after a launch ended"),
    ("what", "string", "the launch id, directory or file; cache: how many entries"),
    ("why", "string", "why it is removed, in one sentence"),
)
DAEMON_FIELDS: Fields = (
    ("pid", "integer", "its process"),
    ("start", "integer", "clock ticks from boot to its start: with the pid, its process identity"),
    ("version", "string", "its agentctl version"),
    ("protocol", "integer", "the protocol version on its socket"),
    ("since", "time", "when it started"),
    ("home", "string", "its state directory: AGENTCTL_HOME"),
    ("socket", "string", "where it listens"),
    ("memory_bytes", "integer | null", "its private memory; null: not known"),
    ("clients", "integer", "connections, this one included"),
    ("subscribers", "integer", "connections that wait for events"),
    ("seq", "integer | null", "the last event in the journal; null: the journal cannot be read"),
    ("parts", "array", "name, state (running, degraded, failing, failed, off), problem, and facts of each part"),
)  # fmt: skip
WEBHOOK_FIELDS: Fields = (
    ("name", "string", "as in [webhooks.NAME]; environment: set by variables; fuse: set by fuse set --webhook URL"),
    ("url", "string | null", "without user, password and query; null: no longer in the settings"),
    ("signed", "boolean", "whether it has a secret"),
    ("events", "array", "patterns of the events that it receives"),
    ("adapters", "array", "only events of these agents; empty: of all"),
    ("groups", "array", "only events of these groups; empty: of all"),
    ("pending", "integer", "deliveries that are still to be made"),
    ("dead", "integer", "deliveries that were given up"),
    ("delivered", "integer", "deliveries that were made, as far as the journal goes back"),
    ("last_delivered_at", "time | null", "when it last accepted a delivery"),
    ("error", "string | null", "why the latest attempt failed; null: it did not"),
)  # fmt: skip
DELIVERY_FIELDS: Fields = (
    ("id", "string", "as in X-Agentctl-Delivery"),
    ("target", "string", "the name of the webhook"),
    ("url", "string | null", "the URL, where it is of this delivery only (fuse set --webhook URL)"),
    ("hook_type", "string | null", "the type of the event"),
    ("seq", "integer", "the number of the event"),
    ("state", "string", "pending, delivered, or dead: given up"),
    ("attempt", "integer", "how many attempts were made"),
    ("created_at", "time", "when it was recorded, with its event"),
    ("attempted_at", "time | null", "the latest attempt"),
    ("due_at", "time | null", "pending: the next attempt"),
    ("delivered_at", "time | null", "when the webhook accepted it"),
    ("error", "string | null", "why the latest attempt failed"),
)
WEBHOOK_TEST_FIELDS: Fields = (
    ("target", "string", "the name of the webhook"),
    ("url", "string", "without user, password and query"),
    ("ok", "boolean", "whether the response was 2xx"),
    ("status", "integer | null", "the HTTP status of the response"),
    ("seconds", "number", "how long the request took"),
    ("error", "string | null", "what went wrong"),
)
NOTIFY_FIELDS: Fields = (
    ("name", "string", "of the target: [notify.NAME]"),
    ("way", "string", "desktop, url or command"),
    ("to", "string | null", "the URL without its secrets, or the command"),
    ("on", "array", "waiting, finished, failed"),
    ("adapters", "array", "only of these agents; empty: of all"),
    ("groups", "array", "only of launches in these groups; empty: of all"),
    ("pending", "integer", "notifications that are still to be sent"),
    ("last", "object | null", "the last notification: result (delivered, quiet, failed), at, why (null: nothing to say), session_id"),
)  # fmt: skip


class WebhookTarget(NamedTuple):
    """A webhook and its deliveries."""

    name: str
    hook: Webhook | None  # None: not in the settings
    deliveries: tuple[Delivery, ...]

    @property
    def error(self) -> str | None:
        """Why the latest attempt failed; None if it did not."""
        attempts = [
            (at, row)
            for row in self.deliveries
            if (at := row.delivered_at or row.attempted_at) is not None
        ]
        _, latest = max(attempts, key=lambda attempt: attempt[0], default=(0.0, None))
        return latest.error if latest is not None and latest.state != "delivered" else None

    @property
    def last_delivered_at(self) -> float | None:
        times = [row.delivered_at for row in self.deliveries if row.delivered_at is not None]
        return max(times, default=None)

    def count_state(self, state: str) -> int:
        return sum(row.state == state for row in self.deliveries)


def dump_locks(locks: Iterable[Lock], problems: Iterable[Problem] = ()) -> dict[str, Any]:
    return _envelope("locks", map(dump_lock, locks), problems)


def dump_lock(lock: Lock) -> dict[str, Any]:
    identity = lock.identity
    return {
        "directory": lock.directory,
        "kind": "person" if identity is None else "agent",
        "session_id": lock.session_id,
        "launch_id": lock.launch_id or None,
        "name": lock.name,
        "pid": identity.pid if identity is not None else None,
        "foreign": lock.is_foreign,
        "by": lock.by,
        "reason": lock.reason,
        "created_at": format_rfc3339(lock.created_at),
        "expires_at": format_rfc3339(lock.expires_at),
    }


def dump_fuses(fuses: Iterable[Fuse], now: Moment, problems: Iterable[Problem] = ()) -> dict[str, Any]:
    return _envelope("fuses", (dump_fuse(fuse, now) for fuse in fuses), problems)


def dump_fuse(fuse: Fuse, now: Moment) -> dict[str, Any]:
    seconds = fuse.seconds_left(now) if fuse.state in ACTIVE else None
    return {
        "id": fuse.id,
        "directory": fuse.directory,
        "adapter": fuse.adapter,
        "session_id": fuse.session_id,
        "launch_id": fuse.launch_id,
        "label": fuse.label,
        "state": fuse.state,
        "actions": [action.public_form() for action in fuse.actions],
        "created_at": format_rfc3339(fuse.created_at),
        "due_at": format_rfc3339(fuse.due_at if seconds is None else now.at + seconds),
        "left_seconds": None if seconds is None else round(seconds, 3),
        "cwd": fuse.cwd,
        "fired_by": fuse.claim.identity.pid if fuse.claim is not None else None,
        "settled_at": format_rfc3339(fuse.settled_at),
        "reason": fuse.reason,
        "results": list(fuse.results),
    }


def dump_settings(file: str | None, settings: Iterable[tuple[str, Any, str, str]]) -> dict[str, Any]:
    rows = [
        {"key": key, "value": value, "source": source, "where": where or None}
        for key, value, source, where in settings
    ]
    return {"version": VERSION, "file": file, "settings": rows}


def dump_pruned(
    pruned: Iterable[tuple[str, str, str]], problems: Iterable[Problem], *, dry_run: bool
) -> dict[str, Any]:
    rows = ({"kind": kind, "what": what, "why": why} for kind, what, why in pruned)
    return {"dry_run": dry_run, **_envelope("pruned", rows, problems)}


def dump_daemon(status: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the JSON of `daemon status`; None: no daemon runs. Fields of a newer daemon are left out."""
    if status is None:
        return {"version": VERSION, "daemon": None}
    return {"version": VERSION, "daemon": {name: status.get(name) for name, _, _ in DAEMON_FIELDS}}


def dump_webhooks(targets: Iterable[WebhookTarget], deliveries: Iterable[Delivery]) -> dict[str, Any]:
    return {
        "version": VERSION,
        "targets": [_dump_webhook(target) for target in targets],
        "deliveries": [_dump_delivery(delivery) for delivery in deliveries],
    }


def _dump_webhook(target: WebhookTarget) -> dict[str, Any]:
    hook = target.hook
    return {
        "name": target.name,
        "url": redact_url(hook.url.value) if hook is not None else None,
        "signed": hook is not None and hook.secret.value is not None,
        "events": list(hook.events.value) if hook is not None else [],
        "adapters": list(hook.adapters.value) if hook is not None else [],
        "groups": list(hook.groups.value) if hook is not None else [],
        "pending": target.count_state("pending"),
        "dead": target.count_state("dead"),
        "delivered": target.count_state("delivered"),
        "last_delivered_at": format_rfc3339(target.last_delivered_at),
        "error": target.error,
    }


def _dump_delivery(delivery: Delivery) -> dict[str, Any]:
    values = {
        **delivery._asdict(),
        "url": redact_url(delivery.url) if delivery.url is not None else None,
        "created_at": format_rfc3339(delivery.created_at),
        "attempted_at": format_rfc3339(delivery.attempted_at),
        "due_at": format_rfc3339(delivery.due_at) if delivery.state == "pending" else None,
        "delivered_at": format_rfc3339(delivery.delivered_at),
    }
    return {name: values[name] for name, _, _ in DELIVERY_FIELDS}


def dump_webhook_tests(
    tests: Iterable[tuple[Webhook, int | None, float, str | None]],
) -> dict[str, Any]:
    """Return the JSON of `webhook test`: of each webhook the HTTP status, seconds and error."""
    rows = [
        {
            "target": hook.name,
            "url": redact_url(hook.url.value),
            "ok": error is None,
            "status": status,
            "seconds": round(seconds, 3),
            "error": error,
        }
        for hook, status, seconds, error in tests
    ]
    return {"version": VERSION, "tests": rows}


def dump_notify_targets(
    targets: Iterable[Notify], last: Mapping[str, Event], pending: Mapping[str, int]
) -> dict[str, Any]:
    """`last`: the result of the last notification of each target, by name."""
    rows = [
        _dump_notify_target(target, last.get(target.name), pending.get(target.name, 0))
        for target in targets
    ]
    return {"version": VERSION, "targets": rows}


def _dump_notify_target(target: Notify, last: Event | None, pending: int) -> dict[str, Any]:
    way, to = describe_notify_target(target)
    return {
        "name": target.name,
        "way": way,
        "to": to,
        "on": list(target.on.value),
        "adapters": list(target.adapters.value),
        "groups": list(target.groups.value),
        "pending": pending,
        "last": None if last is None else _dump_notification(last),
    }


def _dump_notification(event: Event) -> dict[str, Any]:
    return {
        "result": event.type.partition(".")[2],
        "at": format_rfc3339(event.seen_at),
        "why": notification_reason(event),
        "session_id": event.subject,
    }


def describe_notify_target(target: Notify) -> tuple[str, str | None]:
    """Return how a target is notified, and its URL or command."""
    if target.url.value is not None:
        return "url", redact_url(target.url.value)
    if target.command.value is not None:
        return "command", target.command.value
    return "desktop", None


def notification_reason(event: Event) -> str | None:
    """Return why a notification failed or was not sent."""
    data = event.body.get("data") or {}
    return data.get("error") or data.get("why")


def _envelope(name: str, rows: Iterable[dict[str, Any]], problems: Iterable[Problem]) -> dict[str, Any]:
    return {"version": VERSION, name: list(rows), "problems": [dump_problem(each) for each in problems]}
