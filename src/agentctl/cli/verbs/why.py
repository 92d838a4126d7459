"""Show the evidence behind a status."""

from __future__ import annotations

from agentctl.cli.queries import answer_why, local_asker
from agentctl.cli.quick_words import COMMON, QuickWords
from agentctl.cli.runner import write_answer
from agentctl.light_typing import TYPE_CHECKING

if TYPE_CHECKING:
    from argparse import Namespace

    from agentctl.cli.parser import Parser

QUICK = QuickWords({**COMMON, "no_daemon": False}, ids="one")


def parser() -> Parser:
    from agentctl.cli.query_options import why_parser

    return why_parser()


def run(arguments: Namespace) -> int:
    return write_answer(answer_why(arguments, local_asker()))
