"""Warnings about sessions that were just launched: one line each, and no reason to fail."""

from __future__ import annotations

import os

from agentctl import paths
from agentctl.light_typing import Iterable, Mapping, Sequence
from agentctl.process import tree
from agentctl.system import proc
from agentctl.truth.model import Session


def list_warnings(sessions: Sequence[Session]) -> list[str]:
    """Return what a user should know after these launches: failed hooks, a daemon that does not do its
    work, agents that work in the same directory."""
    lines = [line for session in sessions for line in hook_warnings(session)]
    if (about_daemon := daemon_warning(os.environ)) is not None:
        lines.append(about_daemon)
    return lines + _neighbour_warnings(sessions)


def hook_warnings(session: Session) -> list[str]:
    """Return one line for each hook that failed."""
    return [
        f"{run.hook} failed: "
        f"{'took too long' if run.code is None else f'exit code {run.code}'}; see {run.output}"
        for run in (session.launch.hooks if session.launch is not None else ())
        if run.code != 0
    ]


def daemon_warning(environ: Mapping[str, str]) -> str | None:
    """Return what is wrong with a daemon that runs. A launch needs no daemon, but its events do."""
    state = paths.state_directory(environ)
    if state is None or not os.path.exists(f"{state}/daemon.sock"):
        return None
    if environ.get("AGENTCTL_NO_DAEMON", "") not in ("", "0"):
        return None
    from agentctl.daemon_client.status import running_warning

    return running_warning(state)


def _neighbour_warnings(sessions: Sequence[Session]) -> list[str]:
    from agentctl.sessions import query

    live = query.survey_sessions().sessions if sessions else []
    groups = (find_neighbours(session, live) for session in sessions)
    return [describe_neighbours(neighbours) for neighbours in groups if neighbours]


def find_neighbours(session: Session, live: Iterable[Session]) -> list[Session]:
    """Return the live sessions in the same directory that agentctl did not launch: no lock keeps these
    agents apart. The agent that called us does not count: it knows."""
    directory = session.launch.cwd if session.launch is not None else None
    if directory is None:
        return []
    table = proc.read_table()
    real = os.path.realpath(directory)
    return [
        other
        for other in live
        if other.launch is None
        and other.observation.owner is not None
        and _works_in(other, real)
        and not tree.runs_inside(other.observation.owner, table)
    ]


def describe_neighbours(neighbours: Sequence[Session]) -> str:
    first = neighbours[0].observation
    pid = first.owner.pid if first.owner is not None else 0
    name = f"{first.adapter} {first.session_id or f'pid:{pid}'} (pid {pid})"
    if len(neighbours) == 1:
        return f"{name} works in the same directory, and was not launched by agentctl"
    more = f"{name} and {len(neighbours) - 1} more"
    return f"{more} work in the same directory, and were not launched by agentctl"


def _works_in(session: Session, real: str) -> bool:
    owner, recorded = session.observation.owner, session.observation.facts.cwd
    if recorded is None or not recorded.startswith("/") or "\0" in recorded:
        recorded = owner.cwd if owner is not None else None
    return recorded is not None and os.path.realpath(recorded) == real
