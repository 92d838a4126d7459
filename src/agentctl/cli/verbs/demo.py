"""The show with built-in demo agents."""

from __future__ import annotations

import argparse

from agentctl.cli.parser import Parser

EXAMPLES = """\
  agentctl demo            about fifteen seconds, leaves nothing behind
  agentctl demo --fast     without the pauses"""


def parser() -> Parser:
    made = Parser("demo", "See agentctl at work on built-in demo agents, in a temporary home.", EXAMPLES)
    made.add_argument("--fast", action="store_true", help="do not wait for the audience")
    return made


def run(arguments: argparse.Namespace) -> int:
    from agentctl.demo import show

    show.play(pause=0.2 if arguments.fast else 1.0)
    return 0
