"""End sessions, and prove it."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from agentctl.cli import answer
from agentctl.cli.parser import Parser, add_common
from agentctl.cli.several import Answers, Asked, SeveralParser, asked, how_it_ended
from agentctl.durations import seconds
from agentctl.errors import AgentctlError
from agentctl.sessions import query
from agentctl.text import cut, one_line
from agentctl.truth.model import Session
from agentctl.truth.survey import Wanted
from agentctl.view import rows
from agentctl.wire import session as shapes

if TYPE_CHECKING:
    from agentctl.process.kinship import Left
    from agentctl.stop.several import Job

EXAMPLES = """\
  agentctl stop 4f2a                by the signals it knows, then all it left
  agentctl stop 4f2a 77c0 --force   SIGKILL at once
  agentctl stop --group matrix-3    all sessions of a group, side by side
  agentctl stop 4f2a --dry-run      which signals to whom; sends none
  agentctl stop pid:4711            a process that has no session yet"""

WIDEST = 400  # columns: some commands are whole programs
FORCE = "  --force would end what runs at a person's terminal, too"


def parser() -> Parser:
    made = SeveralParser(
        "stop",
        "End sessions: the agent's own process by the signals it understands, then every process that\n"
        "it leaves behind. Tells how many ended and who survived. One that has ended already is fine.",
        EXAMPLES,
    )
    made.add_argument(
        "--force",
        action="store_true",
        help="send SIGKILL at once, also to processes at a terminal that a person uses",
    )
    made.add_argument(
        "--timeout", type=seconds, metavar="TIME", help="how long an agent may take before SIGKILL"
    )
    made.add_argument(
        "--owner",
        action="store_true",
        help="end a server's process although other sessions go with it",
    )
    made.add_argument("--dry-run", action="store_true", help="only tell what would be done")
    add_common(made)
    return made


def run(arguments: argparse.Namespace) -> int:
    from agentctl.process import detach
    from agentctl.stop.several import Job, outlive

    answers = Answers()
    jobs: list[Job] = []
    found = _without_doubt(asked(arguments, answers), arguments.deadline)
    for each in found:
        try:
            jobs.append(Job(each.session, _plan(each, arguments), each.among.sessions))
        except AgentctlError as error:
            if len(found) == 1 and not answers.code:
                raise
            answers.failed(rows.name(each.session), error)
    if arguments.dry_run:
        return _tell_plans(arguments, jobs, answers)

    def work() -> int:
        return _stop(arguments, jobs, answers)

    return detach.run(work) if outlive(jobs) else work()


def _without_doubt(found: list[Asked], deadline: float | None) -> list[Asked]:
    """One that another stop is just ending has lost its record and is alive all the same: for a moment
    nobody can tell whose process it is."""
    if all(each.session.verdict.status != "unknown" for each in found):
        return found
    from agentctl.watch.wait import without_doubt

    told = without_doubt([each.session for each in found], deadline)
    live = query.everything(None, (), deadline)  # who runs what, that has become clear as well
    return [Asked(session, live) for session in told]


def _stop(arguments: argparse.Namespace, jobs: list[Job], answers: Answers) -> int:
    from agentctl.stop.several import all_at_once

    report = _Report(answers, arguments.deadline, as_json=arguments.json)
    left = [rows.name(job.session) for job in jobs]
    try:
        for job in all_at_once(jobs, force=arguments.force, timeout=arguments.timeout):
            report.tell(job)
            left.remove(rows.name(job.session))
    except KeyboardInterrupt:
        told = f"not proven to have ended; agentctl stop --force {' '.join(left)}"
        raise KeyboardInterrupt(told) from None
    report.end()
    return answers.code


def _plan(each: Asked, arguments: argparse.Namespace) -> Any:
    from agentctl.stop import plan as stoppable

    return stoppable.plan(each.session, each.among.sessions, whole_owner=arguments.owner)


class _Report:
    """A line of proof for each, or one envelope for all."""

    def __init__(self, answers: Answers, deadline: float | None, *, as_json: bool) -> None:
        self._answers = answers
        self._deadline = deadline
        self._as_json = as_json
        self._sessions: list[Session] = []
        self._stopped: list[dict[str, Any]] = []

    def tell(self, job: Job) -> None:
        if job.error is not None:
            self._answers.failed(rows.name(job.session), job.error)
        if job.stopped is None:
            return
        now = self._now(job)
        if job.stopped.survivors or (now is not None and now.seen.owner is not None):
            self._answers.code = max(self._answers.code, 1)
        if now is not None:
            self._sessions.append(now)
        from agentctl.stop.stop import shape

        self._stopped.append(shape(job.stopped))
        if not self._as_json:
            print("\n".join(lines(job, now)), flush=True)

    def end(self) -> None:
        if self._as_json:
            envelope = shapes.envelope(self._sessions, self._answers.problems)
            print(json.dumps({**envelope, "stopped": self._stopped}, indent=1))
        else:
            answer.show_problems(self._answers.problems)

    def _now(self, job: Job) -> Session | None:
        """As it is after all that: asked anew, like anyone would."""
        session_id = job.session.seen.session_id
        if session_id is None:
            return None
        found = query.everything(
            Wanted(id_prefix=session_id), (job.session.seen.adapter,), self._deadline
        )
        self._answers.noticed(found.problems)
        return next((s for s in found.sessions if s.seen.session_id == session_id), None)


def lines(job: Job, now: Session | None) -> list[str]:
    assert job.stopped is not None
    stopped, name = job.stopped, rows.name(job.session)
    how = how_it_ended(now) if now is not None else "its process is gone"
    count = f"{stopped.ended} ended, {_many(len(stopped.survivors), 'survivor')}"
    took, by = f"{stopped.seconds:.1f} s", " then ".join(stopped.signals) or "itself"
    if now is not None and now.seen.owner is not None:
        told = f"{name} goes on under pid {now.seen.owner.pid} ({how}): {count}, {took}"
    elif stopped.already:
        left = f"; left behind: {count}, {took}" if stopped.ended or stopped.survivors else ""
        told = f"{name} had stopped already ({how}){left}"
    else:
        told = f"{name} stopped ({how}): {count}, {took}, by {by}"
    return [told, *_left("survives", stopped.survivors), *_left("lives on", stopped.spared)]


def _left(what: str, given: Sequence[Left]) -> list[str]:
    found = [cut(one_line(f"  pid {left.pid} {what}: {left.why}"), WIDEST) for left in given]
    return [*found, FORCE] if any(left.terminal is not None for left in given) else found


def _many(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"


def _tell_plans(arguments: argparse.Namespace, jobs: list[Job], answers: Answers) -> int:
    from agentctl.process.kinship import Left
    from agentctl.stop.several import foreseen

    planned = [(job, foreseen(job, force=arguments.force, timeout=arguments.timeout)) for job in jobs]
    if arguments.json:
        envelope = shapes.envelope([job.session for job in jobs], answers.problems)
        told = [{"id": job.session.seen.session_id, **plan._asdict()} for job, plan in planned]
        print(json.dumps({**envelope, "planned": told}, indent=1))
        return answers.code
    for job, plan in planned:
        if plan.pid is None:
            print(f"{rows.name(job.session)} has stopped already ({how_it_ended(job.session)})")
        else:
            print(f"{rows.name(job.session)} would get {', '.join(plan.signals)} as pid {plan.pid}")
        for process in plan.processes:
            print(one_line(f"  and then its pid {process['pid']}: {process['command']}"))
        for line in _left("would live on", [Left(**each) for each in plan.spared]):
            print(line)
    answer.show_problems(answers.problems)
    return answers.code
