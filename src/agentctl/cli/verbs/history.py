"""What changed when, and why we thought so."""

from __future__ import annotations

import argparse
import json
import os

from agentctl import paths, text
from agentctl.cli.event_options import add_filters, filter_of
from agentctl.cli.parser import Parser, add_json, parse_count
from agentctl.errors import NotFound
from agentctl.paths import home
from agentctl.state import journal
from agentctl.truth.event import Event
from agentctl.view import events as happenings
from agentctl.watch.filter import parse_since
from agentctl.wire import event as events

EXAMPLES = """\
  agentctl history                    the last things that happened
  agentctl history 4f2a               all that is known of one session, and why
  agentctl history --since 1d --type session.stopped
  agentctl history 4f2a --json        for a script"""
SHOWN = 50


def parser() -> Parser:
    made = Parser(
        "history",
        "What a daemon has seen, oldest first: what changed when, and the evidence that it rests on. "
        "Kept for a week (journal.keep). What a session is now, `status` tells.",
        EXAMPLES,
    )
    made.add_argument("id", nargs="?", metavar="ID", help="a session id or a prefix; a locked directory")
    add_json(made)
    add_filters(made)
    made.add_argument(
        "--since", type=parse_since, metavar="SEQ|TIME", help="only after this number or moment"
    )
    made.add_argument(
        "-n", dest="most", type=parse_count, metavar="N", help=f"the last N (default {SHOWN}; ID: all)"
    )
    return made


def run(arguments: argparse.Namespace) -> int:
    state = paths.state_directory(os.environ)
    found = _found(paths.notes_file(state), arguments) if state is not None else []
    wanted = filter_of(arguments)
    kept = [event for event in found if wanted.matches(event)]
    most = arguments.most or (None if arguments.id else SHOWN)
    kept = kept[-most:] if most is not None else kept
    if arguments.json:
        print(json.dumps(events.envelope(kept), indent=1))
        return 0
    place, colour = home(os.environ), text.coloured()
    for event in kept:
        print(happenings.line(event, place, colour=colour, dated=True))
        for piece in event.body.get("evidence", []) if arguments.id else ():
            print(text.paint(_evidence(piece, place), "dim", on=colour))
    if not kept:
        print("nothing was told yet; a daemon watches: agentctl daemon start")
    return 0


def _found(notes: str, arguments: argparse.Namespace) -> list[Event]:
    since = arguments.since
    seq = since if isinstance(since, int) else journal.before(notes, since) if since is not None else 0
    if arguments.id is None:
        return journal.latest(notes, seq)
    subject = os.path.realpath(arguments.id) if "/" in arguments.id else arguments.id
    found = journal.of(notes, subject)
    if not found:
        raise NotFound(
            f"nothing is known of {arguments.id!r}", "agentctl history shows what was told lately"
        )
    return [event for event in found if (event.seq or 0) > seq]


def _evidence(piece: dict[str, object], place: str | None) -> str:
    said = f"{piece.get('claim')}: {piece['detail']}" if piece.get("detail") else f"{piece.get('claim')}"
    where = text.tilde(str(piece.get("address")), place)
    told = text.one_line(f"{piece.get('authority')}: {said}, {where}")
    return f"{'':21}{told}"
