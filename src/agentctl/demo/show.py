"""The show: a handful of demo agents in a temporary home, and what agentctl says of them.

Everything happens below one temporary directory. The agents carry a marker in their environment and
agentctl is confined to it, so nobody else's agents appear; they are signalled by identity only.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager

import agentctl
from agentctl import paths
from agentctl.adapters.registry import registered
from agentctl.cli import text
from agentctl.store import ledger
from agentctl.truth import procfs
from agentctl.truth.look import Look
from agentctl.truth.model import Launch
from agentctl.truth.pidfd import Handle
from agentctl.truth.survey import Wanted, survey

MARKER = "AGENTCTL_DEMO"
PATIENCE = 15.0  # seconds until the agents have done what we announce
BEAT = 0.05
# All that the agents and agentctl get of our environment: no variable of a real agent may lead them
# out of the temporary home.
KEPT = frozenset(
    {"PATH", "TERM", "COLUMNS", "LINES", "NO_COLOR", "TZ", "LANG", "LD_LIBRARY_PATH", "TMPDIR"}
)
CAST = (
    ("shop", "fix the checkout", "work 600"),
    ("shop", "update the docs", "work 1, exit 0"),
    ("api", "rename the table", "work 1, ask, work 600"),
    ("api", "review the diff", "work 1, rest"),
    ("web", "port the tests", "work 1, fail"),
)


class Actor:
    """One demo agent that we started and will end."""

    def __init__(self, directory: str, name: str, script: str, environ: dict[str, str]) -> None:
        os.makedirs(directory, exist_ok=True)
        command = [sys.executable, "-m", "agentctl.demo.agent", script]
        self._child = subprocess.Popen(command, cwd=directory, env=environ, stdout=subprocess.PIPE)
        assert self._child.stdout is not None
        self.session = self._child.stdout.readline().decode().strip()
        self.identity = procfs.read_process(self._child.pid, procfs.boot_id()).identity
        self.name = name

    def note(self) -> Launch:
        return Launch(str(uuid.uuid4()), self.identity, self.session, name=self.name, group="demo")

    def signal(self, number: signal.Signals) -> None:
        with Handle(self.identity) as handle:
            handle.signal(number)

    def kill(self) -> None:
        self.signal(signal.SIGKILL)
        self._child.wait()

    def end(self) -> None:
        if self._child.poll() is None:
            self.kill()
        if self._child.stdout is not None:
            self._child.stdout.close()


class Show:
    """Says what it does, does it, and lets agentctl speak."""

    def __init__(self, home: str, *, pause: float) -> None:
        marker = uuid.uuid4().hex
        self.home = home
        self._pause = pause
        kept = {n: v for n, v in os.environ.items() if n in KEPT or n.startswith(("LC_", "PYTHON"))}
        package = os.path.dirname(os.path.dirname(agentctl.__file__))  # also when run from a source tree
        self._environ = {
            **kept,
            "PYTHONPATH": os.pathsep.join(filter(None, (package, os.environ.get("PYTHONPATH")))),
            "HOME": home,
            "AGENTCTL_HOME": f"{home}/.agentctl",
            "AGENTCTL_CONFINE": f"{MARKER}={marker}",
            MARKER: marker,
        }
        self.actors: list[Actor] = []

    def say(self, line: str) -> None:
        print("\n" + text.paint(f"▸ {line}", "bold", on=text.coloured()), flush=True)

    def agentctl(self, *words: str) -> None:
        print(f"$ agentctl {' '.join(words)}".rstrip(), flush=True)
        # capture nothing: it writes to our own terminal and sees its width
        subprocess.run([sys.executable, "-m", "agentctl", *words], env=self._environ, check=False)

    def begin(self) -> None:
        for directory, name, script in CAST:
            actor = Actor(f"{self.home}/{directory}", name, script, self._environ)
            ledger.record(paths.notes_file(f"{self.home}/.agentctl"), actor.note())
            self.actors.append(actor)

    def wait(self, seconds: float) -> None:
        """Let the audience read. Nothing depends on it."""
        signal.sigtimedwait([], seconds * self._pause)

    def until(self, *words: str) -> None:
        """Wait for the agents to be where we are about to say they are, each in its turn."""
        deadline = time.monotonic() + PATIENCE
        while self._words() != words and time.monotonic() < deadline:
            signal.sigtimedwait([], BEAT)

    def _words(self) -> tuple[str, ...]:
        look = Look.take(self._environ)
        found = survey(look, registered(["demo"]), Wanted(), deadline=PATIENCE).sessions
        by_id = {session.seen.session_id: session.verdict for session in found}
        verdicts = [by_id.get(actor.session) for actor in self.actors]
        return tuple((v.outcome or v.status) if v else "unknown" for v in verdicts)

    def end(self) -> None:
        for actor in self.actors:
            actor.end()


@contextmanager
def stage(*, pause: float) -> Iterator[Show]:
    home = os.path.realpath(tempfile.mkdtemp(prefix="agentctl-demo-"))
    show = Show(home, pause=pause)
    try:
        yield show
    finally:
        show.end()
        shutil.rmtree(home, ignore_errors=True)


def play(*, pause: float = 1.0) -> None:
    signal.signal(signal.SIGTERM, _leave)  # so that we clean up then, too
    signal.signal(signal.SIGHUP, _leave)
    with stage(pause=pause) as show:
        show.say("Five demo agents start in a temporary home. No key, no network, no model.")
        show.begin()
        show.agentctl()
        show.wait(1)
        show.until("running", "completed", "waiting", "idle", "failed")
        show.say("A moment later: one waits for a person and comes first, two are done.")
        show.agentctl("list", "-a")
        fixer, _, asker, *_ = show.actors
        show.wait(2)
        show.say("How do we know that it waits? Every verdict shows its evidence.")
        show.agentctl("why", asker.session[:8])
        show.wait(2)
        show.say("Kill one with -9. It cannot say goodbye; the kernel's word is enough.")
        fixer.kill()
        show.agentctl("why", fixer.session[:8])
        show.wait(2)
        show.say("Somebody answers the one that waited; it goes on at once.")
        asker.signal(signal.SIGUSR1)
        show.until("killed", "completed", "running", "idle", "failed")
        show.agentctl()
        show.wait(2)
        show.say("Delete our state directory. Labels go; the truth was never in it.")
        shutil.rmtree(f"{show.home}/.agentctl")
        show.agentctl("list", "-a")
        show.say("Clean up: our agents are ended by identity, the home is removed.")
    print("\nNext: `agentctl` in your own terminal shows the agents that run on this machine.")


def _leave(number: int, _: object) -> None:
    sys.exit(128 + number)
