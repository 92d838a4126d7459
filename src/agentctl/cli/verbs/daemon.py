"""Start, stop, show and install the daemon."""

from __future__ import annotations

import argparse
import json
import os
import sys
import time

from agentctl import __version__, text
from agentctl.cli.parser import Parser, add_json, parse_count, warn_if
from agentctl.daemon_client import client, install, log, start, status, stop
from agentctl.durations import format_age
from agentctl.errors import AgentctlError, Gone, NoDaemon, NotFound
from agentctl.light_typing import Any, Iterator, Mapping
from agentctl.paths import home_directory
from agentctl.system.clock import parse_time
from agentctl.wire import state as wire

Environ = Mapping[str, str]
PART_FIELDS = ("name", "state", "problem")  # shown on their own
EXAMPLES = """\
  agentctl daemon              show its pid, memory, parts and last event
  agentctl daemon start        start it, if it does not run
  agentctl daemon logs -f      follow its log
  agentctl daemon restart      after an update of agentctl
  agentctl daemon install      start it at each login"""
STATUS_EXAMPLES = """\
  agentctl daemon                 the same, shorter
  agentctl daemon status --json   for a script"""
START_EXAMPLES = """\
  agentctl daemon start                in the background
  agentctl daemon start --foreground   in this terminal"""
LOGS_EXAMPLES = """\
  agentctl daemon logs           the last 50 lines
  agentctl daemon logs -n 200    the last 200
  agentctl daemon logs -f        and new lines, until Ctrl-C"""


def parser() -> Parser:
    parser = Parser(
        "daemon",
        "The daemon does what must happen in the background: events, fuses, webhooks, metrics. It owns "
        "no agent and stores no status; listing and launching work without it. Commands that need the "
        "daemon start it, unless AGENTCTL_NO_DAEMON=1.\n\n"
        "Exit codes: 3 if no daemon runs (status, stop), 5 if one runs but does not answer, 4 if "
        "another one runs (start --foreground).",
        EXAMPLES,
        bare="status",
    )
    add_json(parser.add_command("status", "show its pid, memory, parts and last event", STATUS_EXAMPLES))
    start = parser.add_command("start", "start the daemon, if none runs", START_EXAMPLES)
    start.add_argument("--foreground", action="store_true", help="do not detach; for supervisors")
    for name, summary in (("stop", "stop the daemon"), ("restart", "stop the daemon and start it")):
        examples = f"  agentctl daemon {name}\n  agentctl daemon {name} --force    if it hangs"
        parser.add_command(name, summary, examples).add_argument(
            "--force", action="store_true", help="kill the daemon if it does not end"
        )
    logs = parser.add_command("logs", "print the last lines of its log", LOGS_EXAMPLES)
    logs.add_argument("-f", "--follow", action="store_true", help="print new lines as they come")
    logs.add_argument("-n", type=parse_count, default=50, metavar="N", help="the last N lines (50)")
    parser.add_command(
        "install", "start the daemon at each login", "  agentctl daemon install    as a systemd service"
    )
    parser.add_command(
        "uninstall", "undo install", "  agentctl daemon uninstall    remove the systemd service"
    )
    return parser


def run(arguments: argparse.Namespace) -> int:
    command, environ = arguments.command, os.environ
    if command == "status":
        return _status(environ, as_json=arguments.json)
    if command == "start":
        return _start(environ, foreground=arguments.foreground)
    if command == "stop":
        _stop(environ, force=arguments.force)
        return 0
    if command == "restart":
        try:
            _stop(environ, force=arguments.force)
        except NotFound:
            pass
        return _start(environ, foreground=False)
    if command == "logs":
        return _logs(environ, arguments.n, follow=arguments.follow)
    return _show_outcome(
        install.install(environ) if command == "install" else install.uninstall(environ)
    )


