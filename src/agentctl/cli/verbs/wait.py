"""Wait until sessions have ended, rest, or need a person."""

from __future__ import annotations

import argparse
import json

from agentctl.cli import answer
from agentctl.cli.parser import Parser, add_common
from agentctl.cli.several import Answers, SeveralParser, asked, how_it_ended
from agentctl.durations import seconds
from agentctl.errors import TimedOut, Unreachable
from agentctl.text import one_line
from agentctl.truth.model import Session
from agentctl.view import rows
from agentctl.wire import session as shapes

EXAMPLES = """\
  agentctl wait 4f2a && make test          when it has ended, if it completed
  agentctl wait --group matrix-3           until all of a group have ended
  agentctl wait 4f2a --for idle            until its turn is over
  agentctl wait 4f2a --for settled         until nothing moves without you
  agentctl wait 4f2a --timeout 2h --json   at most so long; then exit code 124"""
STATES = ("stopped", "idle", "waiting", "settled")


def parser() -> Parser:
    made = SeveralParser(
        "wait",
        "Wait until sessions are in a state. The exit code tells how it went: 0 completed, or alive in\n"
        "that state; 1 failed, interrupted or killed; 5 unknown; 124 not within --timeout; of several\n"
        "the worst. A session that ends will never be idle or waiting: that ends the wait, too.",
        EXAMPLES,
    )
    made.add_argument(
        "--for",
        dest="awaited",
        choices=STATES,
        default="stopped",
        metavar="STATE",
        help=f"{', '.join(STATES)} (default stopped)",
    )
    made.add_argument("--timeout", type=seconds, metavar="TIME", help="give up after so long")
    add_common(made)
    return made


def run(arguments: argparse.Namespace) -> int:
    from agentctl.watch.wait import Vigil

    answers = Answers()
    sessions = [each.session for each in asked(arguments, answers)]
    done: list[Session] = []
    with Vigil(sessions, arguments.awaited, arguments.deadline) as vigil:
        for session in vigil.keep(arguments.timeout):
            done.append(session)
            answers.code = max(answers.code, code_of(session))
            if not arguments.json:
                print(f"{rows.name(session)} {told(session)}", flush=True)
        answers.noticed(vigil.problems)
        late = [subject.session for subject in vigil.pending]
    for session in late:
        answers.failed(rows.name(session), TimedOut(f"not in that time: it is {how_it_ended(session)}"))
    if arguments.json:
        print(json.dumps(shapes.envelope([*done, *late], answers.problems), indent=1))
    else:
        answer.show_problems(answers.problems)
    return answers.code


def told(session: Session) -> str:
    verdict = session.verdict
    if verdict.status == "stopped":
        return f"stopped ({how_it_ended(session)})"
    if verdict.status == "unknown":
        return one_line(f"unknown: {verdict.reason}")
    return f"{verdict.status}{f' for {verdict.waiting_for}' if verdict.waiting_for else ''}"


def code_of(session: Session) -> int:
    """The exit code is the outcome."""
    verdict = session.verdict
    if verdict.status == "unknown" or verdict.outcome == "unknown":
        return Unreachable.exit_code
    return 0 if verdict.outcome in (None, "completed") else 1
