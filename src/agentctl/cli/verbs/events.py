"""What happens, as it happens."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterator

from agentctl import paths, text
from agentctl.cli.event_options import add_filters, filter_of
from agentctl.cli.parser import Parser, add_json, parse_count
from agentctl.daemon_client import start
from agentctl.errors import NoDaemon
from agentctl.paths import home
from agentctl.state import journal
from agentctl.truth.event import Event
from agentctl.view import events as happenings
from agentctl.watch import stream
from agentctl.watch.filter import parse_since
from agentctl.wire import event as events

EXAMPLES = """\
  agentctl events                         from now on, until Ctrl-C
  agentctl events --type session.waiting  whenever somebody is waited for
  agentctl events --since 1h --no-follow  the last hour, and no more
  agentctl events --since 1200 --json     all after number 1200, and what comes
  agentctl events --session 4f2a --count 1"""


def parser() -> Parser:
    made = Parser(
        "events",
        "What happens to every session on this machine, as it happens: when, what, and the evidence. "
        "A daemon keeps a journal of it, and is started if need be; without one (--no-daemon) sessions "
        "are watched while this runs.",
        EXAMPLES,
    )
    add_json(made)
    add_filters(made)
    made.add_argument("--session", metavar="ID", help="only about this session: an id, a prefix, pid:N")
    made.add_argument(
        "--since",
        type=parse_since,
        metavar="SEQ|TIME",
        help="start with past events: after this number, from this long ago (10m), or from this time",
    )
    made.add_argument("--no-follow", action="store_true", help="what there is, and no more")
    made.add_argument("--count", type=parse_count, metavar="N", help="end after this many")
    made.add_argument(
        "--no-daemon", action="store_true", help="watch ourselves (also $AGENTCTL_NO_DAEMON=1)"
    )
    return made


def run(arguments: argparse.Namespace) -> int:
    left, wanted = arguments.count, filter_of(arguments, arguments.session)
    place, colour = home(os.environ), text.coloured()
    for batch in _batches(arguments):
        for event in batch:
            if not wanted.matches(event):
                continue
            shown = (
                json.dumps(events.event(event))
                if arguments.json
                else happenings.line(event, place, colour=colour)
            )
            sys.stdout.write(shown + "\n")
            left = left - 1 if left is not None else None
            if left == 0:
                return 0
        sys.stdout.flush()
        if stream.unread(sys.stdout.fileno()):
            raise BrokenPipeError
    return 0


def _batches(arguments: argparse.Namespace) -> Iterator[list[Event]]:
    state = paths.state_directory(os.environ)
    notes = paths.notes_file(state) if state is not None else ""
    seq = _from(arguments.since, notes)
    if arguments.since is not None or arguments.no_follow:
        for batch in stream.kept(notes, seq):
            yield batch
            seq = next((event.seq for event in reversed(batch) if event.seq is not None), seq)
    if arguments.no_follow:
        return
    if _has_daemon(arguments):
        yield from stream.by_daemon(os.environ, seq)
    else:
        yield from stream.by_ourselves(os.environ, seq)


def _has_daemon(arguments: argparse.Namespace) -> bool:
    """Whether one runs that we may ask, or could be started."""
    if arguments.no_daemon or not start.allowed(os.environ):
        return False
    if paths.state_directory(os.environ) is None:
        return False
    try:
        start.ensure(os.environ).close()
    except NoDaemon:  # daemon.auto = false
        return False
    return True


def _from(since: float | None, notes: str) -> int:
    """The number after which to tell."""
    if since is None:
        return journal.last(notes)
    return since if isinstance(since, int) else journal.before(notes, since)
