"""Show events as they happen."""

from __future__ import annotations

import argparse
import json
import os
import sys

from agentctl import paths, text
from agentctl.cli.parser import Parser, add_event_filters, add_json, parse_count
from agentctl.daemon_client import start
from agentctl.errors import NoDaemon
from agentctl.light_typing import Iterator
from agentctl.paths import home_directory
from agentctl.state import journal
from agentctl.truth.event import Event
from agentctl.view.events import render_event
from agentctl.watch import stream
from agentctl.watch.filter import EventFilter, parse_since
from agentctl.wire import event as events

EXAMPLES = """\
  agentctl events                         new events, until Ctrl-C
  agentctl events --type session.waiting  only when a session waits for you
  agentctl events --since 1h --no-follow  those of the last hour
  agentctl events --since 1200 --json     those after number 1200, and new ones
  agentctl events --session 4f2a --count 1
                                          the next event of a session"""


def parser() -> Parser:
    parser = Parser(
        "events",
        "Show what happens to the sessions on this machine, as it happens. The daemon records events in "
        "a journal; this verb starts it if necessary. With --no-daemon, it watches the sessions itself, "
        "and only while it runs.",
        EXAMPLES,
    )
    add_json(parser)
    add_event_filters(parser)
    parser.add_argument(
        "--session", metavar="ID", help="only this session: an id, a prefix of one, or pid:N"
    )
    parser.add_argument(
        "--since",
        type=parse_since,
        metavar="SEQ|TIME",
        help="begin with past events: after this number, since this long ago (10m) or this time",
    )
    parser.add_argument("--no-follow", action="store_true", help="only past events, then end")
    parser.add_argument("--count", type=parse_count, metavar="N", help="end after N events")
    parser.add_argument(
        "--no-daemon", action="store_true", help="do not use the daemon (also $AGENTCTL_NO_DAEMON=1)"
    )
    return parser


def run(arguments: argparse.Namespace) -> int:
    event_filter = EventFilter(arguments.type, arguments.adapter, arguments.group, arguments.session)
    home, colour = home_directory(os.environ), text.has_colour()
    count = 0
    for batch in _read_batches(arguments):
        for event in filter(event_filter.matches, batch):
            if arguments.json:
                line = json.dumps(events.dump_event(event))
            else:
                line = render_event(event, home, colour=colour)
            sys.stdout.write(line + "\n")
            count += 1
            if count == arguments.count:
                return 0
        sys.stdout.flush()
        if stream.has_no_reader(sys.stdout.fileno()):
            raise BrokenPipeError
    return 0


def _read_batches(arguments: argparse.Namespace) -> Iterator[list[Event]]:
    state = paths.state_directory(os.environ)
    database = paths.database_file(state) if state is not None else ""
    seq = _first_seq(arguments.since, database)
    if arguments.since is not None or arguments.no_follow:
        for batch in stream.read_journal(database, seq):
            yield batch
            seq = next((event.seq for event in reversed(batch) if event.seq is not None), seq)
    if arguments.no_follow:
        return
    if _has_daemon(arguments):
        yield from stream.follow_daemon(os.environ, seq)
    else:
        yield from stream.follow_directly(os.environ, seq)


def _has_daemon(arguments: argparse.Namespace) -> bool:
    """Return True if a daemon runs that may be asked. Start one if that is allowed."""
    if arguments.no_daemon or not start.may_start(os.environ):
        return False
    if paths.state_directory(os.environ) is None:
        return False
    try:
        start.ensure_daemon(os.environ).close()
    except NoDaemon:  # daemon.auto = false
        return False
    return True


def _first_seq(since: float | None, database: str) -> int:
    """Return the number after which events are shown."""
    if since is None:
        return journal.read_last_seq(database)
    return since if isinstance(since, int) else journal.find_seq_before(database, since)