def _start(environ: Environ, *, foreground: bool) -> int:
    if foreground:
        sys.stdout.flush()
        start.become_daemon(environ)
    try:
        connection, state = client.connect(start.find_home(environ)), "the daemon runs already"
    except NoDaemon:
        connection, state = start.start_daemon(environ), "started"
    with connection:
        hello = connection.hello()
        print(f"{state}: agentctl {hello.version}, pid {hello.pid}", flush=True)
        warn_if(status.read_warning(connection))
    return 0


def _stop(environ: Environ, *, force: bool) -> None:
    result = stop.stop_daemon(start.find_home(environ), force=force)
    note = "" if result.how == "asked" else f", by {result.how}: it did not answer"
    print(f"stopped: agentctl {result.version}, pid {result.pid}{note}")


def _status(environ: Environ, *, as_json: bool) -> int:
    home = start.find_home(environ)
    facts = status.read_status(home)
    if as_json:
        print(json.dumps(wire.dump_daemon(facts), indent=1))
    elif facts is None:
        print(text.clean_line(f"no daemon runs for {home}; agentctl daemon start starts it"))
    else:
        print("\n".join(status_lines(facts, home_directory(environ))), flush=True)
    if facts is None:
        return NotFound.exit_code
    warn_if(status.parts_warning(facts.get("parts")))
    return 0


def status_lines(facts: Mapping[str, Any], home: str | None) -> Iterator[str]:
    began, memory = parse_time(facts.get("since")), facts.get("memory_bytes")
    first = [
        f"agentctl {facts.get('version')} (protocol {facts.get('protocol')})",
        f"pid {facts.get('pid')}",
    ]
    first += [f"for {format_age(time.time() - began)}"] if began is not None else []
    first += [f"{memory / 1e6:.1f} MB"] if isinstance(memory, int) else []
    yield text.clean_line(", ".join(first))
    if facts.get("version") != __version__:
        yield text.clean_line(f"  this is agentctl {__version__}; agentctl daemon restart")
    yield text.clean_line(f"home         {text.shorten_home(str(facts.get('home')), home)}")
    seq = facts.get("seq")
    yield text.clean_line(f"last event   {seq if seq is not None else 'not known'}")
    subscribers = f"{facts.get('subscribers')} of them subscribed to events"
    yield text.clean_line(f"clients      {facts.get('clients')}, {subscribers}")
    for part in facts.get("parts") or ():
        yield text.clean_line(f"{part.get('name')!s:<12} {_part_state(part)}")


def _part_state(part: Mapping[str, Any]) -> str:
    rest = {name: _value(each) for name, each in part.items() if name not in PART_FIELDS}
    more = [f"{name} {value}" for name, value in rest.items() if value]
    words = [str(part.get("state")), *([f"({', '.join(more)})"] if more else [])]
    return " ".join(words) + (f": {part['problem']}" if part.get("problem") else "")


def _value(value: object) -> str:
    """Return a value of a part on one line; empty: nothing to show."""
    if isinstance(value, dict):
        values = {name: _value(each) for name, each in value.items()}
        return " ".join(f"{name} {each}" for name, each in values.items() if each)
    if isinstance(value, list):
        return " ".join(_value(each) for each in value)
    return "" if value is None else str(value)


def _logs(environ: Environ, number: int, *, follow: bool) -> int:
    reader = log.Log(f"{start.find_home(environ)}/{start.LOG}")
    try:
        _print_log(reader.last(number))
    except Gone as error:
        if not follow:
            raise NotFound(f"no daemon has written {reader.path}", "agentctl daemon start") from error
    if follow:
        for lines in log.follow(reader):
            _print_log(lines)
    return 0


def _print_log(lines: list[bytes]) -> None:
    for line in lines:
        print(text.clean_line(line.decode("utf-8", "replace")))
    sys.stdout.flush()


def _show_outcome(outcome: install.Outcome) -> int:
    for line in outcome.steps:
        print(text.clean_line(line))
    if outcome.problem is None:
        return 0
    sys.stdout.flush()
    print(text.clean_line(f"agentctl: {outcome.problem}"), file=sys.stderr)
    print(text.clean_line(f"  where your login's services run: {outcome.commands}"), file=sys.stderr)
    return AgentctlError.exit_code
