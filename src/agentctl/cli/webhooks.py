"""What `webhook list`, `retry` and `test` do, and how it is shown."""

from __future__ import annotations

import json
import os
import sys
import time

from agentctl import paths, text
from agentctl.cli.warning import warn
from agentctl.config import settings as config
from agentctl.config.settings import Config
from agentctl.config.targets import Webhook
from agentctl.deliver import ensure
from agentctl.durations import age, left
from agentctl.errors import Ambiguous, NoDaemon, NotFound, Unreachable, UsageError
from agentctl.state import outbox
from agentctl.urls import shown
from agentctl.view import table
from agentctl.view.table import Cell, Column
from agentctl.wire import deliveries
from agentctl.wire.deliveries import Row, Target

TARGETS = (
    Column("WEBHOOK", 12),
    Column("STATE", 20),
    Column("LAST", 8, goes=2),
    Column("EVENTS", 12, goes=1),
    Column("ADDRESS", 16, goes=3),
)
DELIVERIES = (
    Column("DELIVERY", 8),
    Column("TO", 8, goes=1),
    Column("EVENT", 15),
    Column("STATE", 18),
    Column("WHY", 16, goes=2),
)
SHORT = 8  # characters of an id, which is 32
NONE = "no webhook is configured; [webhooks.NAME] in the settings, or AGENTCTL_WEBHOOK_URL, makes one"


def show(*, everything: bool, as_json: bool) -> int:
    settings, notes = _here()
    rows = _rows(notes)
    targets = _targets(settings, rows)
    asked_for = [row for row in rows if everything or row.state in ("pending", "dead")]
    if as_json:
        print(json.dumps(deliveries.listing(targets, asked_for), indent=1))
        return 0
    if not targets:
        print(NONE)
        return 0
    _print(TARGETS, [_target_cells(target) for target in targets])
    if asked_for:
        print()
        _print(DELIVERIES, [_delivery_cells(row, time.time()) for row in asked_for])
    if any(row.state == "pending" for row in rows) and not _daemon_runs(notes):
        print("agentctl: no daemon runs to deliver them: agentctl daemon start", file=sys.stderr)
    return 0


def retry(id_: str | None, *, dead: bool, as_json: bool) -> int:
    """All that wait, or one by its id, or all that were given up: their tries begin anew."""
    settings, notes = _here()
    rows = [row for row in _rows(notes) if row.state in ("pending", "dead")]
    if id_ is not None:
        rows = [_one(id_, notes)]
    else:
        rows = [row for row in rows if row.state == ("dead" if dead else "pending")]
    outbox.retry(notes, [row.id for row in rows], time.time())
    if rows:
        for warning in ensure.ready(os.path.dirname(notes), settings):
            warn(warning)
    if as_json:
        ids = {row.id for row in rows}
        again = [row for row in _rows(notes) if row.id in ids]
        print(json.dumps(deliveries.listing([], again), indent=1))
        return 0
    what = "was given up" if dead else "waits"
    print(f"{_many(len(rows))} now" if rows else f"no delivery {what}")
    return 0


def test(name: str | None, *, as_json: bool) -> int:
    """Sends one to each, or to that one, and waits for the answer. Exit code 1 if one has failed."""
    from agentctl.deliver.webhook import send
    from agentctl.wire.webhook import test_event

    hooks = _chosen(config.load(os.environ), name)
    results = []
    for hook in hooks:
        id_ = os.urandom(16).hex()
        got = send(test_event(time.time()), id_, 1, hook.url.value, hook.secret.value)
        error = None if got.outcome == "delivered" else got.told
        results.append((hook, got.status, got.seconds, error))
        if not as_json:
            told = f"{got.status} in {got.seconds:.2f} s" if error is None else f"failed: {error}"
            signed = "" if hook.secret.value is not None else " (not signed: it has no secret)"
            print(text.one_line(f"{hook.name}: {told}{signed if error is None else ''}"), flush=True)
    if as_json:
        print(json.dumps(deliveries.probes(results), indent=1))
    return 1 if any(error is not None for *_, error in results) else 0


