"""List webhooks and their deliveries, retry deliveries, send a test."""

from __future__ import annotations

import argparse
import json
import os
import time

from agentctl.cli.parser import Parser, add_json
from agentctl.errors import UsageError
from agentctl.light_typing import TYPE_CHECKING

if TYPE_CHECKING:
    from agentctl.state.outbox import Delivery
    from agentctl.view.table import Cell, Column
    from agentctl.wire.state import WebhookTarget

EXAMPLES = """\
  agentctl webhook              webhooks, and what is not delivered yet
  agentctl webhook test ci      send a test event now and show the response
  agentctl webhook retry        retry all pending deliveries now"""
LIST_EXAMPLES = """\
  agentctl webhook               the same, shorter
  agentctl webhook list --all    delivered ones too
  agentctl webhook list --json   for a script"""
RETRY_EXAMPLES = """\
  agentctl webhook retry             all pending deliveries
  agentctl webhook retry 4f2a91c0    this one, even if it was given up
  agentctl webhook retry --dead      all that were given up"""
TEST_EXAMPLES = """\
  agentctl webhook test       every webhook
  agentctl webhook test ci    only this one
  AGENTCTL_WEBHOOK_URL=https://example.org/agents agentctl webhook test"""
SHORT = 8  # characters of an id, which is 32
NO_DAEMON = "deliveries are made only while the daemon runs: agentctl daemon start"


def parser() -> Parser:
    parser = Parser(
        "webhook",
        "Webhooks receive events over HTTP. Configure them in the settings (agentctl config init) or by "
        "AGENTCTL_WEBHOOK_URL and AGENTCTL_WEBHOOK_SECRET. The daemon delivers, and retries for up to a "
        "day.",
        EXAMPLES,
        bare="list",
    )
    listing = parser.add_command("list", "show webhooks and their deliveries", LIST_EXAMPLES)
    listing.add_argument("--all", action="store_true", help="show delivered ones too")
    retry = parser.add_command("retry", "retry pending deliveries now", RETRY_EXAMPLES)
    retry.add_argument(
        "delivery", nargs="?", metavar="ID", help="only this one, even if it was given up"
    )
    retry.add_argument(
        "--dead", action="store_true", help="all that were given up, not the pending ones"
    )
    test = parser.add_command("test", "send a test event now and show the response", TEST_EXAMPLES)
    test.add_argument("name", nargs="?", metavar="NAME", help="only to this webhook")
    for command in (listing, retry, test):
        add_json(command)
    return parser


def run(arguments: argparse.Namespace) -> int:
    commands = {"list": _list, "retry": _retry, "test": _test}
    return commands[arguments.command](arguments)


def _list(arguments: argparse.Namespace) -> int:
    from agentctl.cli.parser import warn
    from agentctl.deliver import manage
    from agentctl.wire import state as wire

    webhooks = manage.list_webhooks(os.environ, delivered=arguments.all)
    if arguments.json:
        print(json.dumps(wire.dump_webhooks(webhooks.targets, webhooks.deliveries), indent=1))
        return 0
    if not webhooks.targets:
        print(f"{manage.NO_WEBHOOK}; {manage.NO_WEBHOOK_HINT}")
        return 0
    _print_targets(webhooks.targets)
    if webhooks.deliveries:
        print()
        _print_deliveries(webhooks.deliveries)
    if webhooks.needs_daemon:
        warn(NO_DAEMON)
    return 0


def _retry(arguments: argparse.Namespace) -> int:
    from agentctl.cli.parser import warn
    from agentctl.deliver import manage
    from agentctl.wire import state as wire

    if arguments.dead and arguments.delivery is not None:
        raise UsageError("ID and --dead exclude each other", "give one of them")
    retry = manage.retry_deliveries(os.environ, arguments.delivery, dead=arguments.dead)
    for warning in retry.warnings:
        warn(warning)
    count = len(retry.deliveries)
    if arguments.json:
        print(json.dumps(wire.dump_webhooks([], retry.deliveries), indent=1))
    elif count:
        print(f"retrying {count} deliver{'y' if count == 1 else 'ies'} now")
    else:
        print("no delivery was given up" if arguments.dead else "no delivery is pending")
    return 0


