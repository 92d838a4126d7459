"""Do something to a session or a directory after a while, unless it is cancelled."""

from __future__ import annotations

import argparse
import json
import os
import time

from agentctl.cli.parser import Parser, add_json
from agentctl.durations import parse_duration
from agentctl.light_typing import TYPE_CHECKING, Any, Mapping, Sequence

if TYPE_CHECKING:
    from agentctl.state.fuses import Fuse, Moment
    from agentctl.view.table import Cell

EXAMPLES = """\
  agentctl fuse set 4f2a --in 2h --stop     stop that session in two hours
  agentctl fuse set . --in 10m --run 'docker compose down'
                                            unless an agent is launched here
  agentctl fuse                             the fuses, and when they are due
  agentctl fuse extend . --by 10m           give it more time
  agentctl fuse cancel 3c9e                 any unambiguous prefix of an id"""
SET_EXAMPLES = """\
  agentctl fuse set 4f2a --in 2h --stop
  agentctl fuse set . --in 10m --run 'docker compose down'
  agentctl fuse set . --in 1h --emit review.late --webhook https://example.org/x"""
EXTEND_EXAMPLES = """\
  agentctl fuse extend . --by 10m
  agentctl fuse extend 4f2a --in 30m        also the --timeout of a launch"""
LIST_EXAMPLES = """\
  agentctl fuse                             the same, shorter
  agentctl fuse list --all                  also those of the last week
  agentctl fuse list --json                 for a script"""
CANCEL_EXAMPLES = """\
  agentctl fuse cancel 3c9e                 any unambiguous prefix of an id
  agentctl fuse cancel . --all              every fuse on this directory"""
NO_DAEMON = "fuses fire only while the daemon runs: agentctl daemon start"


def parser() -> Parser:
    parser = Parser(
        "fuse",
        "Set a fuse on a session or a directory. When it is due it fires: it stops what runs there, "
        "runs a command, emits an event or calls a webhook. A launch in the directory cancels its "
        "fuses, unless fuses.on_launch is keep. The daemon fires them; fuse set starts it.",
        EXAMPLES,
        bare="list",
    )
    listing = parser.add_command("list", "show the fuses that are set", LIST_EXAMPLES)
    listing.add_argument(
        "--all", action="store_true", help="also those of the last week that fired or were cancelled"
    )
    add_json(listing)
    _add_set(parser)
    _add_extend(parser)
    cancel = parser.add_command("cancel", "cancel a fuse", CANCEL_EXAMPLES)
    _add_target(cancel)
    cancel.add_argument("--all", action="store_true", help="if several match, cancel all of them")
    add_json(cancel)
    return parser


def _add_set(parser: Parser) -> None:
    command = parser.add_command("set", "set a fuse on a directory or a session", SET_EXAMPLES)
    command.add_argument(
        "target",
        metavar="DIR|SESSION",
        help="a directory if it has a slash, is . or names an existing one; otherwise a session id",
    )
    command.add_argument(
        "--in", dest="within", type=parse_duration, metavar="DURATION", help="when it is due (10m)"
    )
    command.add_argument(
        "--stop", action="store_true", help="stop the session, or all sessions in the directory"
    )
    command.add_argument("--run", metavar="CMD", help="run a shell command there, for 5 minutes at most")
    command.add_argument("--emit", metavar="NAME", help="emit an event of the type user.NAME")
    command.add_argument(
        "--webhook",
        metavar="URL|NAME",
        help="POST the results until they are accepted; NAME is a [webhooks.NAME] of the settings",
    )
    command.add_argument("--label", metavar="TEXT", help="what the fuse is for")
    _add_no_daemon(command)
    add_json(command)


def _add_extend(parser: Parser) -> None:
    command = parser.add_command("extend", "move the time at which a fuse is due", EXTEND_EXAMPLES)
    _add_target(command)
    command.add_argument("--by", type=parse_duration, metavar="DURATION", help="this much later")
    command.add_argument(
        "--in", dest="within", type=parse_duration, metavar="DURATION", help="this long from now"
    )
    _add_no_daemon(command)
    add_json(command)


def _add_target(command: Parser) -> None:
    command.add_argument(
        "target", metavar="DIR|SESSION|ID", help="its directory, its session, or the id of the fuse"
    )


def _add_no_daemon(command: Parser) -> None:
    command.add_argument(
        "--no-daemon",
        action="store_true",
        help="do not start the daemon (also $AGENTCTL_NO_DAEMON=1); the fuse fires when one runs",
    )


def run(arguments: argparse.Namespace) -> int:
    commands = {"list": _list, "set": _set, "extend": _extend, "cancel": _cancel}
    return commands[arguments.command](arguments)


def _set(arguments: argparse.Namespace) -> int:
    from agentctl.cli import answer
    from agentctl.errors import UsageError
    from agentctl.fuses import manage

    if arguments.within is None:
        raise UsageError("missing --in DURATION", "example: --in 10m")
    options = {name: getattr(arguments, name) for name in ("stop", "run", "emit", "webhook")}
    actions = manage.make_actions(os.environ, **options)
    values = (arguments.within, actions, arguments.label)
    if manage.is_directory(arguments.target):
        fuse = manage.set_on_directory(os.environ, arguments.target, *values)
    else:
        session, _ = answer.find_session(arguments.target)
        fuse = manage.set_on_session(os.environ, session, *values)
    _print_changed([fuse], "set", as_json=arguments.json)
    _ensure_daemon(no_daemon=arguments.no_daemon)
    return 0


