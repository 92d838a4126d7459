"""Stop sessions: end the owner by the adapter's plan, then all other processes of the session, and prove
it with counts and survivors."""

from __future__ import annotations

import os
import signal
import time
from signal import SIGKILL, SIGTERM, Signals

from agentctl.adapters.plans import StopPlan
from agentctl.errors import AgentctlError, Gone, Refused
from agentctl.light_typing import Any, Iterable, Iterator, NamedTuple, Sequence
from agentctl.process import tree
from agentctl.process.handles import ProcessHandles
from agentctl.process.relatives import RemainingProcess
from agentctl.process.tree import ProcessFamily
from agentctl.stop.plan import KILL_WAIT, StopJob, make_family, signal_steps
from agentctl.system import proc
from agentctl.system.pidfd import Handle
from agentctl.system.proc import Process, ProcessIdentity
from agentctl.truth.model import Session

FOLLOW_TIME = 0.2  # seconds in which other processes may follow their owner before the first signal
GRACE = 1.0  # seconds between TERM and KILL
ROUNDS = 20  # looks for new processes: one that forks faster is reported as a survivor


class StopResult(NamedTuple):
    """What a stop did, with its proof: how many processes ended, and which survive."""

    session_id: str | None
    adapter: str
    already: bool  # the owner had ended before
    ended: int  # processes, the owner included
    survivors: tuple[RemainingProcess, ...] = ()
    spared: tuple[RemainingProcess, ...] = ()  # they look like members, above all agentctl itself
    signals: tuple[str, ...] = ()  # sent to the owner, in order
    seconds: float = 0.0


def wire_result(result: StopResult) -> dict[str, Any]:
    """Return the JSON form, as `wire.session.STOPPED_FIELDS` describes it."""
    return {
        "id": result.session_id,
        "adapter": result.adapter,
        "already": result.already,
        "ended": result.ended,
        "survivors": [process._asdict() for process in result.survivors],
        "spared": [process._asdict() for process in result.spared],
        "signals": list(result.signals),
        "seconds": round(result.seconds, 3),
    }


def stop_session(
    session: Session,
    plan: StopPlan,
    among: Iterable[Session] = (),
    *,
    force: bool = False,
    timeout: float | None = None,
) -> StopResult:
    """Stop one session. `stop/plan.py` decides whether that is allowed.

    `timeout` bounds what the owner gets before KILL. `force` sends KILL at once, and also ends processes
    at terminals that the user uses. `among`: every live session, so that other sessions inside this one
    live on. Raises Refused if the owner's pid names another process by now.
    """
    start = time.monotonic()
    family, first = make_family(session, plan, among, force=force), session.observation.owner
    with ProcessHandles() as owner, ProcessHandles() as others:
        if first is not None and not owner.open([first]):
            _check_pid_reuse(first, session.observation.session_id)
        spared: dict[int, RemainingProcess] = {}
        # before the first signal: when their parent has ended, only a handle finds some of them
        _open_relatives(others, family, spared)
        sent = _end_owner(owner, plan, force=force, timeout=timeout)
        _end_others(others, family, spared)
        return StopResult(
            session_id=session.observation.session_id,
            adapter=session.observation.adapter,
            already=not owner.identities,
            ended=owner.count_ended() + others.count_ended(),
            survivors=(*owner.list_survivors(), *others.list_survivors()),
            spared=tuple(spared.values()),
            signals=sent,
            seconds=time.monotonic() - start,
        )


def run_jobs(jobs: Sequence[StopJob], *, force: bool, timeout: float | None) -> Iterator[StopJob]:
    """Stop all sessions at the same time. Yield the jobs in their order, each when it is complete."""
    if len(jobs) == 1:
        run_job(jobs[0], force=force, timeout=timeout)
        yield jobs[0]
        return
    import threading

    threads = {}
    for same_owner in _group_by_owner(jobs):
        # daemon threads: a second Ctrl-C ends the process, not only its waiting
        thread = threading.Thread(target=_run_in_turn, args=(same_owner, force, timeout), daemon=True)
        thread.start()
        threads.update(dict.fromkeys(map(id, same_owner), thread))
    for job in jobs:
        threads[id(job)].join()
        yield job


