"""`agentctl stop`: stop sessions, and show the proof."""

from __future__ import annotations

from agentctl.cli import answer
from agentctl.cli.answer import Results, select_sessions
from agentctl.cli.quick_words import COMMON, QuickWords
from agentctl.durations import parse_duration
from agentctl.json_text import encode
from agentctl.light_typing import TYPE_CHECKING, Any, Iterable, Mapping
from agentctl.sessions import query
from agentctl.text import clean_line, cut
from agentctl.truth.model import Session
from agentctl.truth.survey import HistoryQuery
from agentctl.view import rows
from agentctl.view.session import format_outcome
from agentctl.wire import session as shapes
from agentctl.wire.session import wire_session, wire_sessions

if TYPE_CHECKING:
    from argparse import Namespace

    from agentctl.cli.parser import Parser
    from agentctl.stop.plan import StopJob

EXAMPLES = """\
  agentctl stop 4f2a                its process, then those it left behind
  agentctl stop 4f2a 77c0 --force   SIGKILL at once
  agentctl stop --group matrix-3    all sessions of a group, side by side
  agentctl stop 4f2a --dry-run      show the signals, send none
  agentctl stop pid:4711            a process that has no session yet"""

WIDEST = 400  # columns of a line: some commands are whole programs
FORCE = "  --force stops processes at a terminal in use, too"

QUICK = QuickWords(
    {**COMMON, "group": None, "force": False, "timeout": None, "owner": False, "dry_run": False},
    {"--force": "force", "--dry-run": "dry_run", "--owner": "owner", "--json": "json"},
    ids="some",
)


def parser() -> Parser:
    from agentctl.cli.parser import SessionsParser, add_common

    parser = SessionsParser(
        "stop",
        "Stop sessions: first the agent's own process, by the signals it understands, then every "
        "process that it leaves behind. Show how many ended and which survive. A session that has ended "
        "already is no error.",
        EXAMPLES,
    )
    parser.add_argument(
        "--force",
        action="store_true",
        help="send SIGKILL at once, also to processes at a terminal that the user uses",
    )
    parser.add_argument(
        "--timeout",
        type=parse_duration,
        metavar="TIME",
        help="how long an agent may take before SIGKILL",
    )
    parser.add_argument(
        "--owner",
        action="store_true",
        help="stop a server's process, with every other session that it runs",
    )
    parser.add_argument("--dry-run", action="store_true", help="only show what would be done")
    add_common(parser)
    return parser


def run(arguments: Namespace) -> int:
    from agentctl.stop import plan

    answers = Results()
    choices = plan.resolve_unknown(select_sessions(arguments, answers), arguments.deadline)
    jobs, failures = plan.plan_stops(choices, whole_owner=arguments.owner)
    for session, error in failures:
        if len(choices) == 1 and not answers.code:
            raise error
        answers.report_failure(rows.session_name(session), error)
    if arguments.dry_run:
        return _print_previews(arguments, jobs, answers)
    from agentctl.process import detach
    from agentctl.stop.stop import shield_if_inside

    def work() -> int:
        return _stop(arguments, jobs, answers)

    return detach.run_detached(work) if shield_if_inside(jobs) else work()


def _stop(arguments: Namespace, jobs: list[StopJob], answers: Results) -> int:
    from agentctl.stop.stop import run_jobs

    report = _Report(answers, arguments.deadline, as_json=arguments.json)
    remaining = [rows.session_name(job.session) for job in jobs]
    try:
        for job in run_jobs(jobs, force=arguments.force, timeout=arguments.timeout):
            report.add(job)
            remaining.remove(rows.session_name(job.session))
    except KeyboardInterrupt:
        message = f"not proven to have ended; agentctl stop --force {' '.join(remaining)}"
        raise KeyboardInterrupt(message) from None
    report.end()
    return answers.code


