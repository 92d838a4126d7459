"""Show the evidence behind a status."""

from __future__ import annotations

import argparse

from agentctl.cli.parser import Parser
from agentctl.cli.queries import answer_why, local_asker
from agentctl.cli.query_options import why_parser
from agentctl.cli.runner import write_answer


def parser() -> Parser:
    return why_parser()


def run(arguments: argparse.Namespace) -> int:
    return write_answer(answer_why(arguments, local_asker()))
