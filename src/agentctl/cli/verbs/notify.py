"""Who is told that an agent waits or has ended; and a try of it."""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Mapping

from agentctl import paths, text
from agentctl.cli.parser import Parser, add_json
from agentctl.config import settings
from agentctl.config.targets import Notify
from agentctl.daemon_client import client, start
from agentctl.deliver import notice, notify
from agentctl.durations import age
from agentctl.errors import NoDaemon, NotFound, Unreachable, UsageError
from agentctl.state import notified
from agentctl.truth.event import Event
from agentctl.view import table
from agentctl.view.table import Cell, Column
from agentctl.wire import notify_shapes, session

EXAMPLES = """\
  agentctl notify               who is told of what, and how the last one went
  agentctl notify test          send a test to every target
  agentctl notify test phone    to this one
  agentctl notify --json        for a script"""
DEEDS = ("list", "test")
NONE = "nobody is told; [notify.NAME] in config.toml makes a target: agentctl config init shows how"
COLOURS = {"delivered": "green", "quiet": "dim", "failed": "red"}
LAYOUT = (
    Column("NAME", table.WHOLE),
    Column("HOW", 12, goes=2),
    Column("ON", 8, goes=3),
    Column("ONLY", 8, goes=4),
    Column("LAST", 16, goes=1),
)


def parser() -> Parser:
    made = Parser(
        "notify",
        "Who is told that an agent waits for you, has finished or has failed: on the desktop, by a POST "
        "or by a command. The daemon tells them; docs/notifications.md says when it does not.",
        EXAMPLES,
    )
    made.add_argument(
        "words", nargs="*", metavar="WORD", help="list (the default), or test and the names"
    )
    add_json(made)
    return made


def run(arguments: argparse.Namespace) -> int:
    deed, names = (arguments.words or ["list"])[0], arguments.words[1:]
    if deed not in DEEDS or (deed == "list" and names):
        given = " ".join(arguments.words)
        raise UsageError(f"not known: {given}", f"one of: {', '.join(DEEDS)}")
    targets = settings.load(os.environ).notify
    if deed == "test":
        return _test(_chosen(targets, names), as_json=arguments.json)
    return _list(targets, as_json=arguments.json)


def _chosen(targets: Mapping[str, Notify], names: list[str]) -> list[Notify]:
    if not targets:
        raise NotFound("there is no target", NONE)
    for name in names:
        if name not in targets:
            raise NotFound(f"no target {name!r}", f"known: {', '.join(targets)}")
    return [target for name, target in targets.items() if not names or name in names]


def _test(targets: list[Notify], *, as_json: bool) -> int:
    results = [(target, notify.tell(notice.test(), target, os.environ)) for target in targets]
    failed = [target for target, result in results if result.outcome != "delivered"]
    if as_json:
        told = [
            {
                "name": target.name,
                "ok": result.outcome == "delivered",
                "why": result.told or None,
                "seconds": round(result.seconds, 3),
            }
            for target, result in results
        ]
        print(json.dumps({"version": session.VERSION, "tests": told}, indent=1))
        return 1 if failed else 0
    for target, result in results:
        how = "told" if result.outcome == "delivered" else f"FAILED: {result.told}"
        print(text.one_line(f"{target.name}: {how}, {result.seconds:.1f} s"))
    return 1 if failed else 0


def _list(targets: Mapping[str, Notify], *, as_json: bool) -> int:
    state = paths.state_directory(os.environ)
    notes = paths.notes_file(state) if state is not None else None
    last = notified.last(notes) if notes is not None else {}
    pending = notified.pending(notes) if notes is not None else {}
    if as_json:
        print(json.dumps(notify_shapes.targets(targets.values(), last, pending), indent=1))
        return 0
    if not targets:
        print(NONE)
        return 0
    rows = [_row(target, last.get(name), pending.get(name, 0)) for name, target in targets.items()]
    print("\n".join(table.render(LAYOUT, rows, text.columns(), colour=text.coloured())))
    _warn()
    return 0


def _warn() -> None:
    """Without a daemon nobody is told, and nobody would know."""
    try:
        client.connect(start.home_of(os.environ)).close()
    except NoDaemon:
        print("agentctl: no daemon runs, so nobody is told: agentctl daemon start", file=sys.stderr)
    except Unreachable as error:
        print(f"agentctl: {text.one_line(str(error))}", file=sys.stderr)


def _row(target: Notify, event: Event | None, pending: int) -> list[Cell]:
    how, to = notify_shapes.way(target)
    only = [*target.adapters.value, *(f"group {name}" for name in target.groups.value)]
    result = event.type.partition(".")[2] if event is not None else ""
    return [
        Cell(target.name, "bold"),
        Cell(text.one_line(f"{how}: {to}" if to is not None else how)),
        Cell(", ".join(target.on.value)),
        Cell(text.one_line(", ".join(only)) or "-"),
        Cell(_last(event, pending), COLOURS.get(result, "")),
    ]


def _last(event: Event | None, pending: int) -> str:
    waiting = f"{pending} to be told" if pending else ""
    if event is None:
        return waiting or "-"
    result, why = event.type.partition(".")[2], notify_shapes.why(event)
    told = f"{result} {age(time.time() - event.seen_at)} ago" + (f": {why}" if why else "")
    return text.one_line(f"{told}; {waiting}" if waiting else told)
