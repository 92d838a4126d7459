"""Wait until sessions have ended, are idle, or wait for the user."""

from __future__ import annotations

import argparse
import json

from agentctl.cli import answer
from agentctl.cli.answer import Results, select_sessions
from agentctl.cli.parser import Parser, SessionsParser, add_common
from agentctl.durations import parse_duration
from agentctl.errors import TimedOut
from agentctl.sessions.select import outcome_code
from agentctl.truth.model import Session
from agentctl.view import rows
from agentctl.view.session import format_outcome, format_state
from agentctl.wire import session as shapes
from agentctl.wire.session import wire_session, wire_sessions

EXAMPLES = """\
  agentctl wait 4f2a && make test          test after it has completed
  agentctl wait --group fix                until all sessions of a group ended
  agentctl wait 4f2a --for idle            until its turn is over
  agentctl wait 4f2a --for settled         until it is idle, waiting or stopped
  agentctl wait 4f2a --timeout 2h --json   for two hours; then exit code 124"""
STATES = ("stopped", "idle", "waiting", "settled")


def parser() -> Parser:
    parser = SessionsParser(
        "wait",
        "Wait until every session is in a state. The wait for a session also ends when the session "
        "stops.\n\n"
        "Exit codes: 0 if it completed, or is alive in that state; 1 if it failed, was interrupted or "
        "killed; 5 if its outcome is unknown; 124 after --timeout. Of several sessions, the highest.",
        EXAMPLES,
    )
    parser.add_argument(
        "--for",
        dest="awaited",
        choices=STATES,
        default="stopped",
        metavar="STATE",
        help=f"one of {', '.join(STATES)} (default stopped)",
    )
    parser.add_argument("--timeout", type=parse_duration, metavar="TIME", help="give up after this long")
    add_common(parser)
    return parser


def run(arguments: argparse.Namespace) -> int:
    from agentctl.watch.wait import SessionWait

    answers = Results()
    selected = [choice.session for choice in select_sessions(arguments, answers)]
    results: list[Session] = []
    with SessionWait(selected, arguments.awaited, arguments.deadline) as wait:
        for session in wait.iterate(arguments.timeout):
            results.append(session)
            answers.code = max(answers.code, outcome_code(session))
            if not arguments.json:
                print(f"{rows.session_name(session)} {format_state(wire_session(session))}", flush=True)
        answers.add_problems(wait.problems)
        late = [subject.session for subject in wait.pending]
    for session in late:
        timeout = TimedOut(f"timed out: it is {format_outcome(wire_session(session))}")
        answers.report_failure(rows.session_name(session), timeout)
    if arguments.json:
        sessions = wire_sessions([*results, *late])
        print(json.dumps(shapes.dump_sessions(sessions, answers.problems), indent=1))
    else:
        answer.show_problems(answers.problems)
    return answers.code
