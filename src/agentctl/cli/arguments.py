"""Words that several verbs share."""

from __future__ import annotations

import argparse
import time

from agentctl.errors import UsageError
from agentctl.lengths import seconds


def add_json(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print the stable JSON shape")


def add_common(parser: argparse.ArgumentParser) -> None:
    add_json(parser)
    parser.add_argument(
        "--deadline",
        type=seconds,
        metavar="TIME",
        help="how long one agent's files may take before its sessions are listed without activity "
        "(default 2s, or $AGENTCTL_DEADLINE)",
    )


def add_no_daemon(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--no-daemon",
        action="store_true",
        help="look ourselves, even if a daemon runs (also $AGENTCTL_NO_DAEMON=1): the same answer",
    )


def add_session(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("id", metavar="ID", help="a session id, any unambiguous prefix, or pid:N")
    add_common(parser)


def since(text: str) -> float:
    """A moment, given as how long ago."""
    return time.time() - seconds(text)


def count(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 10) or int(text) == 0:
        raise UsageError(f"not a number of messages: {text!r}", "example: -n 20")
    return int(text)
