"""The last things said in a session, at a glance."""

from __future__ import annotations

import argparse
import json

from agentctl.cli import answer
from agentctl.cli.answer import here
from agentctl.cli.parser import Parser, add_session, parse_count
from agentctl.cli.verbs.why import lines as headline
from agentctl.sessions.messages import Conversation, lines
from agentctl.wire import session as shapes

EXAMPLES = """\
  agentctl peek 4f2a          the last 5 messages, cut to a few lines each
  agentctl peek 4f2a -n 20    the last 20
  agentctl peek 4f2a --json   whole messages, for a script"""
LINES = 6  # of each message


def parser() -> Parser:
    made = Parser("peek", "The last things said in a session.", EXAMPLES)
    made.add_argument("-n", type=parse_count, default=5, metavar="N", help="how many (default 5)")
    add_session(made)
    return made


def run(arguments: argparse.Namespace) -> int:
    session, problems = answer.one(arguments.id, arguments.deadline)
    conversation = Conversation(session.seen)
    messages = conversation.last(arguments.n)
    problems = problems + conversation.problems
    if arguments.json:
        shape = shapes.envelope([session], problems)
        print(json.dumps({**shape, "messages": [shapes.message(m) for m in messages]}, indent=1))
        return 0
    print("\n".join(headline(session, here().screen())[:2]))
    for message in messages:
        print("\n".join(lines(message, most=LINES)))
    if not messages:
        print("nothing said yet")
    answer.show_problems(problems)
    return 0