def _here() -> tuple[Config, str]:
    settings = config.load(os.environ)
    state = paths.state_directory(os.environ)
    if state is None:
        raise Unreachable("no home is known to keep deliveries in", "set AGENTCTL_HOME")
    return settings, paths.notes_file(state)


def _daemon_runs(notes: str) -> bool:
    from agentctl.daemon_client import client

    try:
        client.connect(os.path.dirname(notes)).close()
    except NoDaemon:
        return False
    except Unreachable:  # it runs, and answers in words of another version
        return True
    return True


def _rows(notes: str) -> list[Row]:
    return [
        Row(one.id, one.target, one.url, kind or None, one.seq, one.state, one.attempt, one.created_at,
            one.attempted_at, one.due_at, one.delivered_at, one.error)
        for one, kind in outbox.listed(notes, "webhook", all_of_them=True)
    ]  # fmt: skip


def _targets(settings: Config, rows: list[Row]) -> list[Target]:
    """Those of the settings, and those that something waits for."""
    names = dict.fromkeys(
        [*settings.webhooks, *(row.target for row in rows if row.state != "delivered")]
    )
    return [
        Target(name, settings.webhooks.get(name), tuple(row for row in rows if row.target == name))
        for name in names
    ]


def _one(id_: str, notes: str) -> Row:
    found = [row for row in _rows(notes) if row.id.startswith(id_)]
    if not id_ or not found:
        raise NotFound(f"no delivery {id_!r}", "agentctl webhook list --all shows them")
    if len(found) > 1:
        raise Ambiguous(f"{len(found)} deliveries begin with {id_!r}", "say more of the id")
    if found[0].state not in ("pending", "dead"):
        raise UsageError(f"{found[0].id} was delivered", "what was taken is not sent again")
    return found[0]


def _chosen(settings: Config, name: str | None) -> list[Webhook]:
    hooks = settings.webhooks
    if not hooks:
        raise NotFound(NONE.partition(";")[0], NONE.partition("; ")[2])
    if name is None:
        return list(hooks.values())
    if name not in hooks:
        raise NotFound(f"no webhook named {name!r}", f"known: {', '.join(hooks)}")
    return [hooks[name]]


def _many(count: int) -> str:
    return f"{count} deliver{'y is' if count == 1 else 'ies are'} tried again,"


def _print(layout: tuple[Column, ...], cells: list[list[Cell]]) -> None:
    print("\n".join(table.render(layout, cells, text.columns(), colour=text.coloured())))


def _target_cells(target: Target) -> list[Cell]:
    pending, dead = target.how_many("pending"), target.how_many("dead")
    parts = [f"{pending} pending"] * bool(pending) + [f"{dead} given up"] * bool(dead)
    if target.error:
        parts.insert(0, "failing")
    if target.hook is None and target.name != "fuse":
        parts.insert(0, "not configured")
    wrong = bool(parts) and parts != [f"{pending} pending"]
    last, hook = target.last_delivered_at, target.hook
    calm = "ok" if last is not None else "nothing sent yet"
    return [
        Cell(text.one_line(target.name), "bold"),
        Cell(", ".join(parts) or calm, "red" if wrong else ""),
        Cell(f"{age(time.time() - last)} ago" if last is not None else "-"),
        Cell(" ".join(hook.events.value) if hook is not None else "-"),
        Cell(text.one_line(shown(hook.url.value)) if hook is not None else "-"),
    ]


def _delivery_cells(row: Row, now: float) -> list[Cell]:
    to = f"{row.target} {shown(row.url)}" if row.url is not None else row.target
    tries = f"{row.attempt} tr{'y' if row.attempt == 1 else 'ies'}"
    state = {
        "pending": f"next in {left(row.due_at - now)}, {tries}" if row.due_at > now else f"due, {tries}",
        "dead": f"given up, {tries}",
        "delivered": f"delivered {age(now - (row.delivered_at or now))} ago",
    }.get(row.state, row.state)
    return [
        Cell(row.id[:SHORT]),
        Cell(text.one_line(to), keep_end=row.url is not None),
        Cell(row.hook_type or "-"),
        Cell(state, "red" if row.state == "dead" else ""),
        Cell(text.one_line(row.error or "")),
    ]
