"""What happens, as it happens."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterator

from agentctl import paths
from agentctl.cli import arguments as words
from agentctl.cli import happenings, streaming, summon, text
from agentctl.cli.verb import Parser
from agentctl.errors import NoDaemon
from agentctl.store import journal
from agentctl.truth.event import Event
from agentctl.truth.look import home
from agentctl.wire import events

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
    words.add_json(made)
    happenings.add_filters(made)
    made.add_argument("--session", metavar="ID", help="only about this session: an id, a prefix, pid:N")
    made.add_argument(
        "--since",
        type=happenings.since,
        metavar="SEQ|TIME",
        help="first what was told after this number, or since this long (10m) or this moment",
    )
    made.add_argument("--no-follow", action="store_true", help="what there is, and no more")
    made.add_argument("--count", type=words.count, metavar="N", help="end after this many")
    made.add_argument(
        "--no-daemon", action="store_true", help="watch ourselves (also $AGENTCTL_NO_DAEMON=1)"
    )
    return made


def run(arguments: argparse.Namespace) -> int:
    left = arguments.count
    place, colour = home(os.environ), text.coloured()
    for batch in _batches(arguments):
        for event in batch:
            if not happenings.wanted(event, arguments):
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
        if streaming.unread(sys.stdout.fileno()):
            raise BrokenPipeError
    return 0


def _batches(arguments: argparse.Namespace) -> Iterator[list[Event]]:
    state = paths.state_directory(os.environ)
    notes = paths.notes_file(state) if state is not None else ""
    seq = _from(arguments.since, notes)
    if arguments.since is not None or arguments.no_follow:
        for batch in streaming.kept(notes, seq):
            yield batch
            seq = next((event.seq for event in reversed(batch) if event.seq is not None), seq)
    if arguments.no_follow:
        return
    if _has_daemon(arguments):
        yield from streaming.by_daemon(os.environ, seq)
    else:
        yield from streaming.by_ourselves(os.environ, seq)


def _has_daemon(arguments: argparse.Namespace) -> bool:
    """Whether one runs that we may ask, or could be started."""
    if arguments.no_daemon or not summon.allowed(os.environ):
        return False
    if paths.state_directory(os.environ) is None:
        return False
    try:
        summon.ensure(os.environ).close()
    except NoDaemon:  # daemon.auto = false
        return False
    return True


def _from(since: float | None, notes: str) -> int:
    """The number after which to tell."""
    if since is None:
        return journal.last(notes)
    return since if isinstance(since, int) else journal.before(notes, since)
