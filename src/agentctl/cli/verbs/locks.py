"""What is locked: short for `lock list`."""

from __future__ import annotations

import argparse

from agentctl.cli import locking
from agentctl.cli.parser import Parser, add_json

EXAMPLES = """\
  agentctl locks           every directory that is held now, by whom, until when
  agentctl locks --json    for a script"""


def parser() -> Parser:
    made = Parser("locks", "Every directory that is held at this moment.", EXAMPLES)
    add_json(made)
    return made


def run(arguments: argparse.Namespace) -> int:
    return locking.show_held(as_json=arguments.json)
