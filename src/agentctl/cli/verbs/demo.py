"""Run the demo."""

from __future__ import annotations

import argparse

from agentctl.cli.parser import Parser

EXAMPLES = """\
  agentctl demo            about fifteen seconds; leaves nothing behind
  agentctl demo --fast     with shorter pauses"""


def parser() -> Parser:
    parser = Parser(
        "demo",
        "Show agentctl at work on built-in demo agents, in a temporary home. No key, no model.",
        EXAMPLES,
    )
    parser.add_argument("--fast", action="store_true", help="shorten the pauses")
    return parser


def run(arguments: argparse.Namespace) -> int:
    from agentctl.demo import show

    show.play(pause=0.2 if arguments.fast else 1.0)
    return 0
