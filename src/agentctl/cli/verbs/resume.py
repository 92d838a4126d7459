"""Go on with an ended session: same id, its own directory, a new message."""

from __future__ import annotations

import argparse
import os

from agentctl.cli import answer, foreseen, launching
from agentctl.cli.parser import Parser
from agentctl.config import settings as config
from agentctl.errors import Refused, Unreachable, UsageError
from agentctl.launch.order import Wish, prepared
from agentctl.launch.prompt import Sources, composed
from agentctl.launch.start import launch
from agentctl.system.identity import ProcessIdentity
from agentctl.truth.model import Launch, Session

EXAMPLES = """\
  agentctl resume 4f2a "now run the tests"
  agentctl resume 4f2a --prompt-file next.md --wait
  git diff | agentctl resume 4f2a -            the message from standard input
  agentctl resume 4f2a "…" --dry-run           what would be run"""


def parser() -> Parser:
    made = Parser("resume", "Go on with an ended session.", EXAMPLES, takes_native=True)
    made.add_argument("id", metavar="ID", help="a session id, or any unambiguous prefix")
    made.add_argument("message", nargs="?", metavar="MESSAGE", help="what to say; -: standard input")
    made.add_argument("-p", "--prompt", metavar="TEXT", help="the message, also if it begins with -")
    made.add_argument("--prompt-file", metavar="FILE", help="read it from a file")
    made.add_argument("--model", metavar="M", help="another model from here on")
    launching.add_agent(made)
    launching.add_launch(made)
    return made


def run(arguments: argparse.Namespace) -> int:
    settings = config.load(os.environ)
    state = launching.state_directory()
    session, problems = answer.one(arguments.id)
    answer.show_problems(problems)
    _check(session)
    start = prepared(_wish(session, arguments, settings), os.environ, session.seen)
    if arguments.dry_run:
        foreseen.show([foreseen.described(start)], as_json=arguments.json)
        return 0
    launching.herald(state, settings)
    resumed = launch(state, start.order, launching.teller(arguments))
    code = launching.finished([resumed], arguments)
    launching.tidy(state, settings)
    return code


def _check(session: Session) -> None:
    """Raises Refused: two processes on one session write over each other."""
    seen, verdict = session.seen, session.verdict
    if verdict.status == "stopped":
        return
    if seen.owner is None:
        raise Unreachable(
            f"whether {seen.session_id} has ended cannot be told: {verdict.reason}",
            f"agentctl why {seen.session_id} shows the evidence",
        )
    raise Refused(
        f"{seen.session_id} is {verdict.status}: pid {seen.owner.pid} runs it",
        f"end that first: agentctl stop {seen.session_id}",
    )


def _message(arguments: argparse.Namespace) -> str:
    stdin = arguments.message == "-"
    text = None if stdin else arguments.message
    if text is not None and arguments.prompt is not None:
        raise UsageError("more than one message", "one of MESSAGE and -p TEXT is enough")
    text = arguments.prompt if text is None else text
    if stdin:
        launching.invite()
    return composed(Sources(text, arguments.prompt_file, stdin))


def _wish(session: Session, arguments: argparse.Namespace, settings: config.Config) -> Wish:
    """As it was launched, if we launched it, with what the call says on top."""
    seen, agent = session.seen, settings.of(session.seen.adapter)
    before = session.launch or Launch("", ProcessIdentity("", 0, 0))
    message = _message(arguments)
    cwd = seen.facts.cwd or before.cwd
    if cwd is None:
        raise Unreachable(f"where {seen.session_id} was is not known", "it can only go on where it was")
    if not os.path.isdir(cwd):
        raise Refused(f"its directory is gone: {cwd}", "it can only go on where it was")
    return Wish(
        adapter=seen.adapter,
        prompt=message,
        cwd=cwd,
        model=arguments.model,
        name=arguments.name or before.name,
        group=before.group,
        spec=before.spec,
        meta=(*before.meta, *arguments.meta),
        environ=tuple(arguments.env),
        permission_mode=agent.permission_mode.over(arguments.permission_mode).value,
        native=(*agent.args.value, *arguments.native),
        binary=agent.binary.value,
        worktree=before.worktree,
        on_create=arguments.on_create,
        on_complete=arguments.on_complete or before.on_complete,
        timeout=arguments.timeout,
        force=arguments.force,
        cancels_fuses=settings.fuses_on_launch.value == "cancel",
        settle=settings.settle.value,
    )
