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
from agentctl.system import proc
from agentctl.system.identity import ProcessIdentity
from agentctl.system.proc import Process
from agentctl.system.program import is_runtime
from agentctl.truth.bind import twins
from agentctl.truth.judge import judge
from agentctl.truth.look import Look
from agentctl.truth.model import Evidence, Facts, Launch, Observation, Problem, Session, Verdict
from agentctl.truth.validate import sound

DEADLINE = 2.0  # seconds an adapter may take
PATIENCE = 0.1  # seconds before the others stop waiting for it
PATIENCE_FOR_ALL = 0.5  # the same when all ended sessions are wanted: to read thousands is not to hang
SUSPENDED = "T"  # the state of a process that a signal has stopped; `t` is a debugger's business
# Kinds of problems that hide no session. A whole source that makes no sense is malformed, too, but then
# the look says `unread`.
HARMLESS = frozenset({"drift", "malformed", "stale"})


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
    # whether its files show a live process of another name, as far as that can be told without loading
    leaves_traces: Callable[[Look], bool] | None = None


class Survey(NamedTuple):
    sessions: list[Session]
    problems: list[Problem]
    took: Mapping[str, float] = {}  # seconds, by adapter that was looked at, and was in time


class _Run:
    """One adapter's work, and how far it has come."""

    def __init__(
        self,
        registered: Registered,
        look: Look,
        candidates: list[Process] | None,
        started: Sequence[Process] = (),
    ) -> None:
        self.registered = registered
        self.started_by_us = started  # as this agent, under whatever name
        self.look = look.scoped(registered.name)
        self.candidates = candidates  # None: not looked for yet
        self.unclear: list[Process] = []  # may be the adapter's own: it failed to tell
        self.left: set[ProcessIdentity] = set()  # went away while the adapter looked at them
        self.leaving: list[Process] = []  # were the adapter's own, and began to end while it looked
        self.judged: list[tuple[Observation, Verdict]] = []
        self.done = _thread.allocate_lock()
        self.done.acquire()
        self.started = self.ended = 0.0

    def work(self, wanted: Wanted | None) -> None:
        self.started = time.monotonic()
        try:
            adapter = self.registered.load()
            self.look.comms, self.look.owns = adapter.comms, adapter.owns
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
        """False: a process began to end meanwhile. The adapter failed on it, or took what was left of it
        for the whole, so its answer is worth nothing: ask again, without that process."""
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
            address = error.source.partition("/")[0]
            suspects = (*self.look.owned, *self.unclear)
            suspect = next((p for p in suspects if p.identity.address == address), None)
            if suspect is None or not self._leaves(suspect):
                raise
            return False
        ended = any(verdict.status == "stopped" for _, verdict in self.judged)
        return not ended or not any(map(self._leaves, self.look.owned))

    def _leaves(self, process: Process) -> bool:
        now = proc.current(process.identity)
        if now is not None and now.alive and not now.ending:
            return False
        self.left.add(process.identity)
        self.leaving = [other for other in self.leaving if other.identity != process.identity]
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
            if process.identity in self.left:
                continue
            try:
                if proc.is_ending(process):
                    # the name of a runtime tells nothing of who ran: each that ends would be suspected
                    self.unclear += [process] if not is_runtime(process.comm) else []
                elif (settled := _after_exec(process)) is None:
                    self.unclear += [process] if not is_runtime(process.comm) else []
                elif adapter.owns(settled):
                    _ = settled.cwd  # described now; when it is asked again the process may be gone
                    self.look.owned += (settled,)
            except Gone:  # its directory is empty before the kernel is done with it
                now = proc.current(process.identity)
                self.unclear += [now] if now is not None and now.alive else []
            except SourceError as error:
                self.unclear.append(process)
                self.look.unreadable(error)
            except BaseException as error:  # noqa: BLE001 - the fence
                self.unclear.append(process)
                self._broken(error)
        self._recognise(adapter)
        doubles = twins(self.look.owned)
        self.look.owned = tuple(p for p in self.look.owned if p.pid not in doubles)
        if self.started_by_us:
            from agentctl.truth.launched import unrecognised

            ours = [process for process in self.started_by_us if process.identity not in self.left]
            self.look.owned += tuple(unrecognised(ours, self.look))

    def _recognise(self, adapter: Surveyed) -> None:
        """Processes of other names that the adapter's own files name."""
        recognised = getattr(adapter, "recognised", None)
        known = {process.pid for process in self.look.owned}
        for process in recognised(self.look) if recognised is not None else ():
            if process.pid not in known and process.identity not in self.left:
                known.add(process.pid)
                self.look.owned += (process,)
                self.unclear = [other for other in self.unclear if other.pid != process.pid]

    def _collect(self, found: Iterable[Observation]) -> None:
        look, judged = self.look, self.judged
        seen = {o.session_id for o, _ in judged if o.session_id is not None}
        for given in found:
            observation = _with_state(sound(given, look))
            session_id = observation.session_id
            if session_id in seen:
                continue
            judged.append((observation, judge(observation.evidence)))
            if session_id is not None:
                seen.add(session_id)

    def _broken(self, error: BaseException) -> None:
        self.look.problem("broken", f"{type(error).__name__}: {error}", self.registered.name)

    @property
    def complete(self) -> bool:
        """Whether it could read all that it had to."""
        return not self.look.unread and {each.kind for each in self.look.problems} <= HARMLESS

    def results(self) -> list[tuple[Observation, Verdict]]:
        """What the adapter found, and every live process of its own that it said nothing of."""
        found = list(self.judged)
        covered = {o.owner.pid for o, _ in found if o.owner is not None} | set(self.look.aside)
        bare = [_with_state(bare_process(self.look, p)) for p in self.look.owned if p.pid not in covered]
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
    ours: Mapping[str, Sequence[Process]] = {}
    if look.launching:
        from agentctl.truth.launched import started

        ours = started(look)
    for registered in adapters:
        comms, mine = registered.comms, ours.get(registered.name, ())
        candidates = look.candidates(comms) if comms is not None else None
        wants_look = candidates or candidates is None or wanted is not None or mine
        if wants_look or (registered.leaves_traces is not None and registered.leaves_traces(look)):
            runs.append(_Run(registered, look, candidates, mine))
    _work_through(runs, wanted)
    problems = list(look.problems)
    judged: list[tuple[Observation, Verdict]] = []
    whole: dict[str, bool] = {}  # by adapter that was asked: whether it could read all of its files
    for run in runs:
        now = time.monotonic()
        left = max(0.0, (run.started or now) + deadline - now)
        if not run.done.acquire(timeout=left):
            late = f"no answer within {deadline:g} s; its live processes are listed without activity"
            problems.append(Problem(run.registered.name, "late", late, run.registered.name))
            whole[run.registered.name] = False
        judged.extend(run.results())
        problems.extend(run.look.problems)
        whole.setdefault(run.registered.name, run.complete)
    took = {run.registered.name: run.ended - run.started for run in runs if run.ended}
    if not notes:
        return Survey([Session(seen, verdict) for seen, verdict in judged], problems, took)
    from agentctl.truth.labels import Labels  # for those who launch

    labels = Labels(notes)
    sessions = [labels.session(*each) for each in judged]
    if wanted is not None:
        sessions.extend(list(labels.left_no_file(sessions, wanted, whole)))
    return Survey(sessions, problems, took)


def _after_exec(process: Process) -> Process | None:
    """The process with its arguments; None while it is in the middle of an exec: it has its new binary,
    and no arguments yet. What it is about to be is known a moment later."""
    if process.argv or process.exe is None:
        return process
    now = proc.current(process.identity)
    return now if now is not None and (now.argv or now.layout) else None


def _with_state(observation: Observation) -> Observation:
    """The kernel's word that its process does nothing until somebody continues it."""
    owner = observation.owner
    if owner is None or owner.state != SUSPENDED:
        return observation
    note = "state T: stopped by a signal, as by Ctrl-Z"
    more = Evidence("suspended", f"{owner.identity.address}/stat", "kernel", note=note)
    return observation._replace(evidence=(*observation.evidence, more))


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
