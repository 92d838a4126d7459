"""Ask all adapters for their sessions and judge each one; report what could not be read.

Each adapter is fenced: if it raises, hangs or returns nonsense, that becomes a `Problem`, and its live
processes are still listed. Adapters run one after the other in one worker thread, because threads that
compete for the interpreter lock double the cost. If an adapter takes longer than `PATIENCE`, another
worker goes on with the rest, until each adapter has had its deadline.
"""

from __future__ import annotations

import _thread
import time

from agentctl.errors import Gone, SourceError
from agentctl.light_typing import Callable, Iterable, Mapping, NamedTuple, Protocol, Sequence
from agentctl.system import proc
from agentctl.system.proc import Process, ProcessIdentity
from agentctl.system.program import is_runtime
from agentctl.truth.bind import find_forks
from agentctl.truth.judge import judge
from agentctl.truth.look import Look
from agentctl.truth.model import Evidence, Facts, Launch, Observation, Problem, Session
from agentctl.truth.validate import validate_observation

DEADLINE = 2.0  # seconds an adapter may take
PATIENCE = 0.1  # seconds before the other adapters stop waiting for one
PATIENCE_FOR_ALL = 0.5  # the same if all ended sessions are read, which may be thousands
SUSPENDED = "T"  # the state of a process that a signal has stopped; `t` is one that a debugger has
# Kinds of problems that hide no session. A whole source may be malformed, too: then the look also has
# `has_unread_source`.
HARMLESS = frozenset({"drift", "malformed", "stale"})


class HistoryQuery(NamedTuple):
    """Which ended sessions to return, besides the live ones."""

    since: float = 0.0  # last written at or after this time
    id_prefix: str = ""


class SurveyAdapter(Protocol):
    """The part of an adapter that a survey uses."""

    comms: frozenset[str]

    def owns(self, process: Process) -> bool: ...
    def live(self, look: Look) -> Iterable[Observation]: ...
    def history(self, look: Look, query: HistoryQuery) -> Iterable[Observation]: ...


class AdapterEntry(NamedTuple):
    """An adapter by name, imported only if there is something for it to read."""

    name: str
    comms: frozenset[str] | None  # names that its processes may have; None: only the adapter knows
    load: Callable[[], SurveyAdapter]
    # returns whether its files show a live process of another name, without importing the adapter
    has_traces: Callable[[Look], bool] | None = None
    # returns the names that its processes may have, by third-party code; called behind the fence
    read_names: Callable[[], frozenset[str]] | None = None


class Survey(NamedTuple):
    sessions: list[Session]
    problems: list[Problem]
    durations: Mapping[str, float] = {}  # seconds, by adapter that finished in time