def _extend(arguments: argparse.Namespace) -> int:
    from agentctl.fuses import manage

    extension = manage.extend_fuse(
        os.environ, arguments.target, by=arguments.by, within=arguments.within
    )
    _print_changed([extension.fuse], "extended", as_json=arguments.json)
    if extension.needs_daemon:
        _ensure_daemon(no_daemon=arguments.no_daemon)
    return 0


def _cancel(arguments: argparse.Namespace) -> int:
    from agentctl.fuses import manage

    fuses = manage.cancel_fuses(os.environ, arguments.target, several=arguments.all)
    _print_changed(fuses, "cancelled", as_json=arguments.json)
    return 0


def _list(arguments: argparse.Namespace) -> int:
    """Return 1 if the fuses cannot be read: an empty list would be a wrong answer."""
    from agentctl.cli import answer
    from agentctl.cli.parser import warn
    from agentctl.fuses import manage
    from agentctl.state.fuses import SET, read_clocks
    from agentctl.wire import state as wire

    fuses, problems = manage.list_fuses(os.environ, settled=arguments.all)
    now = read_clocks()
    if arguments.json:
        print(json.dumps(wire.dump_fuses(fuses, now, problems), indent=1))
        return 1 if problems else 0
    if fuses:
        _print_table(fuses, now)
    elif not problems:
        print(
            "no fuses" if arguments.all else "no fuses are set; see past ones: agentctl fuse list --all"
        )
    answer.show_problems(problems)
    needs_daemon = any(fuse.state == SET and fuse.launch_id is None for fuse in fuses)
    if needs_daemon and not _is_daemon_running():
        warn(NO_DAEMON)
    return 1 if problems else 0


def _ensure_daemon(*, no_daemon: bool) -> None:
    """Start the daemon if it does not run. The fuse is set either way."""
    from agentctl.cli.parser import warn, warn_if
    from agentctl.daemon_client import start, status
    from agentctl.errors import NoDaemon

    try:
        with start.ensure_daemon(os.environ, no_daemon=no_daemon) as client:
            warn_if(status.read_warning(client, status.NOT_FOR_AGENTS))
    except NoDaemon:
        warn(NO_DAEMON)


def _is_daemon_running() -> bool:
    from agentctl import paths
    from agentctl.daemon_client import lock_file

    state = paths.state_directory(os.environ)
    return state is not None and lock_file.find_proven(state) is not None


def _print_changed(fuses: Sequence[Fuse], change: str, *, as_json: bool) -> None:
    from agentctl import text
    from agentctl.durations import format_time_left
    from agentctl.fuses.manage import describe_actions
    from agentctl.state.fuses import SET, read_clocks
    from agentctl.wire import state as wire

    now = read_clocks()
    if as_json:
        print(json.dumps(wire.dump_fuses(fuses, now), indent=1))
        return
    for fuse in fuses:
        is_open = fuse.state == SET
        due = (
            f": in {format_time_left(fuse.seconds_left(now))} {describe_actions(fuse)}"
            if is_open
            else ""
        )
        print(text.clean_line(f"{fuse.id} {change}, on {fuse.subject}{due}"), flush=True)


def _print_table(fuses: Sequence[Fuse], now: Moment) -> None:
    from agentctl import text
    from agentctl.view import table
    from agentctl.view.table import Column

    layout = (
        Column("FUSE", 8),
        Column("DUE", 10),
        Column("ON", 16),
        Column("ACTION", 16, goes=1),
        Column("LABEL", 8, goes=2),
    )
    rows = [_row(fuse, now) for fuse in fuses]
    print("\n".join(table.render(layout, rows, text.terminal_columns(), colour=text.has_colour())))


def _row(fuse: Fuse, now: Moment) -> list[Cell]:
    from agentctl import text
    from agentctl.paths import home_directory
    from agentctl.view.table import Cell

    colour = "red" if fuse.state == "failed" else "dim" if fuse.settled_at is not None else ""
    return [
        Cell(fuse.id, "bold" if fuse.settled_at is None else "dim"),
        Cell(_due(fuse, now), colour),
        Cell(
            text.clean_line(text.shorten_home(fuse.subject, home_directory(os.environ))),
            keep_end=fuse.directory is not None,
        ),
        Cell(text.clean_line(describe_result(fuse))),
        Cell(text.clean_line(fuse.label or "")),
    ]


def _due(fuse: Fuse, now: Moment) -> str:
    from agentctl.durations import format_age, format_time_left

    if fuse.settled_at is not None:
        return f"{fuse.state} {format_age(time.time() - fuse.settled_at)} ago"
    if fuse.state == "firing":
        return "firing"
    seconds = fuse.seconds_left(now)
    return f"in {format_time_left(seconds)}" if seconds > 0 else f"overdue {format_age(-seconds)}"


def describe_result(fuse: Fuse) -> str:
    """Return the actions; of a cancelled fuse the reason, of a failed one what failed."""
    from agentctl.fuses.manage import describe_actions

    if fuse.state == "cancelled":
        return fuse.reason or ""
    failures = [result for result in fuse.results if result is not None and not result["ok"]]
    return "; ".join(f"{each['do']} failed: {_failure(each)}" for each in failures) or (
        describe_actions(fuse)
    )


def _failure(result: Mapping[str, Any]) -> str:
    if result.get("error"):
        return str(result["error"])
    if result["do"] == "run":
        return f"exit code {result['code']}, see {result['output']}"
    failed = [each for each in result["stopped"] if each["error"] or each["survivors"]]
    return ", ".join(
        f"{each['id'] or '?'}: {each['error'] or 'some processes survive'}" for each in failed
    )
