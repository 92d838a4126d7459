"""Wait until sessions are in a state.

The end of a process or a change of a file causes the next look. The clock does so only where a file
cannot be watched, where a young wait becomes old enough to believe, and when the time is over. What is
watched for the first time is looked at once more, so no change is missed in between.
"""

from __future__ import annotations

import time

from agentctl.errors import SourceError
from agentctl.launch import exit_record
from agentctl.light_typing import Iterable, Iterator, Literal, Sequence
from agentctl.sessions import query
from agentctl.system import proc
from agentctl.system.proc import ProcessIdentity
from agentctl.truth.labels import add_label
from agentctl.truth.model import Problem, Session
from agentctl.truth.observe import find_settle_time
from agentctl.truth.survey import HistoryQuery
from agentctl.watch import absence, watched_files
from agentctl.watch.schedule import DOUBT, NEVER, SOON, Schedule
from agentctl.watch.sources import Sources

WaitState = Literal["stopped", "idle", "waiting", "settled", "known"]
# A stopped session can never be idle or ask again: stopped ends every wait.
REACHED: dict[WaitState, frozenset[str]] = {
    "stopped": frozenset({"stopped"}),
    "idle": frozenset({"idle", "stopped"}),
    "waiting": frozenset({"waiting", "stopped"}),
    "settled": frozenset({"idle", "waiting", "stopped"}),
    "known": frozenset({"running", "idle", "waiting", "stopped"}),
}
LONGEST = 3600.0  # seconds of one wait: epoll has a limit


