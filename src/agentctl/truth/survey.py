"""The one function that answers everyone: every session, judged, with what could not be read.

Each adapter works behind a fence: it may raise, hang or return rubbish, and becomes a `Problem`
while its live processes are still listed. Adapters run one after the other in one worker thread,
because threads that fight for the interpreter lock double the cost; one that takes longer than
`PATIENCE` is left working and the rest go on beside it, until each has had its deadline.
"""

from __future__ import annotations

import _thread
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol

from agentctl.errors import Gone, SourceError
from agentctl.truth import procfs
from agentctl.truth.bind import twins
from agentctl.truth.judge import judge
from agentctl.truth.look import Look
from agentctl.truth.model import (
    Evidence,
    Facts,
    Launch,
    Observation,
    Problem,
    Session,
    Verdict,
)
from agentctl.truth.procfs import Process
from agentctl.truth.sound import sound

DEADLINE = 2.0  # seconds an adapter may take
PATIENCE = 0.1  # seconds before the others stop waiting for it
PATIENCE_FOR_ALL = 0.5  # the same when all ended sessions are wanted: to read thousands is not to hang
# Names that tell nothing of who ran: to suspect each that ends would be to suspect strangers.
RUNTIMES = frozenset({"node", "MainThread", "bun"})


class Wanted(NamedTuple):
    """Which ended sessions to look for, besides the living."""

    since: float = 0.0  # last touched at or after this moment
    id_prefix: str = ""


class Surveyed(Protocol):
    """The part of an adapter that a survey uses."""

    comms: frozenset[str]

    def owns(self, process: Process) -> bool: ...
    def live(self, look: Look) -> Iterable[Observation]: ...
    def history(self, look: Look, wanted: Wanted) -> Iterable[Observation]: ...


class Registered(NamedTuple):
    """An adapter by name, loaded only when there is something for it to look at."""

    name: str
    comms: frozenset[str] | None  # names its processes may have; None: only the adapter knows
    load: Callable[[], Surveyed]


class Survey(NamedTuple):
    sessions: list[Session]
    problems: list[Problem]
    took: Mapping[str, float] = {}  # seconds, by adapter that was looked at, and was in time


class _Run:
    """One adapter's work, and how far it has come."""

    def __init__(self, registered: Registered, look: Look, candidates: list[Process] | None) -> None:
        self.registered = registered
        self.look = look.scoped(registered.name)
        self.candidates = candidates  # None: not looked for yet
        self.unclear: list[Process] = []  # may be the adapter's own: it failed to tell
        self.leaving: list[Process] = []  # were the adapter's own, and began to end while it looked
        self.judged: list[tuple[Observation, Verdict]] = []
        self.done = _thread.allocate_lock()
        self.done.acquire()
        self.started = self.ended = 0.0

    def work(self, wanted: Wanted | None) -> None:
        self.started = time.monotonic()
        try:
            adapter = self.registered.load()
            self.look.comms = adapter.comms
            while not self._looked(adapter, wanted):
                pass
        except SourceError as error:
            self.look.unreadable(error)
        except BaseException as error:  # noqa: BLE001 - the fence: an adapter's fault ends here
            self._broken(error)
        finally:
            self.ended = time.monotonic()
            self.done.release()

    def _looked(self, adapter: Surveyed, wanted: Wanted | None) -> bool:
        """False: a process went away meanwhile, and its adapter fell over it. What is left of the others
        is half an answer: they are looked at anew, without it."""
        self.look.owned, self.look.aside, self.judged = (), {}, []
        self.unclear = list(self.leaving)
        try:
            self._claim(adapter)
            if self.look.owned:
                self._collect(adapter.live(self.look))
            self.look.loose = self._loose()
            if wanted is not None:
                self._collect(adapter.history(self.look, wanted))
        except Gone as error:
            if not self._leaves(error.source.partition("/")[0]):
                raise
            return False
        return True

    def _leaves(self, address: str) -> bool:
        process = next((p for p in self.look.owned if p.identity.address == address), None)
        now = procfs.current(process.identity) if process is not None else None
        if process is None or (now is not None and now.alive and not now.ending):
            return False
        self.candidates = [other for other in self.candidates or () if other is not process]
        self.leaving += [now] if now is not None and now.alive else []  # as one that ends, not as it was
        return True

    def _loose(self) -> tuple[Process, ...]:
        """Live processes that are neither bound to a session nor candidates for one: each may run
        what we take for ended. So may those of which we could not even tell whose they are."""
        found = [observation for observation, _ in self.judged if observation.session_id]
        spoken_for = {o.owner.pid for o in found if o.owner is not None}
        spoken_for.update(p.pid for o in found for p in o.candidates)
        spoken_for.update(self.look.aside)
        return tuple(p for p in (*self.look.owned, *self.unclear) if p.pid not in spoken_for)

    def _claim(self, adapter: Surveyed) -> None:
        """One by one: a process that `owns` chokes on hides none of the others."""
        if self.candidates is None:
            self.candidates = self.look.candidates(adapter.comms)
        for process in self.candidates:
            try:
                if _ends(process):
                    self.unclear += [process] if process.comm not in RUNTIMES else []
                elif adapter.owns(process):
                    _ = process.cwd  # described now; when it is asked again the process may be gone
                    self.look.owned += (process,)
            except Gone:
                continue
            except SourceError as error:
                self.unclear.append(process)
                self.look.unreadable(error)
            except BaseException as error:  # noqa: BLE001 - the fence
                self.unclear.append(process)
                self._broken(error)
        doubles = twins(self.look.owned)
        self.look.owned = tuple(p for p in self.look.owned if p.pid not in doubles)

    def _collect(self, found: Iterable[Observation]) -> None:
        look, judged = self.look, self.judged
        seen = {o.session_id for o, _ in judged if o.session_id is not None}
        for given in found:
            observation = sound(given, look)
            session_id = observation.session_id
            if session_id in seen:
                continue
            judged.append((observation, judge(observation.evidence)))
            if session_id is not None:
                seen.add(session_id)

    def _broken(self, error: BaseException) -> None:
        self.look.problem("broken", f"{type(error).__name__}: {error}", self.registered.name)

    def results(self) -> list[tuple[Observation, Verdict]]:
        """What the adapter found, and every live process of its own that it said nothing of."""
        found = list(self.judged)
        covered = {o.owner.pid for o, _ in found if o.owner is not None} | set(self.look.aside)
        bare = [bare_process(self.look, p) for p in self.look.owned if p.pid not in covered]
        return found + [(seen, judge(seen.evidence)) for seen in bare]


