"""The answers to `ask` and `sessions`: what the caller would have found by looking itself.

`ask` runs `list`, `status` or `why` for the caller's words, environment, directory and terminal, and
returns what the verb prints. `sessions` returns the same sessions as JSON. Each answer is a look of its
own: processes are read again, and so is each file that has changed. No answer changes the daemon.
"""

from __future__ import annotations

import gc
from contextlib import contextmanager

from agentctl.cli import queries, query_options
from agentctl.cli.runner import Answer, error_answer
from agentctl.daemon.caller import (
    Caller,
    CallerCheck,
    elsewhere,
    need_descriptors,
    parse_caller,
    parse_texts,
)
from agentctl.daemon_client import protocol
from agentctl.errors import AgentctlError, Exhausted, Fault, UsageError
from agentctl.light_typing import TYPE_CHECKING, Any, Iterator, Mapping, NamedTuple, Sequence
from agentctl.sessions import query
from agentctl.sessions.query import Selection
from agentctl.truth.memory import Memory
from agentctl.truth.model import STATUSES
from agentctl.view import rows
from agentctl.wire import session as wire

if TYPE_CHECKING:
    from agentctl.truth.survey import HistoryQuery, Survey

VERBS = tuple(query_options.PARSERS)
MOST_WORDS, LONGEST_WORD = 64, 1 << 13


class Question(NamedTuple):
    """The parameters of `ask`."""

    verb: str
    words: list[str]
    terminal: int | None


class WholeLook(queries.Asker):
    """A caller for whom a look that a limit has cut short is no look."""

    def survey(
        self, history: HistoryQuery | None, adapters: Sequence[str] = (), deadline: float | None = None
    ) -> Survey:
        survey = super().survey(history, adapters, deadline)
        for problem in survey.problems:
            if problem.kind == Exhausted.kind:
                raise elsewhere(problem.message)
        return survey


class Answers:
    """Answers one question after the other, in one thread. Both methods raise Fault, with ELSEWHERE if
    the caller is to look itself."""

    def __init__(self) -> None:
        self._memory = Memory()
        self._check = CallerCheck()

    def ask(self, params: Mapping[str, Any], pid: int) -> dict[str, Any]:
        caller, question = parse_caller(params), parse_question(params)
        if not all(map(is_harmless, question.words)):
            raise elsewhere("help and --watch are for the caller's own terminal")
        with self._asker(caller, pid, question.terminal) as asker:
            response = self._run_verb(question, asker)
            out = "".join(response.out)
        return {"code": response.code, "stdout": out, "stderr": response.err}

    def sessions(self, params: Mapping[str, Any], pid: int) -> dict[str, Any]:
        caller, selection = parse_caller(params), parse_selection(params)
        with self._asker(caller, pid) as asker:
            try:
                selected = query.select_sessions(selection, asker.survey)
            except UsageError as error:
                raise Fault(protocol.BAD_PARAMS, str(error)) from error
            return wire.dump_sessions(rows.sort_sessions(selected.sessions), selected.problems)

    @contextmanager
    def _asker(self, caller: Caller, pid: int, terminal: int | None = None) -> Iterator[WholeLook]:
        self._check.check(caller, pid)
        modules = self._check.shared_modules(caller)
        collecting = gc.isenabled()
        gc.disable()  # all that a look makes is in use until its end: there is nothing to collect
        try:
            yield WholeLook(caller.environ, terminal, caller.cwd, self._memory, modules)
            need_descriptors()  # other threads may have taken them meanwhile
        finally:
            if collecting:
                gc.enable()

    def _run_verb(self, question: Question, asker: queries.Asker) -> Answer:
        try:
            return query_options.answer_words(question.verb, question.words, asker)
        except Fault:  # not to be answered here
            raise
        except AgentctlError as error:
            if asker.environ.get("AGENTCTL_DEBUG") == "1":
                raise elsewhere("an error, and the caller wants to see where it is from") from error
            return error_answer(error, asker.environ)


def parse_question(params: Mapping[str, Any]) -> Question:
    """Raise Fault if a parameter is missing or of another type."""
    verb, terminal, words = params.get("verb"), params.get("terminal"), parse_texts(params, "words")
    if not isinstance(verb, str) or verb not in VERBS:
        raise Fault(protocol.BAD_PARAMS, f"verb: not one of {', '.join(VERBS)}")
    if len(words) > MOST_WORDS or any(len(word) > LONGEST_WORD for word in words):
        raise Fault(protocol.BAD_PARAMS, f"words: more than {MOST_WORDS}, or longer than {LONGEST_WORD}")
    if terminal is not None and (type(terminal) is not int or not 0 <= terminal < 1 << 16):
        raise Fault(protocol.BAD_PARAMS, "terminal: not a number of columns, nor null")
    return Question(verb, words, terminal)


def parse_selection(params: Mapping[str, Any]) -> Selection:
    """Return which sessions are asked for; an absent parameter selects all. Raises Fault."""
    with_ended = params.get("ended", False)
    since, deadline = params.get("since"), params.get("deadline")
    adapters, statuses = (_optional_texts(params, name) for name in ("adapters", "statuses"))
    id_prefix, group, directory = (params.get(name) for name in ("id", "group", "directory"))
    if not isinstance(with_ended, bool):
        raise Fault(protocol.BAD_PARAMS, "ended: not true or false")
    for name, number in (("since", since), ("deadline", deadline)):
        if number is not None and type(number) not in (int, float):
            raise Fault(protocol.BAD_PARAMS, f"{name}: not a number")
    for name, text in (("id", id_prefix), ("group", group), ("directory", directory)):
        if text is not None and not isinstance(text, str):
            raise Fault(protocol.BAD_PARAMS, f"{name}: not a string")
    if directory is not None and not directory.startswith("/"):
        raise Fault(protocol.BAD_PARAMS, "directory: not an absolute path")
    if not set(statuses) <= set(STATUSES):
        raise Fault(protocol.BAD_PARAMS, f"statuses: not of {', '.join(STATUSES)}")
    return Selection(
        ended=with_ended or since is not None,
        since=since or 0.0,
        adapters=adapters,
        statuses=statuses,
        id_prefix=id_prefix or "",
        group=group,
        directory=directory,
        deadline=deadline,
    )


def _optional_texts(params: Mapping[str, Any], name: str) -> list[str]:
    return [] if params.get(name) is None else parse_texts(params, name)


def is_harmless(word: str) -> bool:
    """Return False for a word that prints help or never ends: `-ah` is `-a -h`."""
    short = word.startswith("-") and not word.startswith("--")
    return word not in ("--help", "--watch") and not (short and "h" in word)
