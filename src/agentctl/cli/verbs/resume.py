"""Resume an ended session: same id, same directory, a new message."""

from __future__ import annotations

import argparse
import os

from agentctl import paths
from agentctl.cli import answer, launch_answer, launch_options
from agentctl.cli.parser import Parser
from agentctl.config import settings as config
from agentctl.launch.resume import check_ended, prepare_resume
from agentctl.launch.start import launch_agent

EXAMPLES = """\
  agentctl resume 4f2a "now run the tests"
  agentctl resume 4f2a --prompt-file next.md --wait
  git diff | agentctl resume 4f2a -            the message from standard input
  agentctl resume 4f2a "…" --dry-run           what would be run"""


def parser() -> Parser:
    parser = Parser("resume", "Resume an ended session.", EXAMPLES, takes_native=True)
    parser.add_argument("id", metavar="ID", help="a session id, or any unambiguous prefix")
    parser.add_argument(
        "message", nargs="?", metavar="MESSAGE", help="the next message; -: standard input"
    )
    parser.add_argument("-p", "--prompt", metavar="TEXT", help="the message, also if it begins with -")
    parser.add_argument("--prompt-file", metavar="FILE", help="read the message from a file")
    parser.add_argument("--model", metavar="M", help="use another model from here on")
    launch_options.add_agent_options(parser)
    launch_options.add_run_options(parser)
    return parser


def run(arguments: argparse.Namespace) -> int:
    settings = config.load(os.environ)
    state = paths.require_state_directory(os.environ)
    session, problems = answer.find_session(arguments.id, live_first=False)
    answer.show_problems(problems)
    check_ended(session)  # before the message is read from standard input
    order = prepare_resume(session, launch_options.read_resume_spec(arguments), settings)
    if arguments.dry_run:
        from agentctl.launch.dry_run import describe_order

        launch_answer.print_dry_run([describe_order(order)], as_json=arguments.json)
        return 0
    launch_answer.ensure_delivery(state, settings)
    resumed = launch_agent(state, order, launch_answer.id_printer(arguments))
    code = launch_answer.finish_answer([resumed], arguments)
    from agentctl.launch.prune import prune_briefly  # after the id is printed: it imports much

    prune_briefly(state, settings.launches.ttl.value)
    return code