def _test(arguments: argparse.Namespace) -> int:
    """Return 1 if a test failed."""
    from agentctl import text
    from agentctl.deliver import manage
    from agentctl.wire import state as wire

    probes = []
    for probe in manage.probe_webhooks(os.environ, arguments.name):
        probes.append(probe)
        if arguments.json:
            continue
        if probe.error is not None:
            line = f"{probe.hook.name}: failed: {probe.error}"
        else:
            is_signed = probe.hook.secret.value is not None
            line = f"{probe.hook.name}: {probe.status} in {probe.seconds:.2f} s"
            line += "" if is_signed else " (not signed: it has no secret)"
        print(text.clean_line(line), flush=True)
    if arguments.json:
        print(json.dumps(wire.dump_webhook_tests(probes), indent=1))
    return 1 if any(probe.error is not None for probe in probes) else 0


def _print_targets(targets: list[WebhookTarget]) -> None:
    from agentctl.view.table import Column

    layout = (
        Column("WEBHOOK", 12),
        Column("STATE", 20),
        Column("LAST", 8, goes=2),
        Column("EVENTS", 12, goes=1),
        Column("ADDRESS", 16, goes=3),
    )
    _print_table(layout, [_target_cells(target) for target in targets])


def _print_deliveries(rows: list[Delivery]) -> None:
    from agentctl.view.table import Column

    layout = (
        Column("DELIVERY", 8),
        Column("TO", 8, goes=1),
        Column("EVENT", 15),
        Column("STATE", 18),
        Column("WHY", 16, goes=2),
    )
    now = time.time()
    _print_table(layout, [_delivery_cells(row, now) for row in rows])


def _print_table(layout: tuple[Column, ...], cells: list[list[Cell]]) -> None:
    from agentctl import text
    from agentctl.view import table

    print("\n".join(table.render(layout, cells, text.terminal_columns(), colour=text.has_colour())))


def _target_cells(target: WebhookTarget) -> list[Cell]:
    from agentctl import text
    from agentctl.durations import format_age
    from agentctl.urls import redact_url
    from agentctl.view.table import Cell

    pending, dead = target.count_state("pending"), target.count_state("dead")
    parts = [f"{pending} pending"] * bool(pending) + [f"{dead} given up"] * bool(dead)
    if target.error:
        parts.insert(0, "failing")
    if target.hook is None and target.name != "fuse":
        parts.insert(0, "not configured")
    is_wrong = bool(parts) and parts != [f"{pending} pending"]
    last, hook = target.last_delivered_at, target.hook
    quiet = "ok" if last is not None else "nothing sent yet"
    return [
        Cell(text.clean_line(target.name), "bold"),
        Cell(", ".join(parts) or quiet, "red" if is_wrong else ""),
        Cell(f"{format_age(time.time() - last)} ago" if last is not None else "-"),
        Cell(" ".join(hook.events.value) if hook is not None else "-"),
        Cell(text.clean_line(redact_url(hook.url.value)) if hook is not None else "-"),
    ]


def _delivery_cells(row: Delivery, now: float) -> list[Cell]:
    from agentctl import text
    from agentctl.urls import redact_url
    from agentctl.view.table import Cell

    to = f"{row.target} {redact_url(row.url)}" if row.url is not None else row.target
    return [
        Cell(row.id[:SHORT]),
        Cell(text.clean_line(to), keep_end=row.url is not None),
        Cell(row.hook_type or "-"),
        Cell(_state(row, now), "red" if row.state == "dead" else ""),
        Cell(text.clean_line(row.error or "")),
    ]


def _state(row: Delivery, now: float) -> str:
    from agentctl.durations import format_age, format_time_left

    attempts = f"{row.attempt} attempt{'' if row.attempt == 1 else 's'}"
    if row.state == "pending":
        due = f"next in {format_time_left(row.due_at - now)}" if row.due_at > now else "due"
        return f"{due}, {attempts}"
    if row.state == "dead":
        return f"given up, {attempts}"
    if row.state == "delivered":
        return f"delivered {format_age(now - (row.delivered_at or now))} ago"
    return row.state
