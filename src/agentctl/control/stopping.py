"""Several stops side by side: each waits for its own agent, none for another's."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from agentctl.adapters.plans import StopPlan
from agentctl.control import stop, tree
from agentctl.errors import AgentctlError, SourceError
from agentctl.truth import procfs
from agentctl.truth.model import ProcessIdentity, Session
from agentctl.truth.procfs import Process


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
                from agentctl.control import ending  # and with it a database, for those who need it

                ending.recorded(self.session.launch)
        except AgentctlError as error:
            self.error = error


class Foreseen(NamedTuple):
    """What a stop would do."""

    pid: int | None  # its owner; None: it has ended
    signals: list[str]  # to the owner, each with how long it is waited for
    processes: list[dict[str, Any]]  # then these: pid, command


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
    found = stop.family_of(job.session, job.plan, job.among).look(procfs.read_table())
    steps = stop.steps(job.plan, force=force, timeout=timeout) if owner is not None else []
    return Foreseen(
        owner.pid if owner is not None else None,
        [f"{number.name} ({seconds:g} s)" for number, seconds in steps],
        [{"pid": process.pid, "command": _command(process)} for process in found.members],
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
    table = procfs.read_table() if owners else {}
    if not any(tree.inside(owner, table) for owner in owners):
        return False
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    try:
        os.setpgid(0, 0)
    except OSError:  # we lead a session
        pass
    return True


def _command(process: Process) -> str:
    try:
        return " ".join(process.argv) or process.comm
    except SourceError:
        return process.comm
