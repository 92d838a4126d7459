"""The answers of `list`, `status` and `why`, for whichever process asks.

An answer depends on the asker and on the look, and not on this process's environment or standard
output. So the daemon, which answers for other processes, gives the answer that they would have found.
"""

from __future__ import annotations

import os
import time

from agentctl.cli.answer import format_problems
from agentctl.cli.runner import Answer, error_answer
from agentctl.errors import NotFound
from agentctl.json_text import encode
from agentctl.light_typing import TYPE_CHECKING, Callable, Iterator, Mapping, NamedTuple, Sequence
from agentctl.paths import home_directory
from agentctl.sessions import query
from agentctl.sessions.query import Selected, Selection
from agentctl.text import choose_columns, may_colour, terminal_width
from agentctl.view import rows
from agentctl.view.table import Screen
from agentctl.wire import session as wire
from agentctl.wire.session import WireSession

if TYPE_CHECKING:
    from argparse import Namespace

    from agentctl.truth.memory import Memory
    from agentctl.truth.survey import HistoryQuery, Survey

PAGE = 64  # sessions written at once


class ListOptions(NamedTuple):
    """The options of `list`, by default those of `agentctl list` alone."""

    all: bool = False
    since: float | None = None  # a moment
    adapters: Sequence[str] = ()
    statuses: Sequence[str] = ()
    group: str | None = None
    cwd: str | None = None
    watch: bool = False
    json: bool = False
    deadline: float | None = None


def read_list_options(arguments: Namespace) -> ListOptions:
    return ListOptions(
        all=arguments.all,
        since=arguments.since,
        adapters=arguments.adapter,
        statuses=arguments.status or (),
        group=arguments.group,
        cwd=arguments.cwd,
        watch=arguments.watch,
        json=arguments.json,
        deadline=arguments.deadline,
    )


class Asker(NamedTuple):
    """The process that asks."""

    environ: Mapping[str, str]
    terminal: int | None  # its columns; None: the output is not a terminal
    cwd: str = ""  # "": our own
    memory: Memory | None = None  # what a long-lived process remembers between questions
    modules: Sequence[str] | None = None  # where adapters may be installed; None: on our own path

    def survey(
        self, history: HistoryQuery | None, adapters: Sequence[str] = (), deadline: float | None = None
    ) -> Survey:
        return query.survey_sessions(
            history,
            adapters,
            deadline,
            environ=self.environ,
            cwd=self.cwd,
            memory=self.memory,
            modules=self.modules,
        )

    def screen(self) -> Screen:
        colour = may_colour(self.environ, tty=self.terminal is not None)
        columns = choose_columns(self.environ, self.terminal)
        return Screen(columns, colour, home_directory(self.environ), time.time())


def local_asker() -> Asker:
    return Asker(os.environ, terminal_width())


# list


def answer_list(options: ListOptions, asker: Asker) -> Answer:
    selected = list_sessions(options, asker)
    if options.json:
        return Answer(_list_json(selected))
    lines = list_lines(selected, options, asker.screen())
    return Answer(("\n".join(lines), "\n"), format_problems(selected.problems))


def list_sessions(options: ListOptions, asker: Asker) -> Selected:
    """Return the sessions that the options ask for, in the order of the list."""
    cwd = options.cwd
    selection = Selection(
        ended=options.all or options.since is not None,
        since=options.since or 0.0,
        adapters=options.adapters,
        statuses=options.statuses,
        group=options.group,
        directory=None if cwd is None else os.path.join(asker.cwd, cwd),
        deadline=options.deadline,
    )
    selected = query.select_sessions(selection, asker.survey)
    return Selected(rows.sort_sessions(selected.sessions), selected.problems)


def list_lines(selected: Selected, options: ListOptions, screen: Screen) -> list[str]:
    return rows.session_lines(selected.sessions, screen) if selected.sessions else [_no_session(options)]


def _no_session(options: ListOptions) -> str:
    narrow = options.group or options.cwd is not None or options.adapters
    if options.statuses or options.since is not None or (options.all and narrow):
        return "no session matches"
    if options.all:
        return "no session, live or ended"
    live = "no live session matches" if narrow else "no live session"
    return f"{live}; `agentctl list -a` shows the ended ones"


def _list_json(selected: Selected) -> Iterator[str]:
    """Yield one session a line, a page of them at a time."""
    sessions = selected.sessions
    yield f'{{"version":{wire.VERSION},"sessions":['
    for start in range(0, len(sessions), PAGE):
        page = map(wire.session_text, sessions[start : start + PAGE])
        yield (",\n" if start else "\n") + ",\n".join(page)
    yield '],\n"problems":['
    yield ",".join("\n" + encode(wire.dump_problem(problem)) for problem in selected.problems)
    yield "]}\n"


# status and why


def answer_status(arguments: Namespace, asker: Asker) -> Answer:
    from agentctl.view.session import status_lines  # `list` does without

    return _answer_one(arguments, asker, status_lines)


def answer_why(arguments: Namespace, asker: Asker) -> Answer:
    from agentctl.view.session import why_lines  # `list` does without

    return _answer_one(arguments, asker, why_lines)


def _answer_one(
    arguments: Namespace, asker: Asker, render: Callable[[WireSession, Screen], list[str]]
) -> Answer:
    survey = query.survey_for(arguments.id, arguments.deadline, asker.survey)
    try:
        session = wire.wire_session(query.pick_session(survey, arguments.id))
    except NotFound as error:  # it may be a session that could not be read
        answer = error_answer(error, asker.environ)
        return answer._replace(err=format_problems(survey.problems) + answer.err)
    if arguments.json:
        return Answer((encode(wire.dump_sessions([session], survey.problems), indent=1), "\n"))
    lines = render(session, asker.screen())
    return Answer(("\n".join(lines), "\n"), format_problems(survey.problems))
