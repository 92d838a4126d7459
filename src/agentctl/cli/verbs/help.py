"""Help on a verb."""

from __future__ import annotations

import argparse

from agentctl.cli.catalogue import VERBS, help_text
from agentctl.cli.parser import Parser, find


def parser() -> Parser:
    made = Parser("help", "Help on a verb.", "  agentctl help list")
    made.add_argument("verb", nargs="?", metavar="VERB", help=", ".join(VERBS))
    return made


def run(arguments: argparse.Namespace) -> int:
    print(find(arguments.verb).parser().format_help() if arguments.verb else help_text(), end="")
    return 0
