"""The options of `list`, `status` and `why`. The answers need no parser: see `queries`."""

from __future__ import annotations

from agentctl.cli import queries
from agentctl.cli.parser import Parser, add_common, add_no_daemon, add_session
from agentctl.cli.queries import Asker
from agentctl.cli.runner import Answer
from agentctl.durations import parse_age
from agentctl.errors import UsageError
from agentctl.light_functools import cache
from agentctl.truth.model import STATUSES

LIST_EXAMPLES = """\
  agentctl                              every live session
  agentctl list --since 7d              also those that ended within a week
  agentctl list --status waiting,idle   only those that wait for you or are idle
  agentctl list --cwd . --json          those of this directory, for a script
  agentctl list --watch                 look again every second"""
STATUS_EXAMPLES = """\
  agentctl status 4f2a          any unambiguous prefix of an id
  agentctl status pid:4711      a process that has no session yet
  agentctl status 4f2a --json   for a script"""
WHY_EXAMPLES = """\
  agentctl why 4f2a            any unambiguous prefix of an id
  agentctl why pid:4711        a process that has no session yet
  agentctl why 4f2a --json     for a script"""


def answer_words(verb: str, words: list[str], asker: Asker) -> Answer:
    """Return the answer to `agentctl VERB WORDS`, typed by this asker. Raises AgentctlError."""
    arguments = parser_of(verb).parse_words(words)
    if verb == "list":
        return queries.answer_list(queries.read_list_options(arguments), asker)
    return (
        queries.answer_status(arguments, asker)
        if verb == "status"
        else queries.answer_why(arguments, asker)
    )


@cache
def parser_of(verb: str) -> Parser:
    return PARSERS[verb]()


def list_parser() -> Parser:
    parser = Parser(
        "list",
        "List the live sessions on this machine: those that wait for you first, then the running, the "
        "idle and the unknown ones.",
        LIST_EXAMPLES,
    )
    parser.add_argument("-a", "--all", action="store_true", help="also ended sessions, newest first")
    parser.add_argument(
        "--since", type=parse_age, metavar="TIME", help="also sessions that ended within this time (7d)"
    )
    parser.add_argument(
        "--adapter", action="append", default=[], metavar="ADAPTER", help="only this agent"
    )
    parser.add_argument(
        "--status",
        type=parse_statuses,
        metavar="STATUS[,STATUS]",
        help=f"one or more of {', '.join(STATUSES)}",
    )
    parser.add_argument("--group", metavar="GROUP", help="only this group")
    parser.add_argument("--cwd", metavar="DIR", help="only sessions in this directory or below")
    parser.add_argument("--watch", action="store_true", help="look again every second, until Ctrl-C")
    add_common(parser)
    add_no_daemon(parser)
    return parser


def parse_statuses(text: str) -> list[str]:
    statuses = [part.strip() for part in text.split(",") if part.strip()]
    for status in statuses:
        if status not in STATUSES:
            raise UsageError(f"no status {status!r}", f"one of: {', '.join(STATUSES)}")
    if not statuses:
        raise UsageError("empty status", f"one of: {', '.join(STATUSES)}")
    return statuses


def status_parser() -> Parser:
    return _session_parser("status", "Show all known facts of one session.", STATUS_EXAMPLES)


def why_parser() -> Parser:
    return _session_parser(
        "why",
        "Show the evidence behind the status of a session: what decided, what was overruled, what is "
        "not known, and where each piece was read.",
        WHY_EXAMPLES,
    )


def _session_parser(verb: str, description: str, examples: str) -> Parser:
    parser = Parser(verb, description, examples)
    add_session(parser)
    add_no_daemon(parser)
    return parser


PARSERS = {"list": list_parser, "status": status_parser, "why": why_parser}
