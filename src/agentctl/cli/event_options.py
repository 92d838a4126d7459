"""The options by which `events` and `history` filter."""

from __future__ import annotations

import argparse

from agentctl.watch.filter import EventFilter, parse_type


def add_filters(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--adapter", action="append", default=[], metavar="A", help="only this agent's")
    parser.add_argument("--group", metavar="G", help="only launches of this group")
    parser.add_argument(
        "--type",
        action="append",
        default=[],
        type=parse_type,
        metavar="T",
        help="only of this type, or of a pattern: 'session.*', lock.released",
    )


def filter_of(arguments: argparse.Namespace, session: str | None = None) -> EventFilter:
    return EventFilter(arguments.type, arguments.adapter, arguments.group, session)
