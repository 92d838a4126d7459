"""How a verb asks, and how the answer is shown.

A view knows who asks, where it is shown and what was found, nothing else: not our environment, not our
standard output. So the daemon, which answers for others, gives the answer that they would have found.
"""

from __future__ import annotations

import json
import os
import sys
import time
from argparse import Namespace
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from agentctl.errors import AgentctlError, NotFound
from agentctl.paths import home
from agentctl.sessions import query
from agentctl.text import coloured_in, columns_in, cut, one_line, terminal
from agentctl.truth.model import Problem, Session
from agentctl.wire import session as shapes

if TYPE_CHECKING:
    from agentctl.truth.survey import Survey, Wanted
    from agentctl.truth.warm import Warm

SHOWN_PROBLEMS = 5
SAID = 400  # columns of a line of an agent's own words: some write a stack trace into one


class Answer(NamedTuple):
    out: Iterable[str] = ()  # in pieces: a long one need not be there all at once
    err: str = ""
    code: int = 0


class Screen(NamedTuple):
    """Where, and at what moment, an answer is shown."""

    columns: int
    colour: bool
    home: str | None
    now: float


class Asker(NamedTuple):
    """Whose question it is."""

    environ: Mapping[str, str]
    terminal: int | None  # its columns; None: what is written goes elsewhere
    cwd: str = ""  # "": our own
    warm: Warm | None = None  # what is remembered between questions, by a process that goes on
    modules: Sequence[str] | None = None  # where adapters may be installed; None: wherever ours are from

    def survey(
        self, wanted: Wanted | None, adapters: Sequence[str] = (), deadline: float | None = None
    ) -> Survey:
        return query.everything(
            wanted,
            adapters,
            deadline,
            environ=self.environ,
            cwd=self.cwd,
            warm=self.warm,
            modules=self.modules,
        )

    def screen(self) -> Screen:
        on = coloured_in(self.environ, tty=self.terminal is not None)
        return Screen(columns_in(self.environ, self.terminal), on, home(self.environ), time.time())


def here() -> Asker:
    """Us, who look for ourselves."""
    return Asker(os.environ, terminal())


def show(answer: Answer) -> int:
    write = sys.stdout.write
    for piece in answer.out:
        write(piece)
    if answer.err:
        sys.stdout.flush()
        sys.stderr.write(answer.err)
    return answer.code


def failed(error: AgentctlError, environ: Mapping[str, str]) -> Answer:
    """An error as one line and an exit code. Raises it where somebody wants to see where it is from."""
    if environ.get("AGENTCTL_DEBUG") == "1":
        raise error
    lines = [f"agentctl: {one_line(str(error))}"]
    lines += [f"  | {cut(one_line(line), SAID)}" for line in error.said]
    if error.hint:
        lines.append(f"  {one_line(error.hint)}")
    return Answer(err="\n".join(lines) + "\n", code=error.exit_code)


def one(text: str, deadline: float | None = None) -> tuple[Session, list[Problem]]:
    """The session of that id, prefix, or `pid:N`. Raises NotFound or Ambiguous."""
    found = query.everything(query.chosen(text), (), deadline)
    try:
        return query.only(found, text), found.problems
    except NotFound:  # it may be one of those that could not be read
        show_problems(found.problems)
        raise


def about_one(
    arguments: Namespace, asker: Asker, lines: Callable[[Session, Screen], list[str]]
) -> Answer:
    """The answer to a question about one session, for a person or for a script."""
    found = asker.survey(query.chosen(arguments.id), (), arguments.deadline)
    try:
        session = query.only(found, arguments.id)
    except NotFound as error:  # it may be one of those that could not be read
        no = failed(error, asker.environ)
        return no._replace(err=footer(found.problems) + no.err)
    if arguments.json:
        return Answer((json.dumps(shapes.envelope([session], found.problems), indent=1), "\n"))
    shown = lines(session, asker.screen())
    return Answer(("\n".join(shown), "\n"), footer(found.problems))


def show_problems(problems: Iterable[Problem]) -> None:
    """A footer on standard error: never mixed into data, never hidden."""
    sys.stderr.write(footer(problems))


def footer(problems: Iterable[Problem]) -> str:
    found = list(problems)
    lines = [told(problem) for problem in found[:SHOWN_PROBLEMS]]
    if len(found) > SHOWN_PROBLEMS:
        lines.append(f"agentctl: {len(found) - SHOWN_PROBLEMS} more: agentctl doctor")
    return "".join(f"{line}\n" for line in lines)


def told(problem: Problem) -> str:
    """A problem in one line."""
    whose = f"{problem.adapter}: " if problem.adapter else ""
    where = f" ({problem.source})" if problem.source else ""
    return one_line(f"agentctl: {whose}{problem.kind}: {problem.message}{where}")
