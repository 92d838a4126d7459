"""Show the last messages of a session, cut to a few lines each."""

from __future__ import annotations

from agentctl.cli import answer, queries
from agentctl.cli.quick_words import COMMON, QuickWords
from agentctl.json_text import encode
from agentctl.light_typing import TYPE_CHECKING
from agentctl.sessions.messages import Conversation
from agentctl.view.messages import message_lines
from agentctl.view.session import headline
from agentctl.wire import session as wire

if TYPE_CHECKING:
    from argparse import Namespace

    from agentctl.cli.parser import Parser

EXAMPLES = """\
  agentctl peek 4f2a          the last 5 messages
  agentctl peek 4f2a -n 20    the last 20
  agentctl peek 4f2a --json   whole messages, for a script"""
LINES = 6  # of each message
LAST = 5  # messages, if -n says nothing else
QUICK = QuickWords({**COMMON, "n": LAST}, ids="one")


def parser() -> Parser:
    from agentctl.cli.parser import Parser, add_session, parse_count

    parser = Parser("peek", "Show the last messages of a session, a few lines of each.", EXAMPLES)
    parser.add_argument(
        "-n", type=parse_count, default=LAST, metavar="N", help=f"the last N messages (default {LAST})"
    )
    add_session(parser)
    return parser


def run(arguments: Namespace) -> int:
    session, problems = answer.find_session(arguments.id, arguments.deadline)
    conversation = Conversation(session.observation)
    messages = conversation.last(arguments.n)
    problems = problems + conversation.problems
    if arguments.json:
        shape = wire.dump_sessions([wire.wire_session(session)], problems)
        print(encode({**shape, "messages": [wire.dump_message(m) for m in messages]}, indent=1))
        return 0
    screen = queries.local_asker().screen()
    print("\n".join(headline(wire.wire_session(session), screen)))
    for message in messages:
        print("\n".join(message_lines(message, screen, most=LINES)))
    if not messages:
        print("no message yet")
    answer.show_problems(problems)
    return 0
