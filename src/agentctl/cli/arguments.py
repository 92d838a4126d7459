"""Words that several verbs share."""

from __future__ import annotations

import argparse
import time

from agentctl.errors import UsageError

UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}


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


def add_session(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("id", metavar="ID", help="a session id, any unambiguous prefix, or pid:N")
    add_common(parser)


def seconds(text: str) -> float:
    """`90`, `90s`, `15m`, `2h`, `7d`, `1w`."""
    number, unit = (text[:-1], text[-1:]) if text[-1:] in UNITS else (text, "s")
    try:
        value = float(number) * UNITS[unit]
    except ValueError:
        value = -1.0
    if not 0 <= value < 1e10:  # also: nan
        raise UsageError(f"not a length of time: {text!r}", "examples: 90s, 15m, 2h, 7d")
    return value


def since(text: str) -> float:
    """A moment, given as how long ago."""
    return time.time() - seconds(text)


def count(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 10) or int(text) == 0:
        raise UsageError(f"not a number of messages: {text!r}", "example: -n 20")
    return int(text)
