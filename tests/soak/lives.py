"""The lives that agents lead, at random. The book records each as it goes on.

Each slot of the soak leads one life after the other: an agent that the driver starts itself and puts
into states, or one that it launches and whose script says how it ends; between them fuses and locks.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from pathlib import Path
from random import Random

from agentctl.errors import Gone
from agentctl.system import proc
from agentctl.system.pidfd import Handle
from agentctl.system.proc import ProcessIdentity
from agentctl.testing import Puppet, Stage
from tests.running import Ran
from tests.soak.book import Book, Fuse, Launch, Lock, Run, State, now
from tests.soak.scene import Scene

STATUS = {"work": "running", "ask": "waiting", "rest": "idle"}
NEXT = {"work": ("ask", "rest"), "ask": ("work",), "rest": ("work",)}
OPEN = frozenset({"killed", "interrupted", "failed", "unknown"})  # ended with its turn open
ENDED = frozenset({"completed", "failed", "interrupted", "killed", "unknown"})
CANNOT_TELL = 5  # what a verb exits with then
DOUBT = 10.0  # seconds after which agentctl surely knows which process runs a session
PAUSE = 1.2  # seconds between the end of a process and the next one of the same session


class Slot:
    def __init__(self, number: int, scene: Scene, book: Book, seed: str, pace: float) -> None:
        self.number, self.scene, self.book = number, scene, book
        self.random = Random(f"{seed}/{number}")
        self.pace = pace  # seconds that a state is kept, on average
        self.over = threading.Event()
        self._count = 0
        self._thread = threading.Thread(target=self._run, name=f"slot {number}")

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self.over.set()

    def join(self) -> None:
        self._thread.join()

    def _run(self) -> None:
        lives: list[Callable[[], None]] = [self.run_puppet] * 5 + [self.launch_agent] * 6
        lives += [self.launch_failing_agent, self.set_fuse, self.set_fuse, self.take_lock]
        # not all at once: no real day begins like that
        self.over.wait(self.random.uniform(0.0, self.pace))
        while not self.over.is_set():
            try:
                self.random.choice(lives)()
            except Exception as error:  # noqa: BLE001 - recorded in the book, and the soak goes on
                self.book.note("wrong", f"slot {self.number}: {type(error).__name__}: {error}")
            self._wait(0.3)

    def _wait(self, average: float) -> None:
        self.over.wait(self.random.uniform(0.3, 1.7) * average)

    def _place(self) -> Path:
        self._count += 1
        return self.scene.place(f"{self.number}-{self._count}")

    def _stage(self) -> Stage:
        return self.random.choice(list(self.scene.stages.values()))

    # started by the driver

    def run_puppet(self) -> None:
        stage, place, session = self._stage(), self._place(), None
        for _ in range(self.random.choice((1, 1, 2))):
            session = self._run_once(stage, place, session)
            if session is None or self.over.wait(PAUSE):
                return

    def _run_once(self, stage: Stage, place: Path, session: str | None) -> str | None:
        run = Run(stage.adapter, now(), session)
        on_our_clock = {"PYTHONPATH": self.scene.environ["PYTHONPATH"]}
        puppet = stage.start(place, resume=session, prompt="soak", environ=on_our_clock)
        run.process, run.session = puppet.identity.address, puppet.session_id or session
        run.ready = now()
        self.book.note("runs", run)
        step = "work"
        for _ in range(self.random.randint(1, 4)):
            self._hold_state(stage, puppet, run, step)
            if self.over.is_set():
                break
            step = self.random.choice([s for s in NEXT[step] if stage.can_ask or s != "ask"])
        self._end_run(puppet, run, step)
        return run.session

    def _hold_state(self, stage: Stage, puppet: Puppet, run: Run, step: str) -> None:
        puppet.do(step)
        since = now()
        run.session = puppet.session_id
        self._wait(self.pace)
        run.states.append(State(STATUS[step], since, now()))

    def _end_run(self, puppet: Puppet, run: Run, step: str) -> None:
        how = self.random.choice(("finish", "fail", "kill", "zombie", "term", "stop"))
        run.outcomes = ENDED
        run.ending = now()
        if how in ("finish", "fail"):
            puppet.finish(0 if how == "finish" else 3)
        elif how == "zombie":
            puppet.kill(reap=False)
            self._wait(1.0)
        elif how == "stop" and run.session is not None:
            self._stop(run)
        else:
            puppet.kill(signal.SIGTERM if how == "term" else signal.SIGKILL)
        if how == "stop" and not _ends_within(puppet.identity, 0.0):
            puppet.kill(reap=False)  # `stop` refused, as it may on a full disk
        run.code = puppet.reap()
        run.gone_by = now()

    def _stop(self, run: Run) -> None:
        began, session = now(), run.session or ""
        ran = self.scene.call("stop", session)
        # beside an agent that is just beginning
        while ran.code == CANNOT_TELL and now() < began + DOUBT:
            self.over.wait(0.5)
            ran = self.scene.call("stop", session)
        first, *again = self.book.runs_of(session)
        if (
            ran.code == CANNOT_TELL
            and run.adapter == "pi"
            and (again or self.book.was_clock_set(first.began))
        ):
            # agentctl knows a Pi by its times alone; a resumed one by the time of its first prompt
            self.book.note("refused", ran.err)
        elif ran.code != 0:
            self._note_failure("stop", ran, began)

    # launched

    def launch_agent(self) -> None:
        adapter, seconds = self._stage().adapter, round(self.random.uniform(0.5, 2.5) * self.pace, 1)
        code = self.random.choice((0, 0, 3, 7))
        how = self.random.choice(("exit", "exit", "exit", "kill", "stop", "timeout"))
        script = f"work {seconds}, exit {code}" if how == "exit" else "work, hang"
        more = ["--timeout", f"{seconds}s"] if how == "timeout" else []
        # an agent that works must not be reported as stopped before its work, or its timeout, is over
        lives = 0.0 if how in ("kill", "stop") else seconds
        launch = self._launch(adapter, script, self._place(), *more, lives=lives)
        if launch is None or launch.run is None:
            return
        run = launch.run
        launch.expires = how == "timeout"
        if how == "exit":
            run.code, run.outcomes = code, frozenset({"completed" if code == 0 else "failed"})
        self._await_end(run, how, seconds)
        if adapter != "demo" and self.book.disk_was_full(run.began, run.gone_by or now()):
            run.code, run.outcomes = None, ENDED  # it writes its output to the full disk
        if adapter == "opencode" and self.book.was_clock_set(run.began):
            run.outcomes = ENDED  # it sorts its messages by their times

    def _launch(
        self, adapter: str, script: str, place: Path, *more: str, lives: float = 0.0
    ) -> Launch | None:
        """Return None if it failed; the book says why. `lives`: seconds that it lives at least;
        0: until we end it."""
        launch = self.book.note("launches", Launch(str(place), now()))
        run = Run(adapter, launch.called, ending=launch.called + lives if lives else None)
        ids = "$AGENTCTL_LAUNCH_ID $AGENTCTL_SESSION_ID $AGENTCTL_EXIT_CODE"
        hooks = [
            f"--on-{w}={self._line(self.scene.hooks, f'{w} {ids}')}" for w in ("create", "complete")
        ]
        ran = self.scene.call(
            "launch", adapter, "-p", script, "--cwd", str(place), "--json", *hooks, *more
        )
        launch.returned, launch.exit, launch.message = now(), ran.code, ran.err.strip()
        if ran.code != 0:
            self._note_failure("launch", ran, launch.called)
            return None
        (session,) = ran.json()["sessions"]
        run.session, run.launch = session["id"], session["launch"]["id"]
        run.ready = launch.returned
        launch.id, launch.run = run.launch, run
        self.book.note("runs", run)
        return launch  # type: ignore[no-any-return]

    def _await_end(self, run: Run, how: str, seconds: float) -> None:
        owner = self._owner(run)
        if how in ("kill", "stop"):
            self._wait(self.pace)
            run.ending = now()
            if how == "stop":
                run.outcomes = ENDED
                self._stop(run)
            elif owner is not None:
                run.outcomes = frozenset({"killed"})
                _signal(owner, signal.SIGKILL)
        elif how == "timeout":
            run.outcomes = ENDED
        if owner is not None and not _ends_within(owner, seconds + 60.0):
            self.book.note("wrong", f"{run} lives on: {how}")
            _signal(owner, signal.SIGKILL)
        run.gone_by = now()

    def _owner(self, run: Run) -> ProcessIdentity | None:
        """The agent's process, from the evidence that it lives."""
        rows = [s for s in self.scene.ask("list")["sessions"] if s["id"] == run.session]
        pieces = [e for row in rows for e in row["evidence"] if e["claim"] == "alive"]
        if not pieces:
            return None  # ended already
        pid, start = pieces[0]["address"].removeprefix("proc:").split("/")[0].split("@")
        return ProcessIdentity(proc.read_boot_id(), int(pid), int(start))

    def launch_failing_agent(self) -> None:
        """It dies before it has a session."""
        adapter = self.random.choice([name for name in self.scene.stages if name != "demo"])
        launch = self.book.note("launches", Launch(str(self._place()), now(), expected="failed"))
        ran = self.scene.call("launch", adapter, "-p", "die soaked", "--cwd", launch.cwd)
        launch.returned, launch.exit, launch.message = now(), ran.code, ran.err.strip()

    # beside agents

    def set_fuse(self) -> None:
        place, does = self._place(), self.random.choice(("run", "run", "emit", "cancel", "launch"))
        fires = does in ("run", "emit")
        seconds = round(self.random.uniform(0.3, 1.5) * self.pace, 1) if fires else 30.0
        action = ["--run", self._line(self.scene.fired, "$AGENTCTL_FUSE_ID")]
        began = now()
        ran = self.scene.call("fuse", "set", str(place), f"--in={seconds}s", *action, "--json",
                              *(["--emit", "soak"] if does == "emit" else []))  # fmt: skip
        if ran.code != 0:
            self._note_failure("fuse set", ran, began)
            return
        (row,) = ran.json()["fuses"]
        fuse = self.book.note("fuses", Fuse(str(place), row["id"], does))
        if does == "cancel":
            ran = self.scene.call("fuse", "cancel", fuse.id)
            fuse.settled = ran.code == 0
        elif does == "launch":
            launch = self._launch("demo", "work 0.5, exit 0", place, lives=0.5)
            if launch is not None and launch.run is not None:
                fuse.settled = True
                launch.run.code, launch.run.outcomes = 0, frozenset({"completed"})
                self._await_end(launch.run, "exit", 0.5)

    def take_lock(self) -> None:
        """A lock's time is by the wall clock: no step comes while a short one is held."""
        place = self._place()
        if self.random.choice((True, False)):
            with self.scene.hand:
                if self._acquire_lock(place, "2s", "expired"):
                    self.over.wait(3.0)
        elif self._acquire_lock(place, "1d", "released"):
            launch = self.book.note("launches", Launch(str(place), now(), expected="refused"))
            ran = self.scene.call("launch", "demo", "-p", "exit 0", "--cwd", str(place))
            launch.returned, launch.exit, launch.message = now(), ran.code, ran.err.strip()
            self._release_lock(place)

    def _acquire_lock(self, place: Path, ttl: str, how: str) -> bool:
        began = now()
        ran = self.scene.call("lock", str(place), "--ttl", ttl, "--reason", "soak")
        if ran.code != 0:
            self._note_failure("lock", ran, began)
            return False
        self.book.note("locks", Lock(str(place), how))
        return True

    def _release_lock(self, place: Path) -> None:
        began = now()
        while (ran := self.scene.call("unlock", str(place))).code != 0 and now() < began + 60.0:
            self._note_failure("unlock", ran, began)
            self.over.wait(1.0)

    def _line(self, file: Path, text: str) -> str:
        return f'echo "{text}" >>{file}'

    def _note_failure(self, verb: str, ran: Ran, since: float) -> None:
        """A verb may fail because the disk is full, and for no other reason."""
        text = f"{verb}: exit {ran.code}: {ran.err.strip()}"
        full = self.book.disk_was_full(since, now(), margin=0.5)
        self.book.note("refused" if full else "wrong", text)


def _ends_within(identity: ProcessIdentity, seconds: float) -> bool:
    try:
        with Handle(identity) as handle:
            return handle.wait(seconds)
    except Gone:
        return True


def _signal(identity: ProcessIdentity, number: signal.Signals) -> None:
    try:
        with Handle(identity) as handle:
            handle.signal(number)
    except Gone:
        pass  # it ended first
