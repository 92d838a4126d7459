"""Watch every session of this machine and report events as sessions change.

The end of a process or a change of a file causes a look; new processes are polled (see `new_processes`).
The cause decides nothing: every event comes from a survey of that moment.

Some changes are reported a moment later than they are seen, and never guessed: see `story.hold_seconds`.
"""

from __future__ import annotations

import os
import time

from agentctl import paths
from agentctl.adapters.registry import find_adapters, first_files, load
from agentctl.errors import SourceError
from agentctl.light_typing import TYPE_CHECKING, Callable, Iterable, Mapping
from agentctl.sessions import query
from agentctl.state import launches
from agentctl.system import proc
from agentctl.system.inotify import POLL_INTERVAL
from agentctl.system.proc import Process, ProcessIdentity
from agentctl.system.program import may_be_named
from agentctl.truth.event import Event
from agentctl.truth.model import Problem, Session
from agentctl.truth.processes import read_binary_name
from agentctl.truth.survey import HistoryQuery, Survey
from agentctl.watch import absence, watched_files
from agentctl.watch.new_processes import NewProcesses
from agentctl.watch.schedule import AGAIN, DOUBT, NEVER, Schedule
from agentctl.watch.screens import PERIOD, Screens
from agentctl.watch.sources import NOTHING, Sources, Wakeup, Writes
from agentctl.watch.story import Key, Story, gap, hold_seconds, key_of

if TYPE_CHECKING:
    from agentctl.truth.look import Environ
    from agentctl.truth.memory import Memory

BEAT = 0.2  # seconds between two polls for new processes: 30 bytes each
# Seconds between two looks at everything, for what gives no sign: a process that becomes an agent long
# after its start, for example.
FULL_LOOK = 60.0
DATABASE = ""  # the watcher of our own database: no adapter has this name
LOST = "the kernel dropped changes: more came than it keeps"
AWAY = "no daemon was running"


