"""Several stops side by side: each waits for its own agent, none for another's."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from agentctl.adapters.plans import StopPlan
from agentctl.errors import AgentctlError
from agentctl.process import tree
from agentctl.process.kinship import command_of
from agentctl.stop import stop
from agentctl.system import proc
from agentctl.system.identity import ProcessIdentity
from agentctl.truth.model import Session


class Job:
    """One session to be stopped; afterwards what came of it."""

    def __init__(self, session: Session, plan: StopPlan, among: Sequence[Session] = ()) -> None:
        self.session = session
        self.plan = plan
        self.among = among  # every live session
        self.stopped: stop.Stopped | None = None
        self.error: AgentctlError | None = None

    def run(self, *, force: bool, timeout: float | None) -> None:
        try:
            self.stopped = stop.stop(self.session, self.plan, self.among, force=force, timeout=timeout)
            if self.session.launch is not None and not self.stopped.survivors:
                from agentctl.launch import exit_record  # and with it a database, for those who need it

                exit_record.recorded(self.session.launch)
        except AgentctlError as error:
            self.error = error


class Foreseen(NamedTuple):
    """What a stop would do."""

    pid: int | None  # its owner; None: it has ended
    signals: list[str]  # to the owner, each with how long it is waited for
    processes: list[dict[str, Any]]  # then these: pid, command
    spared: list[dict[str, Any]]  # but not these: pid, why, command, terminal


def all_at_once(jobs: Sequence[Job], *, force: bool, timeout: float | None) -> Iterator[Job]:
    """Each when it is done, in the order given."""
    if len(jobs) == 1:
        jobs[0].run(force=force, timeout=timeout)
        yield jobs[0]
        return
    import threading

    threads = {}
    for several in _by_owner(jobs):
        # daemons: an impatient Ctrl-C ends us, not only the waiting
        thread = threading.Thread(target=_in_turn, args=(several, force, timeout), daemon=True)
        thread.start()
        threads.update(dict.fromkeys(map(id, several), thread))
    for job in jobs:
        threads[id(job)].join()
        yield job


def foreseen(job: Job, *, force: bool, timeout: float | None) -> Foreseen:
    owner = job.session.seen.owner
    family = stop.family_of(job.session, job.plan, job.among, force=force)
    found = family.look(proc.read_table())
    steps = stop.steps(job.plan, force=force, timeout=timeout) if owner is not None else []
    return Foreseen(
        owner.pid if owner is not None else None,
        [f"{number.name} ({seconds:g} s)" for number, seconds in steps],
        [{"pid": process.pid, "command": command_of(process)} for process in found.members],
        [left._asdict() for left in found.spared],
    )


def _in_turn(jobs: Sequence[Job], force: bool, timeout: float | None) -> None:
    for job in jobs:
        try:
            job.run(force=force, timeout=timeout)
        except Exception as error:  # noqa: BLE001 - a thread's own is nobody's, and would pass for success
            job.error = AgentctlError(f"{type(error).__name__}: {error}")


def _by_owner(jobs: Sequence[Job]) -> list[list[Job]]:
    """Sessions of one process are not stopped twice at the same time: it would get each signal twice."""
    found: dict[ProcessIdentity | int, list[Job]] = {}
    for job in jobs:
        owner = job.session.seen.owner
        found.setdefault(owner.identity if owner is not None else id(job), []).append(job)
    return list(found.values())


def outlive(jobs: Sequence[Job]) -> bool:
    """Whether we run inside an agent that is to stop: it will end its shell, and us with it, too early.
    What can be ignored then is."""
    owners = [job.session.seen.owner for job in jobs if job.session.seen.owner is not None]
    table = proc.read_table() if owners else {}
    if not any(tree.inside(owner, table) for owner in owners):
        return False
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    try:
        os.setpgid(0, 0)
    except OSError:  # we lead a session
        pass
    return True