class _AdapterRun:
    """One adapter's part of a survey."""

    def __init__(
        self,
        entry: AdapterEntry,
        look: Look,
        candidates: list[Process] | None,
        launched: Sequence[Process] = (),
    ) -> None:
        self.entry = entry
        self.launched = launched  # by us, as this agent, under any name
        self.look = look.scope_to(entry.name)
        self.candidates = candidates  # None: not looked for yet
        self.unclear: list[Process] = []  # may be the adapter's own: it could not decide
        self.ending_identities: set[ProcessIdentity] = set()  # began to end during the run
        self.ending: list[Process] = []  # of these, the ones that still exist
        self.judged: list[Session] = []
        self.done = _thread.allocate_lock()
        self.done.acquire()
        self.started_at = self.ended_at = 0.0

    def work(self, query: HistoryQuery | None) -> None:
        """Collect the adapter's sessions, and release `done`. Every error becomes a Problem."""
        self.started_at = time.monotonic()
        try:
            if not self._is_needed(query):
                return
            adapter = self.entry.load()
            self.look.comms, self.look.owns = adapter.comms, adapter.owns
            while not self._observe(adapter, query):
                pass
        except SourceError as error:
            self.look.report_unreadable(error)
        except BaseException as error:  # noqa: BLE001 - the fence: an adapter's fault ends here
            self.look.report_broken(error)
        finally:
            self.ended_at = time.monotonic()
            self.done.release()

    def _is_needed(self, query: HistoryQuery | None) -> bool:
        """Return False if no process can be this agent's, before its adapter is imported."""
        entry, look = self.entry, self.look
        if entry.read_names is None or query is not None or self.launched:
            return True
        self.candidates = look.find_candidates(entry.read_names())
        return bool(self.candidates) or (entry.has_traces is not None and entry.has_traces(look))

    def _observe(self, adapter: SurveyAdapter, query: HistoryQuery | None) -> bool:
        """Collect all sessions. Return False if a process began to end meanwhile: the adapter failed on
        it, or read only part of it, so the result is useless. Ask again, without that process."""
        self.look.own_processes, self.look.exclusions, self.judged = (), {}, []
        self.unclear = list(self.ending)
        try:
            self._find_own(adapter)
            if self.look.own_processes:
                self._collect(adapter.live(self.look))
            self.look.unbound_processes = self._find_unbound()
            if query is not None:
                self._collect(adapter.history(self.look, query))
        except Gone as error:
            address = error.source.partition("/")[0]
            suspects = (*self.look.own_processes, *self.unclear)
            suspect = next((p for p in suspects if p.identity.address == address), None)
            if suspect is None or not self._is_ending(suspect):
                raise
            return False
        has_stopped = any(each.verdict.status == "stopped" for each in self.judged)
        return not has_stopped or not any(map(self._is_ending, self.look.own_processes))

    def _is_ending(self, process: Process) -> bool:
        """Return whether the process has ended or is being taken down, and record that."""
        now = proc.find_process(process.identity)
        if now is not None and now.is_alive and not now.is_ending:
            return False
        self.ending_identities.add(process.identity)
        self.ending = [other for other in self.ending if other.identity != process.identity]
        if now is not None and now.is_alive:
            self.ending.append(now)  # as it is now: the earlier Process does not show that it ends
        return True

    def _find_unbound(self) -> tuple[Process, ...]:
        """Return the live processes that are neither bound to a session nor candidates for one: each may
        run a session that looks ended. So may the unclear ones."""
        sessions = [each.observation for each in self.judged if each.observation.session_id]
        excluded = {o.owner.pid for o in sessions if o.owner is not None}
        excluded.update(p.pid for o in sessions for p in o.candidates)
        excluded.update(self.look.exclusions)
        return tuple(p for p in (*self.look.own_processes, *self.unclear) if p.pid not in excluded)

    def _find_own(self, adapter: SurveyAdapter) -> None:
        """Set the look's own processes. An error about one process does not hide the others."""
        if self.candidates is None:
            self.candidates = self.look.find_candidates(adapter.comms)
        for process in self.candidates:
            if process.identity in self.ending_identities:
                continue
            try:
                current = None if proc.is_ending_now(process) else _read_after_exec(process)
                if current is None:
                    # The name of a runtime does not say which program ran: do not suspect every node.
                    self.unclear += [process] if not is_runtime(process.comm) else []
                elif adapter.owns(current):
                    _ = current.cwd  # read now: the process may be gone at the next access
                    self.look.own_processes += (current,)
            except Gone:  # the directory is empty before the kernel has finished with the process
                now = proc.find_process(process.identity)
                self.unclear += [now] if now is not None and now.is_alive else []
            except SourceError as error:
                self.unclear.append(process)
                self.look.report_unreadable(error)
            except BaseException as error:  # noqa: BLE001 - the fence
                self.unclear.append(process)
                self.look.report_broken(error)
        self._add_recognized(adapter)
        forks = find_forks(self.look.own_processes)
        self.look.own_processes = tuple(p for p in self.look.own_processes if p.pid not in forks)
        if self.launched:
            from agentctl.truth.launches import find_unrecognised

            launched = [p for p in self.launched if p.identity not in self.ending_identities]
            self.look.own_processes += tuple(find_unrecognised(launched, self.look))

    def _add_recognized(self, adapter: SurveyAdapter) -> None:
        """Add processes of other names that the adapter recognizes by its own files."""
        recognize = getattr(adapter, "recognize", None)
        own = {process.pid for process in self.look.own_processes}
        for process in recognize(self.look) if recognize is not None else ():
            if process.pid not in own and process.identity not in self.ending_identities:
                own.add(process.pid)
                self.look.own_processes += (process,)
                self.unclear = [other for other in self.unclear if other.pid != process.pid]

    def _collect(self, observations: Iterable[Observation]) -> None:
        """Validate and judge each observation. Of two with one session id the first counts."""
        look, judged = self.look, self.judged
        session_ids = {each.observation.session_id for each in judged} - {None}
        for unchecked in observations:
            observation = _add_suspension(validate_observation(unchecked, look))
            session_id = observation.session_id
            if session_id in session_ids:
                continue
            judged.append(Session(observation, judge(observation.evidence)))
            if session_id is not None:
                session_ids.add(session_id)

    @property
    def is_complete(self) -> bool:
        """Whether the adapter could read all of its sources."""
        return not self.look.has_unread_source and {each.kind for each in self.look.problems} <= HARMLESS

    def list_results(self) -> list[Session]:
        """Return what the adapter found, and every own live process without a session."""
        judged = list(self.judged)
        owners = (each.observation.owner for each in judged)
        covered = {owner.pid for owner in owners if owner is not None} | set(self.look.exclusions)
        for process in self.look.own_processes:
            if process.pid not in covered:
                observation = _add_suspension(observe_process(self.look, process))
                judged.append(Session(observation, judge(observation.evidence)))
        return judged


