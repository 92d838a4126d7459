"""List notification targets, send a test notification."""

from __future__ import annotations

import argparse
import json
import os
import time

from agentctl.cli.parser import Parser, add_json
from agentctl.light_typing import TYPE_CHECKING

if TYPE_CHECKING:
    from agentctl.config.keys import Notify
    from agentctl.truth.event import Event
    from agentctl.view.table import Cell

EXAMPLES = """\
  agentctl notify               the targets, and the last notification of each
  agentctl notify test          send a test to every target
  agentctl notify test phone    only to this one"""
LIST_EXAMPLES = """\
  agentctl notify          the same, shorter
  agentctl notify --json   for a script"""
TEST_EXAMPLES = """\
  agentctl notify test          to every target
  agentctl notify test phone    only to this one"""
COLOURS = {"delivered": "green", "quiet": "dim", "failed": "red"}
NO_DAEMON = "notifications are sent only while the daemon runs: agentctl daemon start"


def parser() -> Parser:
    parser = Parser(
        "notify",
        "Notifications say that an agent waits for you, has finished or has failed: on the desktop, by "
        "an HTTP POST or by a command. The daemon sends them to each target of the settings "
        "([notify.NAME]).",
        EXAMPLES,
        bare="list",
    )
    add_json(parser.add_command("list", "show the targets", LIST_EXAMPLES))
    test = parser.add_command("test", "send a test notification", TEST_EXAMPLES)
    test.add_argument("names", nargs="*", metavar="NAME", help="only to these targets")
    add_json(test)
    return parser


def run(arguments: argparse.Namespace) -> int:
    commands = {"list": _list, "test": _test}
    return commands[arguments.command](arguments)


def _test(arguments: argparse.Namespace) -> int:
    """Return 1 if a test failed."""
    from agentctl import text
    from agentctl.deliver import manage
    from agentctl.wire import session

    results = list(manage.probe_notify_targets(os.environ, arguments.names))
    has_failed = any(result.outcome != "delivered" for _, result in results)
    if arguments.json:
        tests = [
            {
                "name": target.name,
                "ok": result.outcome == "delivered",
                "why": result.message or None,
                "seconds": round(result.seconds, 3),
            }
            for target, result in results
        ]
        print(json.dumps({"version": session.VERSION, "tests": tests}, indent=1))
        return int(has_failed)
    for target, result in results:
        outcome = "sent" if result.outcome == "delivered" else f"FAILED: {result.message}"
        print(text.clean_line(f"{target.name}: {outcome}, {result.seconds:.1f} s"))
    return int(has_failed)


def _list(arguments: argparse.Namespace) -> int:
    from agentctl import text
    from agentctl.deliver import manage
    from agentctl.view import table
    from agentctl.view.table import Column
    from agentctl.wire import state as wire

    targets, last, pending = manage.list_notify_targets(os.environ)
    if arguments.json:
        print(json.dumps(wire.dump_notify_targets(targets.values(), last, pending), indent=1))
        return 0
    if not targets:
        print(f"{manage.NO_TARGET}; {manage.NO_TARGET_HINT}")
        return 0
    layout = (
        Column("NAME", table.WHOLE),
        Column("HOW", 12, goes=2),
        Column("ON", 8, goes=3),
        Column("ONLY", 8, goes=4),
        Column("LAST", 16, goes=1),
    )
    rows = [_row(target, last.get(name), pending.get(name, 0)) for name, target in targets.items()]
    print("\n".join(table.render(layout, rows, text.terminal_columns(), colour=text.has_colour())))
    _warn_without_daemon()
    return 0


def _warn_without_daemon() -> None:
    from agentctl.cli.parser import warn
    from agentctl.daemon_client import client, start
    from agentctl.errors import NoDaemon, Unreachable

    try:
        client.connect(start.find_home(os.environ)).close()
    except NoDaemon:
        warn(NO_DAEMON)
    except Unreachable as error:
        warn(str(error))


def _row(target: Notify, event: Event | None, pending: int) -> list[Cell]:
    from agentctl import text
    from agentctl.view.table import Cell
    from agentctl.wire import state as wire

    way, address = wire.describe_notify_target(target)
    only = [*target.adapters.value, *(f"group {name}" for name in target.groups.value)]
    result = event.type.partition(".")[2] if event is not None else ""
    return [
        Cell(target.name, "bold"),
        Cell(text.clean_line(f"{way}: {address}" if address is not None else way)),
        Cell(", ".join(target.on.value)),
        Cell(text.clean_line(", ".join(only)) or "-"),
        Cell(_last_result(event, pending), COLOURS.get(result, "")),
    ]


def _last_result(event: Event | None, pending: int) -> str:
    from agentctl import text
    from agentctl.durations import format_age
    from agentctl.wire import state as wire

    waiting = f"{pending} pending" if pending else ""
    if event is None:
        return waiting or "-"
    result, why = event.type.partition(".")[2], wire.notification_reason(event)
    line = f"{result} {format_age(time.time() - event.seen_at)} ago" + (f": {why}" if why else "")
    return text.clean_line(f"{line}; {waiting}" if waiting else line)
