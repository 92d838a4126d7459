"""Watches every session of this machine and tells what changes, when it changes.

Woken by the end of a process or a change of a file; new processes are asked for by the clock (see
`births`). Whatever woke us, what is told comes from a survey of that moment.

Two things are told a moment later than they are seen, and never guessed meanwhile: that nobody can tell
(a process that ends has lost its arguments before it is gone; 30 ms later all is clear), and the end of
a launch whose shim has not yet written down the exit code.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from agentctl import asking
from agentctl.adapters.registry import BUILT_IN, load, registered
from agentctl.control import parting, traces
from agentctl.control.births import Births
from agentctl.control.lookout import NOTHING, Happened, Lookout
from agentctl.control.rhythm import AGAIN, NEVER, Rhythm
from agentctl.control.story import Key, Story, gap, key_of
from agentctl.control.writes import Written
from agentctl.truth import procfs
from agentctl.truth.event import Event
from agentctl.truth.look import may_be_named
from agentctl.truth.model import Problem, Session
from agentctl.truth.procfs import Process
from agentctl.truth.survey import Survey, Wanted

if TYPE_CHECKING:
    from agentctl.truth.look import Environ
    from agentctl.truth.memory import Warm

BEAT = 0.2  # seconds between two questions for new processes: 30 bytes each
# Seconds between two looks at everything: for a process that became an agent long after its birth,
# and whatever else gives no sign.
NET = 60.0
DOUBT = 2.0  # seconds that nobody can tell, before that is told
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
        self._names = [known.name for known in registered()]
        self._comms = {name: _comms_of(name) for name in self._names}
        self._rhythm = {name: Rhythm() for name in self._names}
        self._last: dict[Key, Session] = {}  # as last seen alive
        self._doubted: dict[Key, float] = {}  # since when its news is not yet told
        self._stopped = False
        self._net = 0.0
        self._ours_changed: Callable[[], None] = lambda: None
        self._ours_again = NEVER
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
        self._lookout.attend(OURS, [notes, f"{notes}-wal"], ())

    def begin(self, away: float | None = None, *, silent: bool = False) -> None:
        """The first look. Where somebody watched before us, until `away`, with what ended since."""
        now = time.time()
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
        self._until = min(self._net, self._ours_again, *dues)

    def _due(self, now: float) -> None:
        if now >= self._ours_again:
            self._ours_again = NEVER
            self._ours_changed()
        if now >= self._net:
            self._net = now + NET
            for rhythm in self._rhythm.values():
                rhythm.now(now)
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
        waiting = self._who_waits() if born else {}
        for process in born:
            if process.parent in waiting:  # it may: some write nothing when a person has allowed it
                self._rhythm[waiting[process.parent]].born(now)
            for name, comms in self._comms.items():
                if may_be_named(process.comm, comms):
                    self._rhythm[name].born(now)
        self._plan()

    def _who_waits(self) -> dict[int, str]:
        """Processes that wait for a person, with their adapters."""
        last = [s.seen for s in self._last.values() if s.verdict.status == "waiting"]
        return {seen.owner.pid: seen.adapter for seen in last if seen.owner is not None}

    # looking

    def _look(self, adapter: str, wanted: Wanted | None = None) -> list[Event]:
        rhythm = self._rhythm[adapter]
        rhythm.begins()
        began, moment, over = time.monotonic(), time.time(), self._lookout.over(adapter)
        found = self._ask(adapter, wanted or self._whose_end(adapter))
        self._heard(self._lookout.wait(0), [])  # what was written before we had read it, too
        told: list[Event] = []
        rows = {key_of(session): session for session in found.sessions}
        for key, session in rows.items():
            if session.verdict.status != "stopped" or key in self._story.living or wanted is not None:
                record = traces.record_of(session)
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
        fresh = self._attend(adapter, [s for s in rows.values() if s.verdict.status != "stopped"])
        rhythm.ended(
            began,
            time.monotonic(),
            fresh=fresh,
            doubtful=any(key[0] == adapter for key in self._doubted),
            nameless=any(traces.gives_no_sign(s) for s in rows.values()),
        )
        self.looks += 1
        return told

    def _ask(self, adapter: str, wanted: Wanted | None) -> Survey:
        modules = () if adapter in BUILT_IN else None  # to look for others' adapters takes 0.7 ms
        found = asking.everything(
            wanted, (adapter,), environ=self._environ, warm=self._warm, modules=modules
        )
        self.problems = [p for p in self.problems if p.adapter != adapter] + found.problems
        return found

    def _whose_end(self, adapter: str) -> Wanted | None:
        """The session whose process has just ended: then one survey tells both, that it is gone and how
        it ended."""
        for key, session in self._last.items():
            owner = session.seen.owner
            if key[0] == adapter and owner is not None and session.seen.session_id is not None:
                handle = self._lookout.handle(owner.identity)
                if handle is not None and handle.wait(0):
                    return Wanted(id_prefix=session.seen.session_id)
        return None

    def _attend(self, adapter: str, living: list[Session]) -> bool:
        for key in [key for key in self._last if key[0] == adapter]:
            if key not in self._story.living:
                del self._last[key]
        self._last.update((key_of(session), session) for session in living)
        mine = [session for key, session in self._last.items() if key[0] == adapter]
        paths = [path for session in mine for path in traces.deciding(session)]
        paths += [
            path for session in mine for path in traces.foreseen(session, self._environ, self.problems)
        ]
        owners = {s.seen.owner.identity for s in mine if s.seen.owner is not None}
        records = {record for session in mine if (record := traces.record_of(session)) is not None}
        return self._lookout.attend(adapter, paths, owners, records)

    # telling

    def _told(self, key: Key, session: Session, written: Written | None = None) -> list[Event]:
        now = time.monotonic()
        if self._unclear(key, session):
            since = self._doubted.setdefault(key, now)
            if now < since + DOUBT:
                return []
        self._doubted.pop(key, None)
        return self._story.tell(session, time.time(), written)

    def _unclear(self, key: Key, session: Session) -> bool:
        verdict, word = session.verdict, self._story.words.get(key)
        if word is not None and word.status == verdict.status:
            return False
        if verdict.status == "unknown":
            return word is not None or self._story.begun
        if verdict.status == "running" and verdict.activity == "unknown":
            # an agent that is about to end takes away what says that it is idle
            return word is not None and word.status in ("idle", "waiting")
        return (
            verdict.status == "stopped" and session.launch is not None and session.launch.ended is None
        )

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
        now = procfs.current(process) if process is not None else None
        if process is None or (now is not None and now.alive):
            return []
        session = last or parting.nothing_left(*key, process)
        return self._told(key, parting.gone(session, process, self._lookout.handle(process)))


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