class Subject:
    """One session that is waited for, as of the last look."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.doubted_at: float | None = None  # since when its status is unknown
        self.is_hopeless = False  # its status stays unknown
        self._last_owner = self.owner

    @property
    def adapter(self) -> str:
        return self.session.observation.adapter

    @property
    def session_id(self) -> str | None:
        return self.session.observation.session_id

    @property
    def owner(self) -> ProcessIdentity | None:
        owner = self.session.observation.owner
        return owner.identity if owner is not None else None

    def find_row(self, sessions: Iterable[Session]) -> Session | None:
        """Return the session as a survey lists it. A process that had no session may have one now. A
        process that shows no session for the moment proves nothing about the session that it had."""
        own = [s for s in sessions if s.observation.adapter == self.adapter]
        by_owner = [s for s in own if s.observation.owner and s.observation.owner.identity == self.owner]
        if self.session_id is None:
            return by_owner[0] if by_owner else None
        by_id = [s for s in own if s.observation.session_id == self.session_id]
        if not by_id and any(s.observation.session_id is None for s in by_owner):
            return self.session
        return by_id[0] if by_id else None

    def list_processes(self) -> set[ProcessIdentity]:
        """Return the processes whose end may end the session."""
        processes = {self._last_owner} if self._last_owner is not None else set()
        if self.doubted_at is not None:
            processes |= {process.identity for process in self.session.observation.candidates}
        return processes

    def update(self, session: Session, now: float) -> None:
        """Take the session as a look of this moment shows it."""
        self.session = session
        self._last_owner = self.owner or self._last_owner
        if session.verdict.status != "unknown":
            self.doubted_at = None
        elif self.doubted_at is None:
            self.doubted_at = now
        self.is_hopeless = self.doubted_at is not None and now >= self.doubted_at + DOUBT


class SessionWait:
    """Use as a context manager."""

    def __init__(
        self, sessions: Sequence[Session], awaited: WaitState, deadline: float | None = None
    ) -> None:
        self.pending = [Subject(session) for session in sessions]
        self.problems: list[Problem] = []
        self._adapters = {subject.adapter for subject in self.pending}
        self._reached = REACHED[awaited]
        self._deadline = deadline  # seconds for one look, not for the wait
        self._sources = Sources(new_names=False)
        self._schedule = Schedule()

    def __enter__(self) -> SessionWait:
        return self

    def __exit__(self, *_: object) -> None:
        self._sources.close()

    def iterate(self, timeout: float | None = None) -> Iterator[Session]:
        """Yield each session when it reaches the state, or when its status stays unknown. The others are
        in `pending` when the time is over."""
        end = NEVER if timeout is None else time.monotonic() + timeout
        while self.pending:
            began = time.monotonic()
            self._schedule.begin_look()
            yield from self._look()
            is_fresh = self._watch()
            now = time.monotonic()
            if now >= end:  # by the clock: a session that writes all the time is never quiet
                return
            is_unwatched = any(self._sources.problems.values())
            self._schedule.end_look(
                began, now, fresh=is_fresh, doubtful=False, nameless=False, unwatched=is_unwatched
            )
            if self.pending:
                self._sleep(end)

    def _look(self) -> list[Session]:
        """Return the sessions that are no longer pending."""
        adapters = tuple({subject.adapter for subject in self.pending})
        survey = query.survey_sessions(None, adapters, self._deadline)
        self.problems = survey.problems
        for subject in self.pending:
            session = subject.find_row(survey.sessions) or self._find_without_owner(subject)
            subject.update(session, time.monotonic())
        ready = [s for s in self.pending if s.session.verdict.status in self._reached or s.is_hopeless]
        self.pending = [subject for subject in self.pending if subject not in ready]
        return [self._add_exit_code(subject.session) for subject in ready]

    def _find_without_owner(self, subject: Subject) -> Session:
        """Return a session that no live process seems to run now."""
        if subject.session_id is not None:
            survey = query.survey_sessions(
                HistoryQuery(id_prefix=subject.session_id), (subject.adapter,), self._deadline
            )
            session = subject.find_row(survey.sessions)
            if session is not None:
                return session
        # absent is not dead: unless the kernel says so, the session is as it was
        owner = subject.owner
        if owner is None:
            return subject.session
        handle = self._sources.handle(owner)
        has_ended = handle.wait(0) if handle is not None else proc.find_process(owner) is None
        return absence.ended_session(subject.session, owner, handle) if has_ended else subject.session

    def _add_exit_code(self, session: Session) -> Session:
        """Add the exit code of a launch that stopped. There is no new look: it might be in doubt because
        of another process that is just ending."""
        launch, verdict = session.launch, session.verdict
        if verdict.status != "stopped" or launch is None or launch.exit is not None:
            return session
        try:
            return add_label(session.observation, verdict, exit_record.await_exit(launch))
        except SourceError as error:  # the exit code stays unknown
            self.problems = [*self.problems, Problem("", error.kind, error.why, error.source)]
            return session

    def _watch(self) -> bool:
        """Watch the processes and files of pending sessions. Return True if one of them is new: it may
        have changed before it was watched."""
        before = self._sources.ended_processes
        is_fresh = any([self._watch_adapter(adapter) for adapter in self._adapters])  # noqa: C419 - all
        if self._sources.ended_processes - before:
            self._doubt_again()
        return is_fresh

    def _watch_adapter(self, adapter: str) -> bool:
        subjects = [subject for subject in self.pending if subject.adapter == adapter]
        paths = [path for each in subjects for path in watched_files.session_files(each.session)]
        processes = {identity for each in subjects for identity in each.list_processes()}
        is_fresh = self._sources.attend(adapter, paths, processes)
        problems = self._sources.problems[adapter]
        self.problems = [*self.problems, *(p for p in problems if p not in self.problems)]
        return is_fresh

    def _sleep(self, end: float) -> None:
        """Return when the next look is due, or at the end."""
        doubts = [s.doubted_at + DOUBT for s in self.pending if s.doubted_at is not None]
        end = min(end, self._settled_at(), *doubts)
        while (seconds := min(end, self._schedule.due) - time.monotonic()) > 0:
            wakeup = self._sources.wait(min(seconds, LONGEST))
            if wakeup.ended_processes:
                self._schedule.require_look(time.monotonic())
                self._doubt_again()
            if wakeup.changed:
                self._schedule.change_file(time.monotonic(), logged=bool(wakeup.logged))

    def _settled_at(self) -> float:
        """Return when a wait that is too young to believe is old enough; NEVER: there is none."""
        moments = [find_settle_time(subject.session.observation) for subject in self.pending]
        first = min((moment for moment in moments if moment is not None), default=NEVER)
        return time.monotonic() + max(0.0, first - time.time()) + SOON

    def _doubt_again(self) -> None:
        """A process has ended: what is unknown may become clear within the same time again."""
        for subject in self.pending:
            subject.doubted_at = time.monotonic() if subject.doubted_at is not None else None


def resolve_unknown(sessions: Sequence[Session], deadline: float | None = None) -> list[Session]:
    """Return the sessions, the unknown ones as a look within DOUBT seconds shows them."""
    unknown = [session for session in sessions if session.verdict.status == "unknown"]
    if not unknown:
        return list(sessions)
    with SessionWait(unknown, "known", deadline) as wait:
        resolved = {_key(session): session for session in wait.iterate()}
    return [resolved.get(_key(each), each) if each in unknown else each for each in sessions]


def _key(session: Session) -> tuple[str, str | None]:
    return session.observation.adapter, session.observation.session_id