class _Report:
    """Print a line of proof for each session, or one envelope for all."""

    def __init__(self, answers: Results, deadline: float | None, *, as_json: bool) -> None:
        self._answers = answers
        self._deadline = deadline
        self._as_json = as_json
        self._sessions: list[Session] = []
        self._results: list[dict[str, Any]] = []

    def add(self, job: StopJob) -> None:
        if job.error is not None:
            self._answers.report_failure(rows.session_name(job.session), job.error)
        if job.result is None:
            return
        now = self._look_again(job)
        if job.result.survivors or (now is not None and now.observation.owner is not None):
            self._answers.code = max(self._answers.code, 1)
        if now is not None:
            self._sessions.append(now)
        from agentctl.stop.stop import wire_result

        self._results.append(wire_result(job.result))
        if not self._as_json:
            print("\n".join(result_lines(job, now)), flush=True)

    def end(self) -> None:
        if self._as_json:
            envelope = shapes.dump_sessions(wire_sessions(self._sessions), self._answers.problems)
            print(encode({**envelope, "stopped": self._results}, indent=1))
        else:
            answer.show_problems(self._answers.problems)

    def _look_again(self, job: StopJob) -> Session | None:
        """Return the session as a new survey shows it."""
        session_id = job.session.observation.session_id
        if session_id is None:
            return None
        survey = query.survey_sessions(
            HistoryQuery(id_prefix=session_id), (job.session.observation.adapter,), self._deadline
        )
        self._answers.add_problems(survey.problems)
        return next((s for s in survey.sessions if s.observation.session_id == session_id), None)


def result_lines(job: StopJob, now: Session | None) -> list[str]:
    assert job.result is not None
    result, name = job.result, rows.session_name(job.session)
    how = format_outcome(wire_session(now)) if now is not None else "its process is gone"
    survivors = f"{len(result.survivors)} survivor{'' if len(result.survivors) == 1 else 's'}"
    count = f"{result.ended} ended, {survivors}"
    took, by = f"{result.seconds:.1f} s", " then ".join(result.signals) or "itself"
    if now is not None and now.observation.owner is not None:
        line = f"{name} goes on under pid {now.observation.owner.pid} ({how}): {count}, {took}"
    elif result.already:
        others = f"; left behind: {count}, {took}" if result.ended or result.survivors else ""
        line = f"{name} had stopped already ({how}){others}"
    else:
        line = f"{name} stopped ({how}): {count}, {took}, by {by}"
    return [
        line,
        *_remaining_lines("survives", (process._asdict() for process in result.survivors)),
        *_remaining_lines("lives on", (process._asdict() for process in result.spared)),
    ]


def _remaining_lines(what: str, processes: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return a line for each process that remains, and a hint if a terminal is why."""
    every = list(processes)
    lines = [cut(clean_line(f"  pid {each['pid']} {what}: {each['why']}"), WIDEST) for each in every]
    return [*lines, FORCE] if any(each["terminal"] is not None for each in every) else lines


def _print_previews(arguments: Namespace, jobs: list[StopJob], answers: Results) -> int:
    from agentctl.stop.plan import preview_job

    planned = [(job, preview_job(job, force=arguments.force, timeout=arguments.timeout)) for job in jobs]
    if arguments.json:
        envelope = shapes.dump_sessions([wire_session(job.session) for job in jobs], answers.problems)
        previews = [
            {"id": job.session.observation.session_id, **preview._asdict()} for job, preview in planned
        ]
        print(encode({**envelope, "planned": previews}, indent=1))
        return answers.code
    for job, preview in planned:
        name = rows.session_name(job.session)
        if preview.pid is None:
            print(f"{name} has stopped already ({format_outcome(wire_session(job.session))})")
        else:
            print(f"{name} would get {', '.join(preview.signals)} as pid {preview.pid}")
        for process in preview.processes:
            print(clean_line(f"  and then its pid {process['pid']}: {process['command']}"))
        for line in _remaining_lines("would live on", preview.spared):
            print(line)
    answer.show_problems(answers.problems)
    return answers.code
