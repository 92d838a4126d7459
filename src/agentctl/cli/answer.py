"""What verbs share to find sessions and to show what went wrong beside their answer."""

from __future__ import annotations

import sys

from agentctl.errors import AgentctlError, NotFound
from agentctl.light_typing import TYPE_CHECKING, Iterable
from agentctl.sessions import query
from agentctl.text import clean_line
from agentctl.truth.model import Problem, Session

if TYPE_CHECKING:
    import argparse

    from agentctl.sessions.select import Choice

SHOWN_PROBLEMS = 5


def find_session(
    text: str, deadline: float | None = None, *, live_first: bool = True
) -> tuple[Session, list[Problem]]:
    """Return the session of that id, prefix, or `pid:N`. Raises NotFound or Ambiguous. Without
    `live_first`, a prefix that a live and an ended session share is ambiguous."""
    if live_first:
        survey = query.survey_for(text, deadline)
    else:
        survey = query.survey_sessions(query.history_query(text), (), deadline)
    try:
        return query.pick_session(survey, text), survey.problems
    except NotFound:  # it may be a session that could not be read
        show_problems(survey.problems)
        raise


def show_problems(problems: Iterable[Problem]) -> None:
    """Write a footer to standard error: never mixed into data, never hidden."""
    sys.stderr.write(format_problems(problems))


def format_problems(problems: Iterable[Problem]) -> str:
    every = list(problems)
    lines = [format_problem(problem) for problem in every[:SHOWN_PROBLEMS]]
    if len(every) > SHOWN_PROBLEMS:
        lines.append(f"agentctl: {len(every) - SHOWN_PROBLEMS} more: agentctl doctor")
    return "".join(f"{line}\n" for line in lines)


def format_problem(problem: Problem) -> str:
    adapter = f"{problem.adapter}: " if problem.adapter else ""
    source = f" ({problem.source})" if problem.source else ""
    return clean_line(f"agentctl: {adapter}{problem.kind}: {problem.message}{source}")


class Results:
    """Collect problems and the exit code of several sessions: the highest one."""

    def __init__(self) -> None:
        self.code = 0
        self.problems: list[Problem] = []

    def report_failure(self, name: str, error: AgentctlError) -> None:
        """Print the error as one of the verb itself is printed, and go on."""
        sys.stdout.flush()
        print(f"agentctl: {clean_line(f'{name}: {error}')}", file=sys.stderr)
        if error.hint:
            print(f"  {clean_line(error.hint)}", file=sys.stderr)
        self.code = max(self.code, error.exit_code)

    def add_problems(self, problems: list[Problem]) -> None:
        self.problems += [problem for problem in problems if problem not in self.problems]


def select_sessions(arguments: argparse.Namespace, answers: Results) -> list[Choice]:
    """Return the sessions that the options name. Report those that cannot be selected."""
    from agentctl.sessions import select

    if arguments.group:
        choices = select.select_group(arguments.group, arguments.deadline)
    else:
        choices = select.select_by_ids(arguments.id, arguments.deadline)
    answers.add_problems(choices.problems)
    for text, error in choices.failures:
        answers.report_failure(text, error)
    return choices.sessions