def survey(
    look: Look,
    adapters: Sequence[AdapterEntry],
    query: HistoryQuery | None = None,
    *,
    deadline: float = DEADLINE,
    notes: Sequence[Launch] = (),
) -> Survey:
    """Return every live session, and with `query` the ended ones too."""
    look.notes = {note.identity: note for note in notes}
    runs = _plan_runs(look, adapters, query)
    _run_all(runs, query)
    problems = list(look.problems)
    sessions: list[Session] = []
    is_complete: dict[str, bool] = {}  # by adapter: whether it could read all of its sources
    for run in runs:
        name, now = run.entry.name, time.monotonic()
        remaining = max(0.0, (run.started_at or now) + deadline - now)
        if not run.done.acquire(timeout=remaining):
            late = f"no answer within {deadline:g} s; its live processes are listed without activity"
            problems.append(Problem(name, "late", late, name))
            is_complete[name] = False
        sessions.extend(run.list_results())
        problems.extend(run.look.problems)
        is_complete.setdefault(name, run.is_complete)
    took = {run.entry.name: run.ended_at - run.started_at for run in runs if run.ended_at}
    if not notes:
        return Survey(sessions, problems, took)
    from agentctl.truth.labels import Labels  # only for users who launch

    labels = Labels(notes)
    sessions = [labels.label_session(each) for each in sessions]
    if query is not None:
        sessions.extend(list(labels.find_sessions_without_file(sessions, query, is_complete)))
    return Survey(sessions, problems, took)


def _plan_runs(
    look: Look, adapters: Sequence[AdapterEntry], query: HistoryQuery | None
) -> list[_AdapterRun]:
    """Return a run for each adapter that has anything to read."""
    runs = []
    launched: Mapping[str, Sequence[Process]] = {}
    if look.has_launches:
        from agentctl.truth.launches import find_launched

        launched = find_launched(look)
    for entry in adapters:
        candidates = look.find_candidates(entry.comms) if entry.comms is not None else None
        own = launched.get(entry.name, ())
        is_needed = candidates or candidates is None or query is not None or own
        if is_needed or (entry.has_traces is not None and entry.has_traces(look)):
            runs.append(_AdapterRun(entry, look, candidates, own))
    return runs


def _read_after_exec(process: Process) -> Process | None:
    """Return the process with its arguments. None in the middle of an exec: the process has its new
    binary, but no arguments yet, for a moment."""
    if process.argv or process.exe is None:
        return process
    now = proc.find_process(process.identity)
    return now if now is not None and (now.argv or now.layout) else None


def _add_suspension(observation: Observation) -> Observation:
    """Add the evidence that a signal has stopped the owner, if so."""
    owner = observation.owner
    if owner is None or owner.state != SUSPENDED:
        return observation
    note = "state T: stopped by a signal, as by Ctrl-Z"
    suspended = Evidence("suspended", f"{owner.identity.address}/stat", "kernel", note=note)
    return observation._replace(evidence=(*observation.evidence, suspended))


def observe_process(look: Look, process: Process) -> Observation:
    """Return a live agent process that no session is known for."""
    started = look.find_start_time(process)
    alive = Evidence("alive", process.identity.address, "kernel", at=started, note=process.comm)
    facts = Facts(cwd=process.cwd, started_at=started)
    return Observation(look.adapter, None, (alive,), facts, process)


def _run_all(runs: Sequence[_AdapterRun], query: HistoryQuery | None) -> None:
    """Run each in turn. If one takes longer than our patience, another worker takes the rest."""
    queue = list(runs)

    def worker() -> None:
        while True:
            try:
                run = queue.pop(0)
            except IndexError:  # another worker took the last one
                return
            run.work(query)

    patience = PATIENCE if query is None or query.id_prefix else PATIENCE_FOR_ALL
    has_worker = False
    for run in runs:
        if not has_worker:
            _thread.start_new_thread(worker, ())
        has_worker = run.done.acquire(timeout=patience)
        if has_worker:
            run.done.release()
