"""A fuse that ends sessions, by the same plan, the same signals and the same proof as `stop`.

One on a session ends that session; one on a directory every live session that works there or below; the
timeout of a launch its agent, with all that it runs. What `stop` refuses without --owner, this refuses.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

from agentctl import paths
from agentctl.errors import AgentctlError, Passing, Unreachable
from agentctl.launch import finish
from agentctl.sessions import query
from agentctl.state import launch_writes, launches
from agentctl.state.fuse import Fuse
from agentctl.stop import plan
from agentctl.stop.several import Job, all_at_once
from agentctl.stop.stop import shape
from agentctl.truth.model import Launch, Problem, Session


def stop(state: str, fuse: Fuse, _: int) -> dict[str, Any]:
    """Raises SourceError, or Unreachable where it cannot be told whether it lives."""
    found = query.everything()
    meant = _meant(state, fuse, found.sessions)
    if not meant and fuse.directory is None:
        _check_seen(fuse, found.problems)
    jobs, told = [], []
    for session in meant:
        try:
            may = plan.plan(session, found.sessions, whole_owner=fuse.launch_id is not None)
            jobs.append(Job(session, may, found.sessions))
        except AgentctlError as error:
            told.append(_refused(session, error))
    noted = not jobs or fuse.launch_id is None or _expired(state, fuse.launch_id)
    told.extend(map(_came_of, all_at_once(jobs, force=False, timeout=None)))
    if not noted:
        finish.patiently(lambda: launch_writes.expired(paths.notes_file(state), fuse.launch_id or ""))
    return {"ok": all(not each["error"] and not each["survivors"] for each in told), "stopped": told}


def _expired(state: str, launch_id: str) -> bool:
    """Whether it could be noted that it is ended for that. It is ended either way: perhaps it is the one
    that has filled the disk."""
    try:
        launch_writes.expired(paths.notes_file(state), launch_id)
    except Passing:
        return False
    return True


def anybody(state: str, fuse: Fuse) -> bool:
    """Whether there is a session for it to end."""
    return bool(_meant(state, fuse, query.everything().sessions))


def works_in(session: Session, directory: str) -> bool:
    """There or below."""
    cwd = session.seen.facts.cwd
    if cwd is None or not cwd.startswith("/") or "\0" in cwd:  # an agent may write anything
        return False
    return f"{os.path.realpath(cwd)}/".startswith(directory.rstrip("/") + "/")


def _meant(state: str, fuse: Fuse, live: Iterable[Session]) -> list[Session]:
    owned = [session for session in live if session.verdict.status != "stopped"]
    if fuse.launch_id is not None:
        note = launches.noted(paths.notes_file(state), fuse.launch_id)
        return [each for each in owned if note is not None and _is(each, note)][:1]
    if fuse.directory is not None:
        return [each for each in owned if works_in(each, fuse.directory)]
    named = (fuse.adapter, fuse.session_id)
    return [each for each in owned if (each.seen.adapter, each.seen.session_id) == named]


def _is(session: Session, note: Launch) -> bool:
    owner = session.seen.owner
    return owner is not None and (
        owner.identity == note.identity or (session.launch is not None and session.launch.id == note.id)
    )


def _check_seen(fuse: Fuse, problems: Iterable[Problem]) -> None:
    """Absent is not dead, where its adapter could not look."""
    mine = next((each for each in problems if each.adapter in ("", fuse.adapter)), None)
    if mine is not None:
        raise Unreachable(f"cannot tell whether {fuse.on} lives: {mine.kind}: {mine.message}")


def _came_of(job: Job) -> dict[str, Any]:
    if job.stopped is None:
        assert job.error is not None
        return _refused(job.session, job.error)
    return {**shape(job.stopped), "error": str(job.error) if job.error is not None else None}


def _refused(session: Session, error: AgentctlError) -> dict[str, Any]:
    seen = session.seen
    return {"id": seen.session_id, "adapter": seen.adapter, "survivors": [], "error": str(error)}
