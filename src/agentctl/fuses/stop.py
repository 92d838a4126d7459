"""The stop action of a fuse, by the same plan, signals and proof as the verb `stop`.

A fuse on a session stops that session; a fuse on a directory stops every live session that works in it;
the timeout of a launch stops its agent with all that it runs. What `stop` refuses without --owner, a
fuse refuses too.
"""

from __future__ import annotations

from agentctl import paths
from agentctl.errors import AgentctlError, Temporary, Unreachable
from agentctl.launch import finish
from agentctl.light_typing import Any, Iterable
from agentctl.sessions import query
from agentctl.sessions.select import Choice
from agentctl.state import launch_writes, launches
from agentctl.state.fuses import Fuse
from agentctl.stop import plan
from agentctl.stop.plan import StopJob
from agentctl.stop.stop import run_jobs, wire_result
from agentctl.truth.model import Launch, Problem, Session


def stop_sessions(state: str, fuse: Fuse, _: int) -> dict[str, Any]:
    """Return the result. Raises SourceError; Unreachable if it is not known whether a session lives."""
    survey = query.survey_sessions()
    sessions = _find_sessions(state, fuse, survey.sessions)
    if not sessions and fuse.directory is None:
        _check_problems(fuse, survey.problems)
    choices = [Choice(session, survey) for session in sessions]
    jobs, failures = plan.plan_stops(choices, whole_owner=fuse.launch_id is not None)
    results = [_failure_result(session, error) for session, error in failures]
    is_recorded = not jobs or fuse.launch_id is None or _record_expiry(state, fuse.launch_id)
    results.extend(map(_job_result, run_jobs(jobs, force=False, timeout=None)))
    if not is_recorded:
        finish.retry_temporary(
            lambda: launch_writes.record_expiry(paths.database_file(state), fuse.launch_id or "")
        )
    return {
        "ok": all(not each["error"] and not each["survivors"] for each in results),
        "stopped": results,
    }


def _record_expiry(state: str, launch_id: str) -> bool:
    """Return False if the database is full or locked. The agent is stopped all the same: it may be the
    one that filled the disk."""
    try:
        launch_writes.record_expiry(paths.database_file(state), launch_id)
    except Temporary:
        return False
    return True


def has_session(state: str, fuse: Fuse) -> bool:
    """Return True if the fuse has a session to stop."""
    return bool(_find_sessions(state, fuse, query.survey_sessions().sessions))


def works_in(session: Session, directory: str) -> bool:
    """Return True if the session works in this directory or below."""
    cwd = session.observation.facts.cwd
    return cwd is not None and paths.resolves_inside(cwd, directory)


def _find_sessions(state: str, fuse: Fuse, sessions: Iterable[Session]) -> list[Session]:
    live = [session for session in sessions if session.verdict.status != "stopped"]
    if fuse.launch_id is not None:
        note = launches.find_launch(paths.database_file(state), fuse.launch_id)
        return [each for each in live if note is not None and _is_launched_by(each, note)][:1]
    if fuse.directory is not None:
        return [each for each in live if works_in(each, fuse.directory)]
    key = (fuse.adapter, fuse.session_id)
    return [each for each in live if (each.observation.adapter, each.observation.session_id) == key]


def _is_launched_by(session: Session, note: Launch) -> bool:
    owner = session.observation.owner
    return owner is not None and (
        owner.identity == note.identity or (session.launch is not None and session.launch.id == note.id)
    )


def _check_problems(fuse: Fuse, problems: Iterable[Problem]) -> None:
    """Raise Unreachable if the adapter could not look: an absent session may live then."""
    problem = next((each for each in problems if each.adapter in ("", fuse.adapter)), None)
    if problem is not None:
        raise Unreachable(f"cannot tell whether {fuse.subject} lives: {problem.kind}: {problem.message}")


def _job_result(job: StopJob) -> dict[str, Any]:
    if job.result is None:
        assert job.error is not None
        return _failure_result(job.session, job.error)
    return {**wire_result(job.result), "error": str(job.error) if job.error is not None else None}


def _failure_result(session: Session, error: AgentctlError) -> dict[str, Any]:
    return {
        "id": session.observation.session_id,
        "adapter": session.observation.adapter,
        "survivors": [],
        "error": str(error),
    }
