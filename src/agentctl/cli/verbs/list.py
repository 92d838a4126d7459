"""Every session, who needs a person first."""

from __future__ import annotations

import argparse
import json
import os
import sys
import time

from agentctl.cli import arguments as words
from agentctl.cli import ask, rows, table, text
from agentctl.cli.verb import Parser
from agentctl.errors import UsageError
from agentctl.truth.look import home
from agentctl.truth.model import STATUSES, Session
from agentctl.truth.survey import Survey, Wanted
from agentctl.wire import shapes

EXAMPLES = """\
  agentctl                              every live session
  agentctl list -a --since 7d           and those that ended within a week
  agentctl list --status waiting,idle   who needs you, who is done
  agentctl list --cwd . --json          this directory's, for a script
  agentctl list --watch                 keep looking"""
REFRESH = 1.0  # seconds. A poll, because without the daemon nobody tells us what changed elsewhere


def parser() -> argparse.ArgumentParser:
    made = Parser("list", "Every live session on this machine; with -a the ended ones too.", EXAMPLES)
    made.add_argument("-a", "--all", action="store_true", help="ended sessions too, newest first")
    made.add_argument(
        "--since", type=words.since, metavar="TIME", help="ended ones at most this old (7d); means -a"
    )
    made.add_argument("--adapter", action="append", default=[], metavar="A", help="only this agent's")
    made.add_argument("--status", type=statuses, metavar="S[,S]", help="only these statuses")
    made.add_argument("--group", metavar="G", help="only launches of this group")
    made.add_argument("--cwd", metavar="DIR", help="only those in this directory or below")
    made.add_argument("--watch", action="store_true", help="look again every second, until Ctrl-C")
    words.add_common(made)
    return made


def statuses(given: str) -> list[str]:
    named = [part.strip() for part in given.split(",") if part.strip()]
    for part in named:
        if part not in STATUSES:
            raise UsageError(f"no status {part!r}", f"known: {', '.join(STATUSES)}")
    return named


def run(arguments: argparse.Namespace) -> int:
    if arguments.watch:
        _watch(arguments)
    found = _ask(arguments)
    if arguments.json:
        _print_json(found)
    else:
        print("\n".join(_lines(found, arguments)))
        ask.show_problems(found.problems)
    return 0


def _ask(arguments: argparse.Namespace) -> Survey:
    since = arguments.since or 0.0
    ended = arguments.all or arguments.since is not None or "stopped" in (arguments.status or ())
    found = ask.everything(Wanted(since) if ended else None, arguments.adapter, arguments.deadline)
    kept = [s for s in found.sessions if _matches(s, arguments)]
    return Survey(rows.in_order(kept), found.problems)


def _matches(session: Session, arguments: argparse.Namespace) -> bool:
    if arguments.status and session.verdict.status not in arguments.status:
        return False
    if arguments.group and (session.launch is None or session.launch.group != arguments.group):
        return False
    if arguments.cwd is None:
        return True
    below = os.path.realpath(arguments.cwd)
    cwd = session.seen.facts.cwd or ""
    return cwd == below or cwd.startswith(below.rstrip("/") + "/")


def _lines(found: Survey, arguments: argparse.Namespace) -> list[str]:
    if not found.sessions:
        return [_nothing(arguments)]
    given = rows.cells(found.sessions, time.time(), home(os.environ))
    return table.render(rows.LAYOUT, given, text.columns(), colour=text.coloured())


def _nothing(arguments: argparse.Namespace) -> str:
    if arguments.all or arguments.since is not None or arguments.status or arguments.group:
        return "no such session"
    return "no live session; `agentctl list -a` shows the ended ones"


def _print_json(found: Survey) -> None:
    """One session a line: as fast as it gets, and pleasant to grep."""
    encode = json.JSONEncoder().encode
    write = sys.stdout.write
    write(f'{{"version":{shapes.VERSION},"sessions":[')
    write(",".join("\n" + encode(shapes.session(s)) for s in found.sessions))
    write('],\n"problems":[')
    write(",".join("\n" + encode(shapes.problem(p)) for p in found.problems))
    write("]}\n")


def _watch(arguments: argparse.Namespace) -> None:
    """Never returns: Ctrl-C ends it. On a terminal the screen is redrawn in place; into a pipe a
    new picture is written whenever it differs from the last."""
    last = None
    while True:
        found = _ask(arguments)
        if arguments.json:
            picture = json.dumps(shapes.envelope(found.sessions, found.problems))
        else:
            picture = "\n".join(_lines(found, arguments))
        if sys.stdout.isatty():
            sys.stdout.write("\x1b[H\x1b[J" + picture + "\n")
        elif picture != last:
            sys.stdout.write(picture + "\n")
        sys.stdout.flush()
        last = picture
        time.sleep(REFRESH)
