"""Waits until sessions are in a state. Woken by the end of a process or a change of a file, and by a
clock only where a file cannot be watched, or when a wait that was too young to be believed is old
enough: the watch is set up, then we look, then we sleep, so that nothing is missed in between. When the
time is over we look once more."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal

from agentctl.errors import Gone, SourceError
from agentctl.launch import exit_record
from agentctl.sessions import query
from agentctl.system import proc
from agentctl.system.identity import ProcessIdentity
from agentctl.system.pidfd import Handle
from agentctl.system.waiter import Watch
from agentctl.truth.labels import labelled
from agentctl.truth.model import Problem, Session
from agentctl.truth.observe import settles_at
from agentctl.truth.survey import Wanted
from agentctl.watch import vanished, watched_files
from agentctl.watch.schedule import AGAIN, REST, SOON
from agentctl.watch.sources import unwatched

Awaited = Literal["stopped", "idle", "waiting", "settled", "known"]
# One that has stopped will never be idle or ask again: that ends every wait.
REACHED: dict[Awaited, frozenset[str]] = {
    "stopped": frozenset({"stopped"}),
    "idle": frozenset({"idle", "stopped"}),
    "waiting": frozenset({"waiting", "stopped"}),
    "settled": frozenset({"idle", "waiting", "stopped"}),
    "known": frozenset({"running", "idle", "waiting", "stopped"}),
}
# Seconds that a doubt may last, counted anew when a process ends. One that is ending has removed its
# record and lost its arguments, and is alive all the same: nobody can tell then what it runs.
DOUBT = 2.0


class Subject:
    """One session that is waited for, as it was when we last looked."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.doubted: float | None = None  # since when no look could tell
        self.hopeless = False  # nor will the next
        self._ran: ProcessIdentity | None = None  # its owner, when one was last known
        self.processes()

    @property
    def adapter(self) -> str:
        return self.session.seen.adapter

    @property
    def session_id(self) -> str | None:
        return self.session.seen.session_id

    @property
    def owner(self) -> ProcessIdentity | None:
        return self.session.seen.owner.identity if self.session.seen.owner is not None else None

    def found(self, sessions: Iterable[Session]) -> Session | None:
        """Its row. A process that had no session may have one by now; one whose files could not be
        read has none for the moment, which says nothing."""
        own = [s for s in sessions if s.seen.adapter == self.adapter]
        by_owner = [s for s in own if s.seen.owner and s.seen.owner.identity == self.owner]
        if self.session_id is None:
            return by_owner[0] if by_owner else None
        named = [s for s in own if s.seen.session_id == self.session_id]
        if not named and any(s.seen.session_id is None for s in by_owner):
            return self.session
        return named[0] if named else None

    def processes(self) -> set[ProcessIdentity]:
        """Those whose end may end it."""
        self._ran = self.owner or self._ran
        possible = (
            {process.identity for process in self.session.seen.candidates}
            if self.doubted is not None
            else set()
        )
        return possible | ({self._ran} if self._ran is not None else set())

    def told(self, now: float) -> None:
        """Its session is what a look of this moment has found."""
        unclear = self.session.verdict.status == "unknown"
        self.hopeless = self.doubted is not None and unclear and now >= self.doubted + DOUBT
        self.doubted = (self.doubted if self.doubted is not None else now) if unclear else None


