"""Release a directory: short for `lock release`."""

from __future__ import annotations

import argparse

from agentctl.cli import locking
from agentctl.cli.parser import Parser, add_json

EXAMPLES = """\
  agentctl unlock                   this directory
  agentctl unlock ~/shop            another one
  agentctl unlock ~/shop --force    even from under a launched agent"""


def parser() -> Parser:
    made = Parser("unlock", "Release a person's lock; with --force also a launched agent's.", EXAMPLES)
    made.add_argument("directory", nargs="?", default=".", metavar="DIR", help="which (this one)")
    made.add_argument("--force", action="store_true", help="even a launched agent's, which works on")
    add_json(made)
    return made


def run(arguments: argparse.Namespace) -> int:
    return locking.release(arguments.directory, force=arguments.force, as_json=arguments.json)