def survey(
    look: Look,
    adapters: Sequence[Registered],
    wanted: Wanted | None = None,
    *,
    deadline: float = DEADLINE,
    notes: Sequence[Launch] = (),
) -> Survey:
    """Every live session; with `wanted`, the ended ones too."""
    look.notes = {note.identity: note for note in notes}
    runs = []
    for registered in adapters:
        comms = registered.comms
        candidates = look.candidates(comms) if comms is not None else None
        if candidates or candidates is None or wanted is not None:
            runs.append(_Run(registered, look, candidates))
    _work_through(runs, wanted)
    problems = list(look.problems)
    judged: list[tuple[Observation, Verdict]] = []
    for run in runs:
        now = time.monotonic()
        left = max(0.0, (run.started or now) + deadline - now)
        if not run.done.acquire(timeout=left):
            late = f"no answer within {deadline:g} s; its live processes are listed without activity"
            problems.append(Problem(run.registered.name, "late", late, run.registered.name))
        judged.extend(run.results())
        problems.extend(run.look.problems)
    took = {run.registered.name: run.ended - run.started for run in runs if run.ended}
    if not notes:
        return Survey([Session(seen, verdict) for seen, verdict in judged], problems, took)
    from agentctl.truth.labels import Labels  # for those who launch

    labels = Labels(notes)
    return Survey([labels.session(*each) for each in judged], problems, took)


def _ends(process: Process) -> bool:
    """Whether the kernel is taking it down: nobody can tell any more whose it was. It may have begun to
    end since the table was read; then it is without its executable."""
    if process.ending or process.exe is not None:
        return process.ending
    now = procfs.current(process.identity)
    return now is not None and now.ending


def bare_process(look: Look, process: Process) -> Observation:
    """A live agent process with no session we can name: shown as what it is."""
    started = look.started_at(process)
    alive = Evidence("alive", process.identity.address, "kernel", at=started, note=process.comm)
    facts = Facts(cwd=process.cwd, started_at=started)
    return Observation(look.adapter, None, (alive,), facts, process)


def _work_through(runs: Sequence[_Run], wanted: Wanted | None) -> None:
    """Run each in turn; whenever one exceeds our patience, another worker takes the rest."""
    queue = list(runs)

    def worker() -> None:
        while True:
            try:
                run = queue.pop(0)
            except IndexError:  # another worker took the last one
                return
            run.work(wanted)

    patience = PATIENCE if wanted is None or wanted.id_prefix else PATIENCE_FOR_ALL
    quick = False
    for run in runs:
        if not quick:
            _thread.start_new_thread(worker, ())
        quick = run.done.acquire(timeout=patience)
        if quick:
            run.done.release()
