"""Find sessions: one look, one survey, our launch notes and our cache. Every front end asks here, so
their answers cannot differ."""

from __future__ import annotations

import os

from agentctl import paths
from agentctl.adapters.registry import find_adapters
from agentctl.errors import Ambiguous, NotFound, SourceError, UsageError
from agentctl.light_typing import TYPE_CHECKING, Callable, Iterable, NamedTuple, Sequence
from agentctl.system import files
from agentctl.text import join_some
from agentctl.truth.look import Environ, Look
from agentctl.truth.model import Launch, Problem, Session
from agentctl.truth.survey import DEADLINE, HistoryQuery, Survey, survey
from agentctl.wire.session import WireSession, wire_session

if TYPE_CHECKING:
    from agentctl.truth.memory import FactCache, Memory


def survey_sessions(
    history: HistoryQuery | None = None,
    adapters: Sequence[str] = (),
    deadline: float | None = None,
    *,
    environ: Environ | None = None,
    cwd: str = "",
    memory: Memory | None = None,
    modules: Sequence[str] | None = None,
) -> Survey:
    """Return a survey of the live sessions, and with `history` of the ended ones.

    `environ` and `cwd` are those of the process that asks, by default this one. `memory` is what a
    long-lived process remembers between looks. `modules` is where adapters may be installed.
    """
    environ = os.environ if environ is None else environ
    asker = _Asker(paths.state_directory(environ, cwd), environ, cwd, memory, modules)
    if history is None or asker.state is None or history.id_prefix:  # few files: not worth a cache
        return _survey(asker, history, adapters, deadline, None)
    from agentctl.state.cache import Cache

    with Cache(paths.cache_file(asker.state)) as cache:
        return _survey(asker, history, adapters, deadline, cache)


def history_query(text: str) -> HistoryQuery | None:
    """Return which ended sessions may have this id, prefix or `pid:N`. Raises UsageError."""
    if not text.strip():
        raise UsageError("an empty id", "agentctl list shows the ids")
    return None if text.startswith("pid:") else HistoryQuery(id_prefix=text)


def survey_for(
    text: str,
    deadline: float | None = None,
    ask: Callable[[HistoryQuery | None, Sequence[str], float | None], Survey] = survey_sessions,
) -> Survey:
    """Return a survey in which to pick the session of this id, prefix or `pid:N`.

    The history is read only if no live session has this id or prefix. So a prefix that a live session
    shares with ended ones means the live one.
    """
    history = history_query(text)
    live = ask(None, (), deadline)
    if history is None or _match_prefix(live, text):
        return live
    return ask(history, (), deadline)


def pick_session(survey: Survey, text: str) -> Session:
    """Return the session of that id, prefix, or `pid:N`. Raises NotFound or Ambiguous."""
    if text.startswith("pid:"):
        return _pick_by_pid(survey, text)
    matching = _match_prefix(survey, text)
    exact = [s for s in matching if s.observation.session_id == text]
    return _pick_only(exact or matching, text)


def _match_prefix(survey: Survey, prefix: str) -> list[Session]:
    return [s for s in survey.sessions if (s.observation.session_id or "").startswith(prefix)]


def pick_group(text: str, groups: Sequence[str]) -> str:
    """Return the group of that name, or the only one with that prefix. Raises NotFound, Ambiguous."""
    matching = [name for name in groups if name.startswith(text)] if text else []
    if text in groups:
        return text
    if not matching:
        names = f"groups: {join_some(groups, 8)}" if groups else "no launch has a group yet"
        raise NotFound(f"no group {text!r}", names)
    if len(matching) > 1:
        raise Ambiguous(f"{text!r} could be {len(matching)} groups", ", ".join(matching[:8]))
    return matching[0]


