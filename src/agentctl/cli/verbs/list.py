"""List the sessions, those that wait for the user first."""

from __future__ import annotations

import gc
import os
import sys

from agentctl import text
from agentctl.cli import queries
from agentctl.cli.answer import format_problem, show_problems
from agentctl.cli.queries import ListOptions
from agentctl.cli.quick_words import COMMON, QuickWords
from agentctl.cli.runner import write_answer
from agentctl.durations import parse_age
from agentctl.json_text import encode
from agentctl.light_typing import TYPE_CHECKING, Any, NoReturn
from agentctl.sessions.query import Selected
from agentctl.wire import session as wire

if TYPE_CHECKING:
    from argparse import Namespace

    from agentctl.cli.parser import Parser

REFRESH = 1.0  # seconds between two looks: without the daemon nothing reports a change elsewhere
QUICK = QuickWords(
    {
        **COMMON,
        "all": False,
        "since": None,
        "adapter": [],
        "status": None,
        "group": None,
        "cwd": None,
        "watch": False,
        "no_daemon": False,
    },
    {"-a": "all", "--all": "all", "--json": "json", "--watch": "watch", "--no-daemon": "no_daemon"},
    {"--since": ("since", parse_age), "--group": ("group", str), "--cwd": ("cwd", str)},
)


def parser() -> Parser:
    from agentctl.cli.query_options import list_parser

    return list_parser()


def run(arguments: Namespace) -> int:
    options = queries.read_list_options(arguments)
    if options.watch:
        _watch(options)
    gc.disable()  # thousands of values, each in use until the end: there is nothing to collect
    return write_answer(queries.answer_list(options, queries.local_asker()))


def _watch(options: ListOptions) -> NoReturn:
    """Look until Ctrl-C. A terminal is redrawn in place; a pipe gets a new list if more than the ages in
    it changed."""
    import select

    last: object = None
    stdout = select.poll()
    stdout.register(sys.stdout, 0)  # reports only that the reader is gone
    while True:
        asker = queries.local_asker()
        selected, screen = queries.list_sessions(options, asker), asker.screen()
        if options.json:
            shape = wire.dump_sessions(selected.sessions, selected.problems)
            picture, current = encode(shape), encode(_without_start_times(shape))
        else:
            picture = "\n".join(queries.list_lines(selected, options, screen))
            ageless = queries.list_lines(selected, options, screen._replace(now=0.0))
            current = "\n".join([*ageless, *map(format_problem, selected.problems)])
        if sys.stdout.isatty() and not options.json:
            sys.stdout.write(_redraw(picture.split("\n"), selected))
        elif current != last:
            sys.stdout.write(picture + "\n")
            if not options.json:
                show_problems(selected.problems)
        sys.stdout.flush()
        last = current
        if stdout.poll(REFRESH * 1000):
            raise BrokenPipeError


def _without_start_times(shape: dict[str, Any]) -> dict[str, Any]:
    """Leave out the start times of processes: the kernel counts them from boot, so they differ by a
    millisecond between two looks."""
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


def _redraw(lines: list[str], selected: Selected) -> str:
    """Return what fits, from the top: sessions that need the user must not scroll away."""
    wide, high = text.terminal_columns(), max(2, os.get_terminal_size(sys.stdout.fileno()).lines - 1)
    lines = lines + [text.cut(format_problem(problem), wide) for problem in selected.problems]
    if len(lines) > high:
        lines = [*lines[: high - 1], f"{text.ELLIPSIS} {len(lines) - high + 1} more lines"]
    return "\x1b[H" + "".join(f"{line}\x1b[K\n" for line in lines) + "\x1b[J"
