"""Lock a directory, show the locks, release one. `locks` and `unlock` are aliases (cli/catalogue)."""

from __future__ import annotations

import argparse
import json
import os
import time

from agentctl import paths, text
from agentctl.cli.answer import show_problems
from agentctl.cli.parser import Parser, add_json
from agentctl.durations import format_age, format_duration, format_time_left, parse_duration
from agentctl.errors import SourceError, UsageError
from agentctl.state import locks
from agentctl.state.db import is_utf8
from agentctl.state.locks import Lock
from agentctl.truth.model import Problem
from agentctl.view import table
from agentctl.view.table import Cell, Column
from agentctl.wire import state as wire

EXAMPLES = """\
  agentctl lock                          show the locks
  agentctl lock . --reason rebase        lock this directory
  agentctl lock ~/shop --ttl 2h          lock another one for two hours
  agentctl lock release ~/shop           release it (also: agentctl unlock)
  agentctl lock ./list                   a directory named like a command"""
LIST_EXAMPLES = """\
  agentctl locks           every locked directory, by whom and until when
  agentctl locks --json    for a script"""
ACQUIRE_EXAMPLES = """\
  agentctl lock .                        the same, shorter
  agentctl lock . --reason rebase        shown to a launch that is refused
  agentctl lock ~/shop --ttl 2h          released after two hours"""
RELEASE_EXAMPLES = """\
  agentctl unlock                   this directory
  agentctl unlock ~/shop            another one
  agentctl unlock ~/shop --force    even if a launched agent holds it"""
LAYOUT = (
    Column("DIRECTORY", 20),
    Column("HELD BY", 24),
    Column("SINCE", 8, goes=2),
    Column("UNTIL", 8, goes=1),
)


def parser() -> Parser:
    parser = Parser(
        "lock",
        "Lock a directory, so that agentctl launches no agent in it. A launched agent holds a lock on "
        "its directory while it lives. Your own lock stays until you release it or its --ttl is over.",
        EXAMPLES,
        bare="list",
        otherwise="acquire",
    )
    listing = parser.add_command("list", "show the locked directories", LIST_EXAMPLES)
    acquire = parser.add_command("acquire", "lock a directory", ACQUIRE_EXAMPLES)
    acquire.add_argument("--by", metavar="NAME", help="who holds the lock (default: your login name)")
    acquire.add_argument("--reason", metavar="TEXT", help="shown to a launch that is refused")
    acquire.add_argument(
        "--ttl", type=parse_duration, metavar="TIME", help="release the lock after this time (2h)"
    )
    release = parser.add_command("release", "release a locked directory", RELEASE_EXAMPLES)
    release.add_argument(
        "--force", action="store_true", help="also the lock of a launched agent, which goes on working"
    )
    for command in (acquire, release):
        command.add_argument(
            "directory", nargs="?", default=".", metavar="DIR", help="default: the current directory"
        )
    for command in (listing, acquire, release):
        add_json(command)
    return parser


def run(arguments: argparse.Namespace) -> int:
    commands = {"list": _list, "acquire": _acquire, "release": _release}
    return commands[arguments.command](arguments)


def _list(arguments: argparse.Namespace) -> int:
    """Return 1 if the locks cannot be read: an empty list would be a wrong answer."""
    state = paths.state_directory(os.environ)
    active: list[Lock] = []
    problems: list[Problem] = []
    try:
        active = locks.list_held(paths.database_file(state)) if state is not None else []
    except SourceError as error:
        problems = [Problem("", error.kind, error.advice, error.source)]
    if arguments.json:
        print(json.dumps(wire.dump_locks(active, problems), indent=1))
        return 1 if problems else 0
    if active:
        columns, colour = text.terminal_columns(), text.has_colour()
        print("\n".join(table.render(LAYOUT, _rows(active), columns, colour=colour)))
    elif not problems:
        print("no directory is locked")
    show_problems(problems)
    return 1 if problems else 0


def _acquire(arguments: argparse.Namespace) -> int:
    """Raises Refused if the directory is locked."""
    for option in (arguments.by, arguments.reason):
        if option is not None and not is_utf8(option):
            raise UsageError(f"not UTF-8 text: {option!r}")
    ttl, holder = arguments.ttl, arguments.by or login_name()
    lock = locks.acquire_lock(_database(), arguments.directory, holder, arguments.reason, ttl)
    if arguments.json:
        print(json.dumps(wire.dump_locks([lock]), indent=1))
        return 0
    until = f" for {format_duration(ttl)}" if ttl is not None else ""
    print(text.clean_line(f"locked {lock.directory}{until}; agentctl unlock releases it"))
    return 0


def _release(arguments: argparse.Namespace) -> int:
    """Raises NotFound if the directory is not locked, Refused if a launched agent holds it."""
    released = locks.release_locks(_database(), arguments.directory, force=arguments.force)
    if arguments.json:
        print(json.dumps(wire.dump_locks(released), indent=1))
        return 0
    for lock in released:
        print(text.clean_line(f"released {lock.directory}, held by {lock.holder}"))
    return 0


def login_name() -> str:
    """Return the user's login name. The uid of a container may have none."""
    import pwd

    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return os.environ.get("LOGNAME") or os.environ.get("USER") or f"uid {os.getuid()}"


def _database() -> str:
    return paths.database_file(paths.require_state_directory(os.environ))


def _rows(active: list[Lock]) -> list[list[Cell]]:
    now, home = time.time(), paths.home_directory(os.environ)
    return [
        [
            Cell(text.clean_line(text.shorten_home(lock.directory, home)), "bold", keep_end=True),
            Cell(text.clean_line(lock.holder)),
            Cell(f"{format_age(now - lock.created_at)} ago"),
            Cell(_until(lock, now), "magenta" if lock.is_foreign else ""),
        ]
        for lock in active
    ]


def _until(lock: Lock, now: float) -> str:
    if lock.is_foreign:
        return "not known"
    if lock.identity is not None:
        return "it ends"
    return f"in {format_time_left(lock.expires_at - now)}" if lock.expires_at is not None else "released"
