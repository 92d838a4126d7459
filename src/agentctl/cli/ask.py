"""How a verb shows what it asked: one session, and what could not be read."""

from __future__ import annotations

import json
import sys
from argparse import Namespace
from collections.abc import Callable, Iterable

from agentctl import asking
from agentctl.cli.text import one_line
from agentctl.errors import NotFound
from agentctl.truth.model import Problem, Session
from agentctl.wire import shapes

SHOWN_PROBLEMS = 5


def one(text: str, deadline: float | None = None) -> tuple[Session, list[Problem]]:
    """The session of that id, prefix, or `pid:N`. Raises NotFound or Ambiguous."""
    found = asking.everything(asking.chosen(text), (), deadline)
    try:
        return asking.only(found, text), found.problems
    except NotFound:  # it may be one of those that could not be read
        show_problems(found.problems)
        raise


def show_one(arguments: Namespace, lines: Callable[[Session], list[str]]) -> int:
    """Answer a question about one session, to a person or to a script."""
    session, problems = one(arguments.id, arguments.deadline)
    if arguments.json:
        print(json.dumps(shapes.envelope([session], problems), indent=1))
        return 0
    print("\n".join(lines(session)))
    show_problems(problems)
    return 0


def show_problems(problems: Iterable[Problem]) -> None:
    """A footer on standard error: never mixed into data, never hidden."""
    found = list(problems)
    for problem in found[:SHOWN_PROBLEMS]:
        print(told(problem), file=sys.stderr)
    if len(found) > SHOWN_PROBLEMS:
        print(f"agentctl: {len(found) - SHOWN_PROBLEMS} more: agentctl doctor", file=sys.stderr)


def told(problem: Problem) -> str:
    """A problem in one line."""
    whose = f"{problem.adapter}: " if problem.adapter else ""
    where = f" ({problem.source})" if problem.source else ""
    return one_line(f"agentctl: {whose}{problem.kind}: {problem.message}{where}")