def run_job(job: StopJob, *, force: bool, timeout: float | None) -> None:
    """Stop one session. Sets the result, or the error, of the job."""
    try:
        job.result = stop_session(job.session, job.plan, job.among, force=force, timeout=timeout)
        if job.session.launch is not None and not job.result.survivors:
            from agentctl.launch import exit_record  # imports the database: only launches need it

            exit_record.await_exit(job.session.launch)
    except AgentctlError as error:
        job.error = error


def shield_if_inside(jobs: Sequence[StopJob]) -> bool:
    """Return True if agentctl runs inside an agent that is to stop. Ignores the signals by which the
    agent would end its shell, and agentctl with it, too early."""
    owners = [job.session.observation.owner for job in jobs if job.session.observation.owner is not None]
    table = proc.read_table() if owners else {}
    if not any(tree.runs_inside(owner, table) for owner in owners):
        return False
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    try:
        os.setpgid(0, 0)
    except OSError:  # this process leads a session
        pass
    return True


def _end_owner(
    owner: ProcessHandles, plan: StopPlan, *, force: bool, timeout: float | None
) -> tuple[str, ...]:
    """Return the names of the signals that were sent."""
    sent: list[Signals] = []
    for number, seconds in signal_steps(plan, force=force, timeout=timeout):
        if not owner.signal(number):
            break
        sent.append(number)
        if owner.wait(seconds):
            break
    return tuple(number.name for number in sent)


def _open_relatives(
    others: ProcessHandles, family: ProcessFamily, spared: dict[int, RemainingProcess]
) -> int:
    """Look for processes of the session. Return how many of those to end are new."""
    relatives = family.find_relatives(proc.read_table(), others.identities)
    others.open_unsignalled(relatives.not_ours)
    spared.update({each.pid: each for each in relatives.spared if each.pid not in spared})
    return others.open(relatives.members)


def _end_others(
    others: ProcessHandles, family: ProcessFamily, spared: dict[int, RemainingProcess]
) -> None:
    """End all other processes, until a look finds no new one: a process may fork while it ends."""
    for number in range(ROUNDS):
        others.wait(FOLLOW_TIME)
        if number == 0 and others.list_living():
            others.signal(SIGTERM)
            others.wait(GRACE)
        if others.list_living():
            others.signal(SIGKILL)
            others.wait(KILL_WAIT)
        if not _open_relatives(others, family, spared):
            break


def _check_pid_reuse(owner: Process, session_id: str | None) -> None:
    """Raise Refused if the owner's pid names another process by now. An owner that ended is fine."""
    try:
        Handle(proc.read_process(owner.pid, owner.identity.boot).identity).close()
    except Gone:
        return
    if proc.find_process(owner.identity) is not None:
        return
    raise Refused(
        f"pid {owner.pid} is another process than the one that ran this session a moment ago",
        f"look again: agentctl status {session_id}" if session_id else "look again: agentctl list",
    )


def _run_in_turn(jobs: Sequence[StopJob], force: bool, timeout: float | None) -> None:
    for job in jobs:
        try:
            run_job(job, force=force, timeout=timeout)
        except Exception as error:  # noqa: BLE001 - an exception in a thread would pass for success
            job.error = AgentctlError(f"{type(error).__name__}: {error}")


def _group_by_owner(jobs: Sequence[StopJob]) -> list[list[StopJob]]:
    """Group sessions of one process: stopped at the same time, it would get each signal twice."""
    groups: dict[ProcessIdentity | int, list[StopJob]] = {}
    for job in jobs:
        owner = job.session.observation.owner
        groups.setdefault(owner.identity if owner is not None else id(job), []).append(job)
    return list(groups.values())
