"""What was said in a session, whole; with -f also what comes next, until the session ends."""

from __future__ import annotations

import argparse
import json
import os
import sys

from agentctl.cli import answer
from agentctl.cli.parser import Parser, add_session, parse_count
from agentctl.errors import Gone, Unreachable
from agentctl.sessions import messages as said
from agentctl.sessions.messages import Conversation
from agentctl.system.pidfd import Handle
from agentctl.truth.model import Message, Session
from agentctl.wire import session as shapes

EXAMPLES = """\
  agentctl logs 4f2a              everything
  agentctl logs 4f2a -n 50        the last 50 messages
  agentctl logs -f 4f2a           and what comes next, until it ends
  agentctl logs -f 4f2a --json    one message a line, for a script"""
BREATH = 0.1  # seconds between two looks while it writes


def parser() -> Parser:
    made = Parser("logs", "What was said in a session.", EXAMPLES)
    made.add_argument("-n", type=parse_count, metavar="N", help="only the last N messages")
    made.add_argument("-f", "--follow", action="store_true", help="go on until the session ends")
    add_session(made)
    return made


def run(arguments: argparse.Namespace) -> int:
    session, problems = answer.one(arguments.id, arguments.deadline)
    conversation = Conversation(session.seen)
    messages = conversation.last(arguments.n)
    _print(messages, as_json=arguments.json)
    if arguments.follow:
        last = messages[-1].key if messages else None
        _follow(session, conversation, last, as_json=arguments.json)
    answer.show_problems(problems + conversation.problems)
    return 0


def _follow(session: Session, conversation: Conversation, last: str | None, *, as_json: bool) -> None:
    from agentctl.system.waiter import Watch

    owner, path = session.seen.owner, session.seen.transcript
    if session.verdict.status == "stopped":
        return
    if owner is None or path is None:
        raise Unreachable(
            "cannot follow it: no process or no transcript is known", session.verdict.reason
        )
    try:
        handle = Handle(owner.identity)
    except Gone:  # it ended while we were printing: show what it said last
        _print(conversation.after(last), as_json=as_json)
        return
    with handle, Watch([os.path.dirname(path)], [handle]) as watch:
        ended = False
        while not ended:
            ended = handle.wait(0)  # looked at before reading, so that its last words are read
            messages = conversation.after(last)
            _print(messages, as_json=as_json)
            last = messages[-1].key if messages else last
            if not ended:
                watch.wait()
                # An agent that writes all the time is read at this pace; and what it has just written
                # to a database can be read a moment later than it wakes us.
                handle.wait(BREATH)


def _print(messages: list[Message], *, as_json: bool) -> None:
    for message in messages:
        if as_json:
            print(json.dumps(shapes.message(message)))
        else:
            print("\n".join(said.lines(message)))
    sys.stdout.flush()
