"""Show the messages of a session; with -f also new ones, until the session ends."""

from __future__ import annotations

import os
import sys

from agentctl.cli import answer, queries
from agentctl.cli.quick_words import COMMON, QuickWords
from agentctl.errors import Gone, Unreachable
from agentctl.json_text import encode
from agentctl.light_typing import TYPE_CHECKING
from agentctl.sessions.messages import Conversation
from agentctl.system.pidfd import Handle
from agentctl.truth.model import Message, Session
from agentctl.view.messages import message_lines
from agentctl.wire import session as wire

if TYPE_CHECKING:
    from argparse import Namespace

    from agentctl.cli.parser import Parser

EXAMPLES = """\
  agentctl logs 4f2a              all messages
  agentctl logs 4f2a -n 50        the last 50 messages
  agentctl logs -f 4f2a           all messages, then new ones until it ends
  agentctl logs -f 4f2a --json    one message a line, for a script"""
PAUSE = 0.1  # seconds between two reads while the agent writes

QUICK = QuickWords(
    {**COMMON, "n": None, "follow": False},
    {"-f": "follow", "--follow": "follow", "--json": "json"},
    ids="one",
)


def parser() -> Parser:
    from agentctl.cli.parser import Parser, add_session, parse_count

    parser = Parser("logs", "Show the messages of a session.", EXAMPLES)
    parser.add_argument("-n", type=parse_count, metavar="N", help="only the last N messages")
    parser.add_argument(
        "-f", "--follow", action="store_true", help="print new messages until the session ends"
    )
    add_session(parser)
    return parser


def run(arguments: Namespace) -> int:
    session, problems = answer.find_session(arguments.id, arguments.deadline)
    conversation = Conversation(session.observation)
    messages = conversation.last(arguments.n)
    _print(messages, as_json=arguments.json)
    if arguments.follow:
        last = messages[-1].key if messages else None
        _follow(session, conversation, last, as_json=arguments.json)
    answer.show_problems(problems + conversation.problems)
    return 0


def _follow(session: Session, conversation: Conversation, last: str | None, *, as_json: bool) -> None:
    from agentctl.system.waiter import Watch

    owner, path = session.observation.owner, session.observation.transcript
    if session.verdict.status == "stopped":
        return
    if owner is None or path is None:
        raise Unreachable(
            "cannot follow it: its process or its transcript is unknown", session.verdict.reason
        )
    try:
        handle = Handle(owner.identity)
    except Gone:  # the session ended while we were printing: show its last messages
        _print(conversation.after(last), as_json=as_json)
        return
    with handle, Watch([os.path.dirname(path)], [handle]) as watch:
        is_over = False
        while not is_over:
            is_over = handle.wait(0)  # checked before reading, so that the last messages are read
            messages = conversation.after(last)
            _print(messages, as_json=as_json)
            last = messages[-1].key if messages else last
            if not is_over:
                watch.wait()
                # An agent that writes all the time is read at this pace. A write to a database can be
                # read only a moment after the file changed.
                handle.wait(PAUSE)


def _print(messages: list[Message], *, as_json: bool) -> None:
    screen = queries.local_asker().screen()
    for message in messages:
        if as_json:
            print(encode(wire.dump_message(message)))
        else:
            print("\n".join(message_lines(message, screen)))
    sys.stdout.flush()
