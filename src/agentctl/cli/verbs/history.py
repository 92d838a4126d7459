"""Show recorded events, and the evidence for them."""

from __future__ import annotations

import argparse
import json
import os

from agentctl import paths, text
from agentctl.cli.parser import Parser, add_event_filters, add_json, parse_count
from agentctl.errors import NotFound
from agentctl.light_typing import Mapping
from agentctl.paths import home_directory
from agentctl.state import journal
from agentctl.truth.event import Event
from agentctl.view.events import render_event
from agentctl.watch.filter import EventFilter, parse_since
from agentctl.wire import event as events

EXAMPLES = """\
  agentctl history                    the last 50 events
  agentctl history 4f2a               all events of a session, with the evidence
  agentctl history --since 1d --type session.stopped
                                      what stopped since yesterday
  agentctl history 4f2a --json        for a script"""
SHOWN = 50


def parser() -> Parser:
    parser = Parser(
        "history",
        "Show the events that the daemon recorded, oldest first, and the evidence for each. Events are "
        "kept for a week (setting journal.keep). agentctl status shows the present.",
        EXAMPLES,
    )
    parser.add_argument(
        "id", nargs="?", metavar="ID|DIR", help="a session id, a prefix of one, or a locked directory"
    )
    add_json(parser)
    add_event_filters(parser)
    parser.add_argument(
        "--since",
        type=parse_since,
        metavar="SEQ|TIME",
        help="only after this number, since this long ago (10m) or this time",
    )
    parser.add_argument(
        "-n",
        dest="most",
        type=parse_count,
        metavar="N",
        help=f"only the last N events (default {SHOWN}; all with ID)",
    )
    return parser


def run(arguments: argparse.Namespace) -> int:
    state = paths.state_directory(os.environ)
    recorded = _read_events(paths.database_file(state), arguments) if state is not None else []
    event_filter = EventFilter(arguments.type, arguments.adapter, arguments.group)
    matching = list(filter(event_filter.matches, recorded))
    most = arguments.most or (None if arguments.id else SHOWN)
    latest = matching[-most:] if most is not None else matching
    if arguments.json:
        print(json.dumps(events.dump_events(latest), indent=1))
        return 0
    home, colour = home_directory(os.environ), text.has_colour()
    for event in latest:
        print(render_event(event, home, colour=colour, dated=True))
        for piece in event.body.get("evidence", []) if arguments.id else ():
            print(text.paint(_evidence(piece, home), "dim", on=colour))
    if not recorded:
        print("no event is recorded; the daemon records them: agentctl daemon start")
    elif not latest:
        print("no recorded event matches")
    return 0


def _read_events(database: str, arguments: argparse.Namespace) -> list[Event]:
    """Raises NotFound if no event is about the ID."""
    since, seq = arguments.since, 0
    if since is not None:
        seq = since if isinstance(since, int) else journal.find_seq_before(database, since)
    if arguments.id is None:
        return journal.read_latest(database, seq)
    subject = os.path.realpath(arguments.id) if "/" in arguments.id else arguments.id
    events = journal.read_about(database, subject)
    if not events:
        raise NotFound(f"no event about {arguments.id!r}", "agentctl history shows the last events")
    return [event for event in events if (event.seq or 0) > seq]


def _evidence(piece: Mapping[str, object], home: str | None) -> str:
    claim = f"{piece.get('claim')}: {piece['detail']}" if piece.get("detail") else piece.get("claim")
    address = text.shorten_home(str(piece.get("address")), home)
    line = text.clean_line(f"{piece.get('authority')}: {claim}, {address}")
    return f"{'':21}{line}"