class Observer:
    """Belongs to one thread; only `stop` and `watch_problems` are for others."""

    def __init__(
        self,
        story: Story,
        report: Callable[[list[Event]], None],
        environ: Environ | None = None,
        memory: Memory | None = None,
    ) -> None:
        self.problems: list[Problem] = []
        self.looks = 0
        self._story, self._report = story, report
        self._environ, self._memory = environ if environ is not None else os.environ, memory
        self._sources = Sources()
        self._new_processes = NewProcesses()
        self._screens = Screens()
        self._names = [adapter.name for adapter in find_adapters()]
        self._comms = {name: _comms_of(name) for name in self._names}
        self._schedules = {name: Schedule() for name in self._names}
        self._last: dict[Key, Session] = {}  # as last seen alive
        self._doubted: dict[Key, float] = {}  # since when a change is held back
        self._asked_at = 0.0  # when the last survey began: its answers may be as old
        self._launching: bool | None = None  # see `_is_launching`; None: not asked since that survey
        self._is_stopped = False
        self._began = 0.0  # the first look, by the time of day
        self._full_look_due = 0.0
        self._screens_due = 0.0
        self._database: list[str] = []
        self._database_due = NEVER
        self._database_changed: Callable[[], None] = lambda: None
        self._due = 0.0  # the first of all these

    def stop(self) -> None:
        self._is_stopped = True
        self._sources.wake()

    def close(self) -> None:
        self._sources.close()
        self._new_processes.close()

    def watch_database(self, path: str, changed: Callable[[], None]) -> None:
        """Call `changed` whenever our own database has changed, and once more a moment later: a write to
        the WAL counts only when the index of the WAL has it, and that causes no change of a file."""
        self._database_changed = changed
        self._database = [path, f"{path}-wal"]
        self._attend_database()

    def _attend_database(self) -> None:
        self._sources.attend(DATABASE, self._database, ())
        if self._sources.problems[DATABASE]:  # not watched: look by the clock, and try again then
            self._database_due = time.monotonic() + POLL_INTERVAL

    @property
    def watch_problems(self) -> list[Problem]:
        """What cannot be watched, and is looked at by the clock. From any thread."""
        return [each for problems in list(self._sources.problems.values()) for each in list(problems)]

    def begin(self, away: float | None = None, *, silent: bool = False) -> None:
        """Take the first look. `away`: when the observer before us ended; sessions that ended since are
        reported too."""
        self._began = now = time.time()
        history = HistoryQuery(since=away) if away is not None else None
        if away is not None and not silent:
            self._report([gap(min(away, now), now, AWAY)])
        for name in self._names:
            events = self._look(name, history)
            if not silent:
                self._report(events)
        self._story.is_begun = True
        self._full_look_due = time.monotonic() + FULL_LOOK
        self._plan()

    def run(self) -> None:
        """Return when stopped."""
        while not self._is_stopped:
            self.step()

    def step(self, most: float = BEAT) -> None:
        """Wait for the next change, at most that many seconds, and report it."""
        wakeup = self._sources.wait(min(most, self._due - time.monotonic()))
        processes = self._new_processes.read()
        if wakeup is not NOTHING or processes:  # mostly not
            self._schedule_looks(wakeup, processes)
        if (now := time.monotonic()) >= self._due:
            self._run_due(now)

    def _plan(self) -> None:
        dues = (schedule.due for schedule in self._schedules.values())
        self._due = min(self._full_look_due, self._screens_due, self._database_due, *dues)

    def _run_due(self, now: float) -> None:
        if now >= self._database_due:
            self._database_due = NEVER
            if self._sources.problems.get(DATABASE):
                self._attend_database()
            self._database_changed()
        if now >= self._full_look_due:
            self._full_look_due = now + FULL_LOOK
            for schedule in self._schedules.values():
                schedule.require_look(now)
        if now >= self._screens_due:
            self._screens_due = now + PERIOD
            for name in self._screens.find_changed(self._last.values()):
                self._schedules[name].require_look(now)
        for name, schedule in self._schedules.items():
            for _ in range(2):  # twice: what is newly watched may have changed before
                if schedule.due <= now and not self._is_stopped:
                    self._report(self._look(name))
                    now = time.monotonic()
        self._plan()

    def notice_launch(self, adapter: str, session_id: str | None) -> None:
        """Look at a new launch: it may begin and end between two looks."""
        if adapter not in self._schedules:
            return
        self._schedules[adapter].require_look(time.monotonic())
        if session_id is not None and (adapter, session_id) not in self._story.reports:
            self._report(self._resolve((adapter, session_id)))
        self._plan()

    # causes of a look

    def _schedule_looks(self, wakeup: Wakeup, new_processes: list[Process]) -> None:
        now = time.monotonic()
        for name in wakeup.changed - {DATABASE}:
            self._schedules[name].change_file(now, logged=name in wakeup.logged)
        for name in wakeup.changing:
            self._schedules[name].change_record(now)
        if DATABASE in wakeup.changed:
            self._database_changed()
            self._database_due = now + AGAIN
        for key, session in self._last.items() if wakeup.ended_processes else ():
            owner = session.observation.owner
            if owner is not None and owner.identity in wakeup.ended_processes:
                self._schedules[key[0]].require_look(now)
        if wakeup.lost_since is not None:
            self._report([gap(wakeup.lost_since, time.time(), LOST)])
        parents = self._resting_owners() if new_processes else {}
        for process in new_processes:
            if process.parent in parents:  # some agents write nothing when a permission is granted
                self._schedules[parents[process.parent]].start_process(now)
            binary = read_binary_name(process)
            for name, comms in self._comms.items():
                if may_be_named(process.comm, comms) or may_be_named(binary, comms):
                    self._schedules[name].start_process(now)
        self._plan()

    def _resting_owners(self) -> dict[int, str]:
        """Return the adapters of owners that are not known to work, by pid. A child process is the sign
        that such an owner begins to work."""
        last = [s.observation for s in self._last.values() if s.verdict.activity != "working"]
        return {each.owner.pid: each.adapter for each in last if each.owner is not None}

    # looks

    def _look(self, adapter: str, history: HistoryQuery | None = None) -> list[Event]:
        schedule = self._schedules[adapter]
        schedule.begin_look()
        began, moment = time.monotonic(), time.time()
        complete = self._sources.count_complete(adapter)
        ended_session = self._find_ended(adapter)
        survey = self._survey(adapter, history or self._history_of(ended_session))
        self._schedule_looks(self._sources.wait(0), [])  # also changes from before the files were read
        rows = {key_of(session): session for session in survey.sessions}
        events: list[Event] = []
        for key, session in rows.items():
            is_news = (
                history is not None
                or key in self._story.live
                or self._is_leftover(session, ended_session)
            )
            if session.verdict.status != "stopped" or is_news:
                events += self._update_row(key, session, complete, moment)
        events += self._resolve_missing(adapter, rows)
        living = [session for session in rows.values() if session.verdict.status != "stopped"]
        is_fresh = self._attend(adapter, living, ended_session)
        another = self._find_ended(adapter)
        if another is not None and another is not ended_session:  # else its end is reported, or in doubt
            is_fresh |= another.observation.session_id is None
        schedule.end_look(
            began,
            time.monotonic(),
            fresh=is_fresh,
            doubtful=any(key[0] == adapter for key in self._doubted),
            nameless=any(watched_files.needs_polling(s) for s in rows.values()),
            unwatched=bool(self._sources.problems[adapter]),
        )
        self.looks += 1
        return events

    def _update_row(
        self, key: Key, session: Session, complete: Mapping[str, int], moment: float
    ) -> list[Event]:
        """Return the events of a row. `complete`: how often its record was written before the look."""
        record = watched_files.record_file(session)
        if record is None or record not in complete:
            return self._update(key, session)
        events = self._update(key, session, self._sources.writes_since_read(key[0], record))
        if key not in self._doubted:
            self._sources.mark_read(key[0], record, complete[record], moment)
        return events

    def _resolve_missing(self, adapter: str, rows: Mapping[Key, Session]) -> list[Event]:
        """Return the events of sessions that were live and are not in the survey."""
        nameless = {
            session.observation.owner.identity
            for session in rows.values()
            if session.observation.owner and not session.observation.session_id
        }
        events: list[Event] = []
        for key in [key for key in self._story.live if key[0] == adapter and key not in rows]:
            if self._story.reports[key].process not in nameless or self._is_hidden(key):
                events += self._resolve(key)
        for key in [key for key in self._doubted if key[0] == adapter and key not in rows]:
            if key not in self._story.live:
                del self._doubted[key]
        return events

    def _survey(self, adapter: str, history: HistoryQuery | None) -> Survey:
        self._asked_at, self._launching = time.monotonic(), None
        survey = query.survey_sessions(history, (adapter,), environ=self._environ, memory=self._memory)
        self.problems = [p for p in self.problems if p.adapter != adapter] + survey.problems
        return survey

    def _find_ended(self, adapter: str) -> Session | None:
        """Return a session whose process has ended, as it was last seen."""
        for key, session in self._last.items():
            owner = session.observation.owner
            if key[0] == adapter and owner is not None:
                handle = self._sources.handle(owner.identity)
                if handle is not None and handle.wait(0):
                    return session
        return None

    def _history_of(self, ended_session: Session | None) -> HistoryQuery | None:
        """Return the query that includes an ended session, so that one survey shows its end and its
        outcome. A process that showed no session may have recorded one just before its end, as Pi before
        0.99 does."""
        if ended_session is None:
            return None
        if ended_session.observation.session_id is not None:
            return HistoryQuery(id_prefix=ended_session.observation.session_id)
        return HistoryQuery(since=max(self._began, ended_session.observation.facts.started_at or 0.0))

    def _is_ending(
        self, session: Session, owners: set[ProcessIdentity], ended_session: Session | None
    ) -> bool:
        """True for a process without a session whose end is still to be reported. No survey shows the
        process, since it is being taken down or ended during the look."""
        owner = session.observation.owner
        if session is ended_session or session.observation.session_id is not None or owner is None:
            return False
        return owner.identity not in owners and self._sources.handle(owner.identity) is not None

    def _is_leftover(self, session: Session, ended_session: Session | None) -> bool:
        """True if a process that was never reported has left this session behind."""
        if ended_session is None or ended_session.observation.session_id is not None:
            return False
        if not self._story.reports.keys().isdisjoint((key_of(session), key_of(ended_session))):
            return False
        return session.observation.facts.cwd == ended_session.observation.facts.cwd

    def _attend(self, adapter: str, living: list[Session], ended_session: Session | None) -> bool:
        """Watch what may change the sessions of an adapter. Return True if some of it is new."""
        owners = _owners_of(living)
        for key, session in [each for each in self._last.items() if each[0][0] == adapter]:
            if key not in self._story.live and not self._is_ending(session, owners, ended_session):
                del self._last[key]
        self._last.update((key_of(session), session) for session in living)
        own = [session for key, session in self._last.items() if key[0] == adapter]
        paths = first_files(adapter, self._environ)
        for session in own:
            paths += watched_files.status_files(session)
        for session in own:
            paths += watched_files.expected_files(session, self._environ, self.problems)
        records = [record for session in own if (record := watched_files.record_file(session))]
        return self._sources.attend(adapter, paths, _owners_of(own), records)

    # events

    def _update(self, key: Key, session: Session, writes: Writes | None = None) -> list[Event]:
        """Return the events of a session, or none while they are held back."""
        before = self._story.reports.get(key)
        if before is None and self._story.has_named_session(session):
            return []
        is_end = session.verdict.status == "stopped" and session.launch is None
        launching = is_end and self._is_launching()
        seconds = hold_seconds(session, before, begun=self._story.is_begun, launching=launching)
        if seconds and self._asked_at < self._doubted.setdefault(key, time.monotonic()) + seconds:
            return []
        self._doubted.pop(key, None)
        return self._story.update(session, time.time(), writes)

    def _is_launching(self) -> bool:
        """Return True while a launcher is at work that has not recorded the session of its agent yet.
        One answer for each survey, which may have found many ended sessions."""
        if self._launching is None:
            state = paths.state_directory(self._environ)
            try:
                rows = launches.read_launch_rows(paths.database_file(state)) if state else []
            except SourceError:  # the survey reports it
                rows = []
            self._launching = any(row.session_id is None and row.finished_at is None for row in rows)
        return self._launching

    def _is_hidden(self, key: Key) -> bool:
        """True if the process has not shown the session for longer than an agent takes to rewrite its
        record, and that was not reported yet."""
        now, is_news = time.monotonic(), self._story.reports[key].status != "unknown"
        return is_news and now >= self._doubted.setdefault(key, now) + DOUBT

    def _resolve(self, key: Key) -> list[Event]:
        """Return the events of a session that no live process seems to run now. Absent is not dead:
        unless its files or the kernel say so, the session is as it was."""
        adapter, subject = key
        before, last = self._story.reports.get(key), self._last.get(key)
        if not subject.startswith("proc:"):
            sessions = self._survey(adapter, HistoryQuery(id_prefix=subject)).sessions
            session = next((s for s in sessions if s.observation.session_id == subject), None)
            if session is not None:
                return self._update(key, session)
        identity = before.process if before is not None else None
        if identity is None:
            return []
        process = proc.find_process(identity)
        if process is not None and process.is_alive:
            # a process that had no session may run none by design: that is no news
            if subject.startswith("proc:") or last is None or not self._is_hidden(key):
                return []
            return self._update(key, absence.hidden_session(last, identity))
        session = last or absence.lost_session(*key, identity)
        handle = self._sources.handle(identity)
        return self._update(key, absence.ended_session(session, identity, handle))


def _owners_of(sessions: Iterable[Session]) -> set[ProcessIdentity]:
    owners = (session.observation.owner for session in sessions)
    return {owner.identity for owner in owners if owner is not None}


def _comms_of(adapter: str) -> frozenset[str]:
    """Return the possible names of its processes. The adapter of a third party may be broken: then only
    the full look finds its processes."""
    (entry,) = find_adapters([adapter])
    if entry.comms is not None:
        return entry.comms
    try:
        return load(adapter).comms
    except Exception:  # noqa: BLE001 - the fence; the survey reports what is wrong with the adapter
        return frozenset()
