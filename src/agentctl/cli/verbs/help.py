"""Show the help of a verb or of one of its commands."""

from __future__ import annotations

import argparse

from agentctl.cli.catalogue import VERBS, help_text
from agentctl.cli.parser import Parser
from agentctl.cli.runner import load_verb
from agentctl.errors import UsageError


def parser() -> Parser:
    parser = Parser(
        "help",
        "Show the help of a verb or of one of its commands.",
        "  agentctl help list\n  agentctl help daemon logs",
    )
    parser.add_argument("verb", nargs="?", metavar="VERB", help=", ".join(VERBS))
    parser.add_argument("command", nargs="?", metavar="COMMAND", help="a command of that verb")
    return parser


def run(arguments: argparse.Namespace) -> int:
    if arguments.verb is None:
        print(help_text(), end="")
        return 0
    verb = load_verb(arguments.verb).parser()
    if arguments.command is None:
        print(verb.format_help(), end="")
        return 0
    if not verb.commands:
        raise UsageError(f"{arguments.verb} has no commands", f"agentctl help {arguments.verb}")
    verb.parse_words([arguments.command, "--help"])  # prints the help, or raises UsageError
    return 0
