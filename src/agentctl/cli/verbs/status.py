"""Show all known facts of one session."""

from __future__ import annotations

import argparse

from agentctl.cli.parser import Parser
from agentctl.cli.queries import answer_status, local_asker
from agentctl.cli.query_options import status_parser
from agentctl.cli.runner import write_answer


def parser() -> Parser:
    return status_parser()


def run(arguments: argparse.Namespace) -> int:
    return write_answer(answer_status(arguments, local_asker()))
