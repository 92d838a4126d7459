"""Select several sessions, by id or by group, and sum up how they ended."""

from __future__ import annotations

from agentctl.errors import AgentctlError, Unreachable, UsageError
from agentctl.light_typing import NamedTuple, Sequence
from agentctl.sessions import query
from agentctl.truth.model import Problem, Session
from agentctl.truth.survey import HistoryQuery, Survey

Failure = tuple[str, AgentctlError]  # the id as the user wrote it, and why it was not selected


class Choice(NamedTuple):
    session: Session
    among: Survey  # the survey in which it was found


class Choices(NamedTuple):
    sessions: list[Choice]
    failures: list[Failure]
    problems: list[Problem]


def select_by_ids(ids: Sequence[str], deadline: float | None = None) -> Choices:
    """Return each session once. An id that fails does not affect the others; if it is the only one, its
    error is raised. Raises UsageError."""
    choices: dict[object, Choice] = {}
    failures: list[Failure] = []
    problems: list[Problem] = []
    for text in ids:
        try:
            survey = query.survey_for(text, deadline)
            problems += [problem for problem in survey.problems if problem not in problems]
            session = query.pick_session(survey, text)
        except UsageError:
            raise
        except AgentctlError as error:
            if len(ids) == 1:
                raise
            failures.append((text, error))
            continue
        choices.setdefault(_key(session), Choice(session, survey))
    return Choices(list(choices.values()), failures, problems)


def select_group(group: str, deadline: float | None = None) -> Choices:
    """Return the sessions of a group, live ones first. Raises NotFound, Ambiguous."""
    survey = query.survey_sessions(HistoryQuery(), (), deadline)
    by_group: dict[str, list[Session]] = {}
    for session in survey.sessions:
        if session.launch is not None and session.launch.group:
            by_group.setdefault(session.launch.group, []).append(session)
    sessions = by_group[query.pick_group(group, list(by_group))]
    live_first = sorted(sessions, key=lambda session: session.observation.owner is None)
    return Choices([Choice(session, survey) for session in live_first], [], list(survey.problems))


def outcome_code(session: Session) -> int:
    """Return the exit code of a verb that waited for this session."""
    verdict = session.verdict
    if verdict.status == "unknown" or verdict.outcome == "unknown":
        return Unreachable.exit_code
    return 0 if verdict.outcome in (None, "completed") else 1


def _key(session: Session) -> tuple[str, str | None, int | None]:
    observation = session.observation
    owner = observation.owner
    is_pid = observation.session_id is None and owner is not None
    return (
        observation.adapter,
        observation.session_id,
        owner.pid if is_pid and owner is not None else None,
    )
