"""Plan the stop of a session: whether its process may be ended, by which signals, and which other
processes end with it. Sends nothing; `stop/stop.py` carries a plan out."""

from __future__ import annotations

import os
from signal import SIGKILL, Signals

from agentctl.adapters.plans import StopPlan
from agentctl.adapters.registry import load
from agentctl.errors import AgentctlError, Gone, Refused, Unreachable
from agentctl.light_typing import TYPE_CHECKING, Any, Iterable, NamedTuple, Sequence
from agentctl.process.relatives import command_line
from agentctl.process.tree import ProcessFamily
from agentctl.sessions import query
from agentctl.sessions.select import Choice
from agentctl.system import proc
from agentctl.system.proc import Process
from agentctl.text import join_some
from agentctl.truth.model import Session

if TYPE_CHECKING:
    from agentctl.stop.stop import StopResult

NAMED = 5  # other sessions in a message
KILL_WAIT = 5.0  # seconds that SIGKILL may take: the kernel first releases what the process holds


class StopJob:
    """One session to stop. `stop.run_jobs` sets its result or its error."""

    def __init__(self, session: Session, plan: StopPlan, among: Sequence[Session] = ()) -> None:
        self.session = session
        self.plan = plan
        self.among = among  # every live session
        self.result: StopResult | None = None
        self.error: AgentctlError | None = None


class StopPreview(NamedTuple):
    """What a stop would do."""

    pid: int | None  # the owner of the session; None: it has ended
    signals: list[str]  # to the owner, each with how long it may take
    processes: list[dict[str, Any]]  # ended after the owner: pid, command
    spared: list[dict[str, Any]]  # left alive: pid, why, command, terminal


def resolve_unknown(choices: list[Choice], deadline: float | None = None) -> list[Choice]:
    """Look again for a short time at sessions whose status is unknown: a session that another stop is
    ending has lost its record while its process still lives."""
    if all(choice.session.verdict.status != "unknown" for choice in choices):
        return choices
    from agentctl.watch import wait

    sessions = wait.resolve_unknown([choice.session for choice in choices], deadline)
    live = query.survey_sessions(None, (), deadline)  # by now their owners may be known
    return [Choice(session, live) for session in sessions]


def plan_stops(
    choices: list[Choice], *, whole_owner: bool = False
) -> tuple[list[StopJob], list[tuple[Session, AgentctlError]]]:
    """Return a job for each session that may be stopped, and the others with the reason."""
    jobs, failures = [], []
    for session, survey in choices:
        try:
            plan = make_plan(session, survey.sessions, whole_owner=whole_owner)
            jobs.append(StopJob(session, plan, survey.sessions))
        except AgentctlError as error:
            failures.append((session, error))
    return jobs, failures


def make_plan(session: Session, among: Iterable[Session], *, whole_owner: bool = False) -> StopPlan:
    """Return the adapter's plan for this session. `among`: every live session. `whole_owner`: its
    process may end with all that it runs. Raises Refused; Unreachable if the process is not known."""
    owner = session.observation.owner
    if session.verdict.status == "unknown":
        raise _unknown_owner(session)
    if owner is None:
        return StopPlan()  # the session has ended
    _check_user(owner)
    plan = load(session.observation.adapter).stop_plan(session.observation)
    others = sessions_sharing_owner(session, among)
    # --owner may end a server. A supervisor would only start its process again.
    is_server = (
        bool(others)
        or session.observation.facts.entry_point == "daemon"
        or session.observation.session_id is None
    )
    if plan.refusal and not (is_server and whole_owner):
        hint = f"; {_owner_hint(owner, others)}" if is_server else ""
        raise Refused(plan.refusal, plan.instead + hint)
    if not whole_owner:
        _check_shared(session, owner, others)
    return plan._replace(signals=plan.signals or StopPlan().signals)


def sessions_sharing_owner(session: Session, among: Iterable[Session]) -> list[Session]:
    """Return other sessions of the same process, without those that this session spawned."""
    owner, own = session.observation.owner, {session.observation.session_id}
    if owner is None:
        return []
    sharing = [
        s
        for s in among
        if s.observation.owner is not None and s.observation.owner.identity == owner.identity
    ]
    size = 0
    while size != len(own):  # also those that the spawned ones spawned
        size = len(own)
        own |= {
            s.observation.session_id for s in sharing if s.observation.facts.parent_id in own - {None}
        }
    return [s for s in sharing if s.observation.session_id not in own]


def signal_steps(plan: StopPlan, *, force: bool, timeout: float | None) -> list[tuple[Signals, float]]:
    """Return each signal and how long it may take. A timeout cuts the plan short, or gives the rest of
    the time to its last signal."""
    if force:
        return [(SIGKILL, KILL_WAIT)]
    steps = list(plan.signals)
    if timeout is not None:
        remaining, steps = timeout, []
        for index, (number, planned) in enumerate(plan.signals):
            seconds = remaining if index == len(plan.signals) - 1 else min(planned, remaining)
            steps.append((number, seconds))
            remaining -= seconds
    return [*steps, (SIGKILL, KILL_WAIT)]


def make_family(
    session: Session, plan: StopPlan, among: Iterable[Session] = (), *, force: bool = False
) -> ProcessFamily:
    """Return what finds the processes of the session. Without an owner, only the launch id finds them:
    no other marker is certain then."""
    return ProcessFamily(
        session.observation.owner,
        session.launch.id if session.launch is not None else None,
        plan.markers,
        pid_markers=plan.pid_markers,
        among=among,
        confine=os.environ.get("AGENTCTL_CONFINE", ""),
        force=force,
    )


def preview_job(job: StopJob, *, force: bool, timeout: float | None) -> StopPreview:
    owner = job.session.observation.owner
    relatives = make_family(job.session, job.plan, job.among, force=force).find_relatives(
        proc.read_table()
    )
    steps = signal_steps(job.plan, force=force, timeout=timeout) if owner is not None else []
    return StopPreview(
        owner.pid if owner is not None else None,
        [f"{number.name} ({seconds:g} s)" for number, seconds in steps],
        [{"pid": process.pid, "command": command_line(process)} for process in relatives.members],
        [process._asdict() for process in relatives.spared],
    )


def _check_user(owner: Process) -> None:
    try:
        uid = owner.uid
    except Gone:
        return  # the process has ended: there is nothing to refuse
    if uid != os.geteuid():
        raise Refused(
            f"pid {owner.pid} is another user's process (uid {uid})",
            f"only that user may stop it: sudo -u '#{uid}' agentctl stop pid:{owner.pid}",
        )


def _check_shared(session: Session, owner: Process, others: list[Session]) -> None:
    if not others and session.observation.facts.entry_point != "daemon":
        return
    ids = join_some([s.observation.session_id or "?" for s in others], NAMED)
    what = f"also runs {ids}" if others else "is a server, not this session's alone"
    raise Refused(
        f"pid {owner.pid} {what}",
        f"end the session by {session.observation.adapter}'s own means; {_owner_hint(owner, others)}",
    )


def _owner_hint(owner: Process, others: list[Session]) -> str:
    return f"--owner ends pid {owner.pid}" + (" and all that it runs" if others else "")


def _unknown_owner(session: Session) -> Unreachable:
    candidates = [f"pid:{process.pid}" for process in session.observation.candidates]
    hint = (
        f"if you know which it is: agentctl stop {' or '.join(candidates)}"
        if candidates
        else f"see the evidence: agentctl why {session.observation.session_id or 'ID'}"
    )
    return Unreachable(f"cannot tell which process runs it: {session.verdict.reason}", hint)