class Selection(NamedTuple):
    """Which sessions to list. Empty and None: all."""

    ended: bool = False
    since: float = 0.0  # only sessions that ended after this moment
    adapters: Sequence[str] = ()
    statuses: Sequence[str] = ()
    id_prefix: str = ""
    group: str | None = None
    directory: str | None = None  # absolute: sessions in it or below
    deadline: float | None = None


class Selected(NamedTuple):
    sessions: list[WireSession]
    problems: list[Problem]


def select_sessions(
    selection: Selection,
    ask: Callable[[HistoryQuery | None, Sequence[str], float | None], Survey] = survey_sessions,
) -> Selected:
    """Return the selected sessions, in no order, and the problems of the survey."""
    wants_history = selection.ended or "stopped" in selection.statuses
    history = HistoryQuery(selection.since, selection.id_prefix) if wants_history else None
    survey = ask(history, selection.adapters, selection.deadline)
    sessions: Iterable[WireSession] = map(wire_session, survey.sessions)
    if selection.id_prefix:
        sessions = filter(lambda each: (each.id or "").startswith(selection.id_prefix), sessions)
    if selection.statuses:
        sessions = filter(lambda each: each.status in selection.statuses, sessions)
    if selection.group:
        sessions = filter(lambda each: _is_in_group(each, selection.group), sessions)
    if selection.directory is not None:
        directory = os.path.realpath(selection.directory)
        sessions = filter(lambda each: _works_in(each, directory), sessions)
    return Selected(list(sessions), survey.problems)


def _is_in_group(session: WireSession, group: str | None) -> bool:
    return session.launch is not None and session.launch.group == group


def _works_in(session: WireSession, directory: str) -> bool:
    cwd = session.cwd
    return cwd is not None and paths.resolves_inside(cwd, directory)


class _Asker(NamedTuple):
    """The process that asks."""

    state: str | None
    environ: Environ
    cwd: str
    memory: Memory | None
    modules: Sequence[str] | None  # None: those of this process


def _survey(
    asker: _Asker,
    history: HistoryQuery | None,
    adapters: Sequence[str],
    deadline: float | None,
    cache: FactCache | None,
) -> Survey:
    look = Look.take(asker.environ, cache, cwd=asker.cwd, memory=asker.memory)
    agents = find_adapters(adapters, asker.modules)
    notes = _read_notes(asker.state, look)
    limit = deadline if deadline is not None else _read_deadline(asker.environ)
    return survey(look, agents, history, deadline=limit, notes=notes)


def _read_notes(state: str | None, look: Look) -> Sequence[Launch]:
    if state is None:
        return ()
    path = paths.database_file(state)
    try:
        if not files.is_present(path):  # the usual case: saves the import of sqlite3
            return ()
        from agentctl.state import launches

        memory = look.memory
        return launches.read_launches(path, memory.recall_answers(path) if memory is not None else None)
    except SourceError as error:  # the labels are missing, no session is
        look.report_problem(error.kind, error.advice, error.source)
        return ()


def _read_deadline(environ: Environ) -> float:
    text = environ.get("AGENTCTL_DEADLINE", "")
    if not text:
        return DEADLINE
    from agentctl.durations import parse_duration

    try:
        return parse_duration(text)
    except UsageError as error:
        raise UsageError(f"AGENTCTL_DEADLINE: {error}", error.hint) from error


def _pick_by_pid(survey: Survey, text: str) -> Session:
    for session in survey.sessions:
        if session.observation.owner is not None and text == f"pid:{session.observation.owner.pid}":
            return session
    raise NotFound(f"no agent process {text}", "agentctl list shows the live sessions")


def _pick_only(matching: list[Session], text: str) -> Session:
    if len(matching) == 1:
        return matching[0]
    if not matching:
        raise NotFound(f"no session {text!r}", "agentctl list -a shows every session")
    names = [f"{s.observation.session_id} ({s.observation.adapter})" for s in matching]
    raise Ambiguous(f"{text!r} could be {len(matching)} sessions", join_some(names, 5))