class Vigil:
    """Use as a context manager."""

    def __init__(
        self, sessions: Sequence[Session], awaited: Awaited, deadline: float | None = None
    ) -> None:
        self.pending = [Subject(session) for session in sessions]
        self.problems: list[Problem] = []
        self._reached = REACHED[awaited]
        self._deadline = deadline  # for one look, not for the wait
        self._handles: dict[ProcessIdentity, Handle] = {}
        self._gone: set[ProcessIdentity] = set()  # had ended before we could watch them
        self._heard: set[ProcessIdentity] = set()  # have ended while we rested
        self._watch = Watch()

    def __enter__(self) -> Vigil:
        return self

    def __exit__(self, *_: object) -> None:
        for handle in self._handles.values():
            handle.close()
        self._watch.close()

    def keep(self, timeout: float | None = None) -> Iterator[Session]:
        """Each when it has reached the state, or when nobody can tell. Those that have not when the
        time is over stay in `pending`."""
        end = None if timeout is None else time.monotonic() + timeout
        woken = False
        while self.pending:
            began = time.monotonic()
            yield from self._look()
            missed = len(self._gone)
            news = self._set_up()
            left = _left(end)
            if left == 0.0:  # said by the clock: one that writes all the time is never quiet
                return
            if any(subject.doubted is not None for subject in self.pending):
                if len(self._gone) != missed or self._rest(self._until_hopeless(), end):
                    self._doubt_anew()
                continue  # that deserves a second look
            if news:
                continue  # it may have changed before we watched
            took = time.monotonic() - began
            if not self.pending:
                return
            settling = self._until_settled()
            rest = _least(settling, AGAIN) if woken else settling
            woken = self._watch.wait(left if rest is None else _least(left, rest))
            if woken:
                self._rest(REST * took, end)

    def _look(self) -> list[Session]:
        adapters = tuple({subject.adapter for subject in self.pending})
        found = query.everything(None, adapters, self._deadline)
        self.problems = found.problems
        for subject in self.pending:
            subject.session = subject.found(found.sessions) or self._without_owner(subject)
            subject.told(time.monotonic())
        done = [s for s in self.pending if s.session.verdict.status in self._reached or s.hopeless]
        self.pending = [s for s in self.pending if s not in done]
        return [self._complete(subject) for subject in done]

    def _without_owner(self, subject: Subject) -> Session:
        """No live process runs it now, as far as we see."""
        if subject.session_id is not None:
            found = query.everything(
                Wanted(id_prefix=subject.session_id), (subject.adapter,), self._deadline
            )
            session = subject.found(found.sessions)
            if session is not None:
                return session
        # absent is not dead: without the kernel's word it is as it was
        owner = subject.owner
        if owner is None:
            return subject.session
        handle = self._handles.get(owner)
        ended = handle.wait(0) if handle is not None else proc.current(owner) is None
        return vanished.gone(subject.session, owner, handle) if ended else subject.session

    def _complete(self, subject: Subject) -> Session:
        """With the exit code, where we are the ones to know it. That it has stopped is established: who
        looks again may doubt it because of some other process that is just ending."""
        session = subject.session
        launch, verdict = session.launch, session.verdict
        if verdict.status != "stopped" or launch is None or launch.ended is not None:
            return session
        try:
            return labelled(session.seen, verdict, exit_record.recorded(launch))
        except SourceError as error:  # then it is not known
            self.problems = [*self.problems, Problem("", error.kind, error.why, error.source)]
            return session

    def _set_up(self) -> bool:
        """Watch what matters now. Whether there is anything new to watch."""
        owners = {identity for subject in self.pending for identity in subject.processes()}
        for identity in self._handles.keys() - owners:
            self._drop(identity)
        news = [self._open(identity) for identity in owners - self._handles.keys()]
        for subject in self.pending:
            for path in dict.fromkeys(watched_files.files_of(subject.session)):
                news.append(self._watch.add_file(path))
                if (error := self._watch.unwatched.get(path)) is not None:
                    self._note(unwatched(subject.adapter, error))
        return any(news)

    def _note(self, problem: Problem) -> None:
        if problem not in self.problems:
            self.problems.append(problem)

    def _open(self, identity: ProcessIdentity) -> bool:
        if identity in self._gone:
            return False
        try:
            handle = Handle(identity)
        except Gone:
            self._gone.add(identity)
            return True  # it ended since we looked: look again
        self._handles[identity] = handle
        self._watch.add_process(handle)
        return True

    def _drop(self, identity: ProcessIdentity) -> None:
        handle = self._handles.pop(identity)
        self._watch.drop_process(handle)
        handle.close()

    def _until_hopeless(self) -> float:
        since = min(s.doubted for s in self.pending if s.doubted is not None)
        return max(0.0, since + DOUBT - time.monotonic())

    def _until_settled(self) -> float | None:
        """Seconds until a wait that was too young to be believed is not; None: there is none."""
        moments = (settles_at(subject.session.seen) for subject in self.pending)
        first = min((moment for moment in moments if moment is not None), default=None)
        return None if first is None else max(0.0, first - time.time()) + SOON

    def _doubt_anew(self) -> None:
        now = time.monotonic()
        for subject in self.pending:
            subject.doubted = now if subject.doubted is not None else None

    def _rest(self, seconds: float, end: float | None) -> bool:
        """Whether a process has ended. Each is heard of once: its handle would tell it for ever."""
        living = {i: handle for i, handle in self._handles.items() if i not in self._heard}
        with Watch((), living.values()) as ends:
            woken = ends.wait(_least(_left(end), seconds))
        self._heard |= {identity for identity, handle in living.items() if handle.wait(0)}
        return woken


def without_doubt(sessions: Sequence[Session], deadline: float | None = None) -> list[Session]:
    """The same, each as it is once a look can tell; where a moment does not help, as it was."""
    doubted = [session for session in sessions if session.verdict.status == "unknown"]
    if not doubted:
        return list(sessions)
    with Vigil(doubted, "known", deadline) as vigil:
        told = {(each.seen.adapter, each.seen.session_id): each for each in vigil.keep()}
    return [
        told.get((each.seen.adapter, each.seen.session_id), each) if each in doubted else each
        for each in sessions
    ]


def _least(left: float | None, seconds: float) -> float:
    return seconds if left is None else min(left, seconds)


def _left(end: float | None) -> float | None:
    return None if end is None else max(0.0, end - time.monotonic())
