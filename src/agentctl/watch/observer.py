"""Watches every session of this machine and tells what changes, when it changes.

Woken by the end of a process or a change of a file; new processes are asked for by the clock (see
`new_processes`). Whatever woke us, what is told comes from a survey of that moment.

Some things are told a moment later than they are seen, and never guessed meanwhile: see `patience`.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from agentctl.adapters.registry import BUILT_IN, load, registered
from agentctl.adapters.roots import first_signs
from agentctl.sessions import query
from agentctl.system import proc
from agentctl.system.identity import ProcessIdentity
from agentctl.system.inotify import WITHOUT
from agentctl.system.proc import Process
from agentctl.system.program import may_be_named
from agentctl.truth.event import Event
from agentctl.truth.look import binary_name
from agentctl.truth.model import Problem, Session
from agentctl.truth.survey import Survey, Wanted
from agentctl.watch import vanished, watched_files
from agentctl.watch.new_processes import Births
from agentctl.watch.patience import DOUBT, wanted_patience
from agentctl.watch.schedule import AGAIN, NEVER, Rhythm
from agentctl.watch.screens import PERIOD, Screens
from agentctl.watch.sources import NOTHING, Happened, Lookout
from agentctl.watch.story import Key, Story, gap, key_of
from agentctl.watch.writes import Written

if TYPE_CHECKING:
    from agentctl.truth.look import Environ
    from agentctl.truth.warm import Warm

BEAT = 0.2  # seconds between two questions for new processes: 30 bytes each
# Seconds between two looks at everything: for a process that became an agent long after its birth,
# and whatever else gives no sign.
NET = 60.0
OURS = ""  # as no adapter is named
LOST = "the kernel had more changes to tell than it keeps"
AWAY = "nobody watched"


class Observer:
    """Belongs to one thread; only `stop` is called from others."""

    def __init__(
        self,
        story: Story,
        tell: Callable[[list[Event]], None],
        environ: Environ | None = None,
        warm: Warm | None = None,
    ) -> None:
        self.problems: list[Problem] = []
        self.looks = 0
        self._story, self._tell = story, tell
        self._environ, self._warm = environ if environ is not None else os.environ, warm
        self._lookout = Lookout()
        self._births = Births()
        self._screens = Screens()
        self._names = [known.name for known in registered()]
        self._comms = {name: _comms_of(name) for name in self._names}
        self._rhythm = {name: Rhythm() for name in self._names}
        self._last: dict[Key, Session] = {}  # as last seen alive
        self._doubted: dict[Key, float] = {}  # since when its news is not yet told
        self._asked = 0.0  # when the last question began: what it brought may be as old as that
        self._stopped = False
        self._net = 0.0
        self._began = 0.0  # the first look, by the time of day
        self._glance = 0.0  # when to ask for what was drawn on terminals
        self._ours_changed: Callable[[], None] = lambda: None
        self._ours_again = NEVER
        self._ours: list[str] = []
        self._until = 0.0  # the next moment at which anything is due

    def stop(self) -> None:
        self._stopped = True
        self._lookout.wake()

    def close(self) -> None:
        self._lookout.close()
        self._births.close()

    def watch_ours(self, notes: str, changed: Callable[[], None]) -> None:
        """Call that whenever our own database has changed. Once more a moment later: what is written to
        its log counts when the log's index says so, which wakes nobody."""
        self._ours_changed = changed
        self._ours = [notes, f"{notes}-wal"]
        self._attend_ours()

    def _attend_ours(self) -> None:
        self._lookout.attend(OURS, self._ours, ())
        if self._lookout.problems[OURS]:  # nobody will tell: look by the clock, and try to watch it then
            self._ours_again = time.monotonic() + WITHOUT

    @property
    def unwatched(self) -> list[Problem]:
        """What is looked at by the clock, since nobody tells of its changes. From any thread."""
        return [problem for found in list(self._lookout.problems.values()) for problem in list(found)]

    def begin(self, away: float | None = None, *, silent: bool = False) -> None:
        """The first look. Where somebody watched before us, until `away`, with what ended since."""
        self._began = now = time.time()
        wanted = Wanted(since=away) if away is not None else None
        if away is not None and not silent:
            self._tell([gap(min(away, now), now, AWAY)])
        for name in self._names:
            told = self._look(name, wanted)
            if not silent:
                self._tell(told)
        self._story.begun = True
        self._net = time.monotonic() + NET
        self._plan()

    def run(self) -> None:
        """Until stopped."""
        while not self._stopped:
            self.step()

    def step(self, most: float = BEAT) -> None:
        """Wait for what comes next, for no longer than that, and tell of it."""
        happened = self._lookout.wait(min(most, self._until - time.monotonic()))
        born = self._births.new()
        if happened is not NOTHING or born:  # mostly not
            self._heard(happened, born)
        if (now := time.monotonic()) >= self._until:
            self._due(now)

    def _plan(self) -> None:
        dues = (rhythm.due for rhythm in self._rhythm.values())
        self._until = min(self._net, self._glance, self._ours_again, *dues)

    def _due(self, now: float) -> None:
        if now >= self._ours_again:
            self._ours_again = NEVER
            if self._lookout.problems.get(OURS):
                self._attend_ours()
            self._ours_changed()
        if now >= self._net:
            self._net = now + NET
            for rhythm in self._rhythm.values():
                rhythm.now(now)
        if now >= self._glance:
            self._glance = now + PERIOD
            for name in self._screens.changed(self._last.values()):
                self._rhythm[name].now(now)
        for name, rhythm in self._rhythm.items():
            for _ in range(2):  # what is watched from now on may have changed before: at once again
                if rhythm.due <= now and not self._stopped:
                    self._tell(self._look(name))
                    now = time.monotonic()
        self._plan()

    def launched(self, adapter: str, session_id: str | None) -> None:
        """Somebody launched this: it may have come and gone between two of our looks."""
        if adapter not in self._rhythm:
            return
        self._rhythm[adapter].now(time.monotonic())
        if session_id is not None and (adapter, session_id) not in self._story.words:
            self._tell(self._resolved((adapter, session_id)))
        self._plan()

    # what woke us

    def _heard(self, happened: Happened, born: list[Process]) -> None:
        now = time.monotonic()
        for name in happened.changed - {OURS}:
            self._rhythm[name].changed(now, logged=name in happened.logged)
        for name in happened.changing:
            self._rhythm[name].changing(now)
        if OURS in happened.changed:
            self._ours_changed()
            self._ours_again = now + AGAIN
        for key, session in self._last.items() if happened.ended else ():
            owner = session.seen.owner
            if owner is not None and owner.identity in happened.ended:
                self._rhythm[key[0]].now(now)
        if happened.lost is not None:
            self._tell([gap(happened.lost, time.time(), LOST)])
        parents = self._whose_children_tell() if born else {}
        for process in born:
            if process.parent in parents:  # some write nothing when a person has allowed something
                self._rhythm[parents[process.parent]].born(now)
            binary = binary_name(process)
            for name, comms in self._comms.items():
                if may_be_named(process.comm, comms) or may_be_named(binary, comms):
                    self._rhythm[name].born(now)
        self._plan()

    def _whose_children_tell(self) -> dict[int, str]:
        """Processes that begin to work when they start another, with their adapters: those that wait for
        a person, as far as anybody can tell, and those that are idle."""
        last = [s.seen for s in self._last.values() if s.verdict.activity != "working"]
        return {seen.owner.pid: seen.adapter for seen in last if seen.owner is not None}

    # looking

    def _look(self, adapter: str, wanted: Wanted | None = None) -> list[Event]:
        rhythm = self._rhythm[adapter]
        rhythm.begins()
        began, moment, over = time.monotonic(), time.time(), self._lookout.over(adapter)
        ended = self._just_ended(adapter)
        found = self._ask(adapter, wanted or self._wanted_of(ended))
        self._heard(self._lookout.wait(0), [])  # what was written before we had read it, too
        told: list[Event] = []
        rows = {key_of(session): session for session in found.sessions}
        for key, session in rows.items():
            news = wanted is not None or key in self._story.living or self._is_left(session, ended)
            if session.verdict.status != "stopped" or news:
                record = watched_files.record_of(session)
                written = self._lookout.written(adapter, record) if record in over else None
                told += self._told(key, session, written)
                if record in over and key not in self._doubted:
                    self._lookout.was_read(adapter, record, over[record], moment)
        bare = {s.seen.owner.identity for s in rows.values() if s.seen.owner and not s.seen.session_id}
        for key in [k for k in self._story.living if k[0] == adapter and k not in rows]:
            if self._story.words[key].process not in bare or self._hides_on(key):
                told += self._resolved(key)
        for key in [k for k in self._doubted if k[0] == adapter and k not in rows]:
            if key not in self._story.living:
                del self._doubted[key]
        living = [session for session in rows.values() if session.verdict.status != "stopped"]
        fresh = self._attend(adapter, living, ended)
        another = self._just_ended(adapter)
        if another is not None and another is not ended:  # else its end is told, or in doubt
            fresh |= another.seen.session_id is None
        rhythm.ended(
            began,
            time.monotonic(),
            fresh=fresh,
            doubtful=any(key[0] == adapter for key in self._doubted),
            nameless=any(watched_files.gives_no_sign(s) for s in rows.values()),
            unwatched=bool(self._lookout.problems[adapter]),
        )
        self.looks += 1
        return told

    def _ask(self, adapter: str, wanted: Wanted | None) -> Survey:
        modules = () if adapter in BUILT_IN else None  # to look for others' adapters takes 0.7 ms
        self._asked = time.monotonic()
        found = query.everything(
            wanted, (adapter,), environ=self._environ, warm=self._warm, modules=modules
        )
        self.problems = [p for p in self.problems if p.adapter != adapter] + found.problems
        return found

    def _just_ended(self, adapter: str) -> Session | None:
        """One whose process has ended, as it was last seen."""
        for key, session in self._last.items():
            owner = session.seen.owner
            if key[0] == adapter and owner is not None:
                handle = self._lookout.handle(owner.identity)
                if handle is not None and handle.wait(0):
                    return session
        return None

    def _wanted_of(self, ended: Session | None) -> Wanted | None:
        """Its session: then one survey tells both, that it is gone and how it ended. If it showed none,
        it may have written one down just before its end, as Pi before 0.99 does."""
        if ended is None:
            return None
        if ended.seen.session_id is not None:
            return Wanted(id_prefix=ended.seen.session_id)
        return Wanted(since=max(self._began, ended.seen.facts.started_at or 0.0))

    def _may_leave(self, session: Session, owners: set[ProcessIdentity], ended: Session | None) -> bool:
        """Whether it is a process without a session whose end is yet to come, though it shows no more:
        it is being taken down, or has ended while we looked."""
        owner = session.seen.owner
        if session is ended or session.seen.session_id is not None or owner is None:
            return False
        return owner.identity not in owners and self._lookout.handle(owner.identity) is not None

    def _is_left(self, session: Session, ended: Session | None) -> bool:
        """Whether it is what a process that was never told of has left behind."""
        if ended is None or ended.seen.session_id is not None:
            return False
        if not self._story.words.keys().isdisjoint((key_of(session), key_of(ended))):
            return False
        return session.seen.facts.cwd == ended.seen.facts.cwd

    def _attend(self, adapter: str, living: list[Session], ended: Session | None) -> bool:
        owners = {session.seen.owner.identity for session in living if session.seen.owner is not None}
        for key, session in [each for each in self._last.items() if each[0][0] == adapter]:
            if key not in self._story.living and not self._may_leave(session, owners, ended):
                del self._last[key]
        self._last.update((key_of(session), session) for session in living)
        mine = [session for key, session in self._last.items() if key[0] == adapter]
        paths = first_signs(adapter, self._environ)
        paths += [path for session in mine for path in watched_files.deciding(session)]
        paths += [
            path
            for session in mine
            for path in watched_files.foreseen(session, self._environ, self.problems)
        ]
        owners = {s.seen.owner.identity for s in mine if s.seen.owner is not None}
        records = {
            record for session in mine if (record := watched_files.record_of(session)) is not None
        }
        return self._lookout.attend(adapter, paths, owners, records)

    # telling

    def _told(self, key: Key, session: Session, written: Written | None = None) -> list[Event]:
        word = self._story.words.get(key)
        if word is None and self._story.has_a_name(session):
            return []
        patience = wanted_patience(session, word, begun=self._story.begun)
        if patience and self._asked < self._doubted.setdefault(key, time.monotonic()) + patience:
            return []
        self._doubted.pop(key, None)
        return self._story.tell(session, time.time(), written)

    def _hides_on(self, key: Key) -> bool:
        """Its process has not shown it for longer than it writes its record, and that is news."""
        now, news = time.monotonic(), self._story.words[key].status != "unknown"
        return news and now >= self._doubted.setdefault(key, now) + DOUBT

    def _resolved(self, key: Key) -> list[Event]:
        """One that no live process runs now, as far as we see. Absent is not dead: without its files
        and without the kernel's word it is as it was."""
        adapter, subject = key
        word, last = self._story.words.get(key), self._last.get(key)
        if not subject.startswith("proc:"):
            found = self._ask(adapter, Wanted(id_prefix=subject)).sessions
            session = next((s for s in found if s.seen.session_id == subject), None)
            if session is not None:
                return self._told(key, session)
        process = word.process if word is not None else None
        if process is None:
            return []
        now = proc.current(process)
        if now is not None and now.alive:
            # a process without a session may turn out to run none by design: that is no news
            hides = not subject.startswith("proc:") and last is not None and self._hides_on(key)
            return self._told(key, vanished.out_of_sight(last, process)) if last and hides else []
        session = last or vanished.nothing_left(*key, process)
        return self._told(key, vanished.gone(session, process, self._lookout.handle(process)))


def _comms_of(adapter: str) -> frozenset[str]:
    """What its processes may be called. A third party's adapter is asked itself, and may be broken: then
    its processes are found by the slow look alone."""
    (known,) = registered([adapter])
    if known.comms is not None:
        return known.comms
    try:
        return load(adapter).comms
    except Exception:  # noqa: BLE001 - the fence; the survey tells what is wrong with it
        return frozenset()
