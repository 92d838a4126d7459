"""Every session, who needs a person first."""

from __future__ import annotations

import argparse
import gc
import json
import os
import sys
from collections.abc import Iterator
from typing import Any, NoReturn

from agentctl import text
from agentctl.cli import answer as ask
from agentctl.cli.answer import Answer, Asker, Screen, here, show
from agentctl.cli.parser import Parser, add_common, add_no_daemon, parse_age
from agentctl.errors import UsageError
from agentctl.truth.model import STATUSES, Session
from agentctl.truth.survey import Survey, Wanted
from agentctl.view import rows, table
from agentctl.wire import session as shapes

EXAMPLES = """\
  agentctl                              every live session
  agentctl list -a --since 7d           and those that ended within a week
  agentctl list --status waiting,idle   who needs you, who is done
  agentctl list --cwd . --json          this directory's, for a script
  agentctl list --watch                 keep looking"""
PAGE = 64  # sessions written at once
REFRESH = 1.0  # seconds. A poll, because without the daemon nobody tells us what changed elsewhere


def parser() -> Parser:
    made = Parser("list", "Every live session on this machine; with -a the ended ones too.", EXAMPLES)
    made.add_argument("-a", "--all", action="store_true", help="ended sessions too, newest first")
    made.add_argument(
        "--since", type=parse_age, metavar="TIME", help="ended ones at most this old (7d); means -a"
    )
    made.add_argument("--adapter", action="append", default=[], metavar="A", help="only this agent's")
    made.add_argument("--status", type=statuses, metavar="S[,S]", help="only these statuses")
    made.add_argument("--group", metavar="G", help="only launches of this group")
    made.add_argument("--cwd", metavar="DIR", help="only those in this directory or below")
    made.add_argument("--watch", action="store_true", help="look again every second, until Ctrl-C")
    add_common(made)
    add_no_daemon(made)
    return made


def statuses(given: str) -> list[str]:
    named = [part.strip() for part in given.split(",") if part.strip()]
    for part in named:
        if part not in STATUSES:
            raise UsageError(f"no status {part!r}", f"known: {', '.join(STATUSES)}")
    if not named:
        raise UsageError("an empty status", f"known: {', '.join(STATUSES)}")
    return named


def run(arguments: argparse.Namespace) -> int:
    if arguments.watch:
        _watch(arguments)
    gc.disable()  # thousands of values, each in use until the end: there is nothing to collect
    return show(answer(arguments, here()))


def answer(arguments: argparse.Namespace, asker: Asker) -> Answer:
    found = _found(arguments, asker)
    if arguments.json:
        return Answer(_json(found))
    shown = _lines(found, arguments, asker.screen())
    return Answer(("\n".join(shown), "\n"), ask.footer(found.problems))


def _found(arguments: argparse.Namespace, asker: Asker) -> Survey:
    since = arguments.since or 0.0
    ended = arguments.all or arguments.since is not None or "stopped" in (arguments.status or ())
    found = asker.survey(Wanted(since) if ended else None, arguments.adapter, arguments.deadline)
    narrow = arguments.status or arguments.group or arguments.cwd is not None
    kept = [s for s in found.sessions if _matches(s, arguments, asker)] if narrow else found.sessions
    return Survey(rows.in_order(kept), found.problems)


def _matches(session: Session, arguments: argparse.Namespace, asker: Asker) -> bool:
    if arguments.status and session.verdict.status not in arguments.status:
        return False
    if arguments.group and (session.launch is None or session.launch.group != arguments.group):
        return False
    if arguments.cwd is None:
        return True
    below = os.path.realpath(os.path.join(asker.cwd, arguments.cwd)).rstrip("/") + "/"
    cwd = session.seen.facts.cwd
    return cwd is not None and f"{_real(cwd)}/".startswith(below)


def _real(path: str) -> str:
    """An agent may have written a path by way of a link; or something that is no path at all."""
    return path if "\0" in path or not path.startswith("/") else os.path.realpath(path)


def _lines(found: Survey, arguments: argparse.Namespace, screen: Screen) -> list[str]:
    if not found.sessions:
        return [_nothing(arguments)]
    given = rows.cells(found.sessions, screen.now, screen.home)
    return table.render(rows.LAYOUT, given, screen.columns, colour=screen.colour)


def _nothing(arguments: argparse.Namespace) -> str:
    narrow = arguments.group or arguments.cwd is not None or arguments.adapter
    if arguments.status or arguments.since is not None or (arguments.all and narrow):
        return "no such session"
    if arguments.all:
        return "no session, live or ended"
    live = "no such live session" if narrow else "no live session"
    return f"{live}; `agentctl list -a` shows the ended ones"


def _json(found: Survey) -> Iterator[str]:
    """One session a line, a page of them at a time: as fast as it gets, and pleasant to grep."""
    from agentctl.wire import encode

    yield f'{{"version":{shapes.VERSION},"sessions":['
    for start in range(0, len(found.sessions), PAGE):
        page = map(encode.session, found.sessions[start : start + PAGE])
        yield (",\n" if start else "\n") + ",\n".join(page)
    yield '],\n"problems":['
    yield ",".join("\n" + json.dumps(shapes.problem(p)) for p in found.problems)
    yield "]}\n"


def _watch(arguments: argparse.Namespace) -> NoReturn:
    """Ctrl-C ends it. On a terminal the screen is redrawn in place; into a pipe a new picture is
    written whenever it differs from the last by more than the ages in it."""
    import select

    last: object = None
    stdout = select.poll()
    stdout.register(sys.stdout, 0)  # asks for nothing but the news that nobody reads any more
    while True:
        asker = here()
        found, screen = _found(arguments, asker), asker.screen()
        if arguments.json:
            shape = shapes.envelope(found.sessions, found.problems)
            picture, current = json.dumps(shape), json.dumps(_lasting(shape))
        else:
            picture = "\n".join(_lines(found, arguments, screen))
            current = "\n".join(
                [*_lines(found, arguments, screen._replace(now=0.0)), *map(ask.told, found.problems)]
            )
        if sys.stdout.isatty() and not arguments.json:
            sys.stdout.write(_screen(picture.split("\n"), found))
        elif current != last:
            sys.stdout.write(picture + "\n")
            if not arguments.json:
                ask.show_problems(found.problems)
        sys.stdout.flush()
        last = current
        if stdout.poll(REFRESH * 1000):
            raise BrokenPipeError


def _lasting(shape: dict[str, Any]) -> dict[str, Any]:
    """Without the moments at which processes began: the kernel tells them as time since boot, which
    comes out a millisecond more or less at each look."""
    sessions = [
        {
            **session,
            "started_at": None,
            "evidence": [
                {**e, "at": None} if e["authority"] == "kernel" else e for e in session["evidence"]
            ],
        }
        for session in shape["sessions"]
    ]
    return {**shape, "sessions": sessions}


def _screen(lines: list[str], found: Survey) -> str:
    """From the top, what fits: who needs a person comes first and must not scroll away."""
    wide, high = text.columns(), max(2, os.get_terminal_size(sys.stdout.fileno()).lines - 1)
    lines = lines + [text.cut(ask.told(problem), wide) for problem in found.problems]
    if len(lines) > high:
        lines = [*lines[: high - 1], f"{text.ELLIPSIS} {len(lines) - high + 1} more lines"]
    return "\x1b[H" + "".join(f"{line}\x1b[K\n" for line in lines) + "\x1b[J"
