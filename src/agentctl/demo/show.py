"""The show: a handful of demo agents in a temporary home, launched, watched, killed, answered, stopped.

Everything happens below one temporary directory. The agents carry a marker in their environment and
agentctl is confined to it, so nobody else's agents appear; they are signalled by identity only.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import agentctl
from agentctl import text
from agentctl.adapters.registry import registered
from agentctl.errors import SourceError
from agentctl.system import proc
from agentctl.system.pidfd import Handle
from agentctl.system.proc import Process
from agentctl.truth.look import Look
from agentctl.truth.survey import Wanted, survey

MARKER = "AGENTCTL_DEMO"
GROUP = "demo"
PATIENCE = 15.0  # seconds until the agents have done what we announce
BEAT = 0.05
# All that the agents and agentctl get of our environment: no variable of a real agent may lead them
# out of the temporary home.
KEPT = frozenset(
    {"PATH", "TERM", "COLUMNS", "LINES", "NO_COLOR", "TZ", "LANG", "LD_LIBRARY_PATH", "TMPDIR"}
)
CAST = (
    ("shop", "fix the checkout", "work 600"),
    ("docs", "update the docs", "work 1, exit 0"),
    ("api", "rename the table", "work 1, ask, work 600"),
    ("infra", "review the diff", "work 1, rest"),
    ("web", "port the tests", "work 1, fail"),
)


class Show:
    """Says what it does, does it, and lets agentctl speak."""

    def __init__(self, home: str, *, pause: float) -> None:
        self._marker = uuid.uuid4().hex
        self.home = home
        self._pause = pause
        kept = {n: v for n, v in os.environ.items() if n in KEPT or n.startswith(("LC_", "PYTHON"))}
        package = os.path.dirname(os.path.dirname(agentctl.__file__))  # also when run from a source tree
        self._environ = {
            **kept,
            "PYTHONPATH": os.pathsep.join(filter(None, (package, os.environ.get("PYTHONPATH")))),
            "HOME": home,
            "AGENTCTL_HOME": f"{home}/.agentctl",
            "AGENTCTL_CONFINE": f"{MARKER}={self._marker}",
            MARKER: self._marker,
        }
        self.sessions: list[str] = []

    def say(self, line: str) -> None:
        print("\n" + text.paint(f"▸ {line}", "bold", on=text.coloured()), flush=True)

    def agentctl(self, *words: str) -> None:
        shown = " ".join(f'"{word}"' if " " in word else word for word in words)
        print(f"$ agentctl {shown}".rstrip(), flush=True)
        # capture nothing: it writes to our own terminal and sees its width
        subprocess.run([sys.executable, "-P", "-m", "agentctl", *words], env=self._environ, check=False)

    def begin(self) -> None:
        for directory, name, script in CAST:
            os.makedirs(f"{self.home}/{directory}")
            where = f"{self.home}/{directory}"
            words = ("launch", "demo", "--cwd", where, "--name", name, "--group", GROUP, "-p", script)
            print(
                f"$ agentctl launch demo --cwd ~/{directory} --name {name!r} -p {script!r}", flush=True
            )
            self.sessions.append(self._launched(*words))

    def _launched(self, *words: str) -> str:
        command = [sys.executable, "-P", "-m", "agentctl", *words, "--json"]
        done = subprocess.run(command, env=self._environ, stdout=subprocess.PIPE, check=True)
        session = str(json.loads(done.stdout)["sessions"][0]["id"])
        print(session, flush=True)
        return session

    def signal(self, session: str, number: signal.Signals) -> None:
        """To the process that runs it, by its identity."""
        look = Look.take(self._environ)
        for found in survey(look, registered(["demo"]), deadline=PATIENCE).sessions:
            if found.seen.session_id == session and found.seen.owner is not None:
                identity = found.seen.owner.identity
                print(f"$ kill -{number.name.removeprefix('SIG')} {identity.pid}", flush=True)
                with Handle(identity) as handle:
                    handle.signal(number)
                    if number == signal.SIGKILL:
                        handle.wait(PATIENCE)

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
        verdicts = [by_id.get(session) for session in self.sessions]
        return tuple((v.outcome or v.status) if v else "unknown" for v in verdicts)

    def end(self) -> None:
        """Every process of the show, whatever became of it."""
        while left := self._left():
            for process in left:
                with suppress(SourceError), Handle(process.identity) as handle:
                    handle.signal(signal.SIGKILL)
                    handle.wait(PATIENCE)

    def _left(self) -> list[Process]:
        return [p for p in proc.read_table().values() if p.alive and self._is_ours(p)]

    def _is_ours(self, process: Process) -> bool:
        try:
            return process.environ().get(MARKER) == self._marker
        except SourceError:  # another user's, or gone
            return False


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
        _watch(show)
        _act(show)
        show.say("Clean up: our agents are ended by identity, the home is removed.")
    print("\nNext: `agentctl` in your own terminal shows the agents that run on this machine.")


def _watch(show: Show) -> None:
    show.say("Launch five demo agents in a temporary home. No key, no network, no model.")
    show.begin()
    show.wait(1)
    show.until("running", "completed", "waiting", "idle", "failed")
    show.say("A moment later: one waits for a person and comes first, two are done.")
    show.agentctl("list", "-a")
    show.wait(2)
    show.say("How do we know that it waits? Every verdict shows its evidence.")
    show.agentctl("why", show.sessions[2][:8])
    show.wait(2)


def _act(show: Show) -> None:
    fixer, done, asker, *_ = show.sessions
    show.say("Kill one with -9. It cannot say goodbye; the kernel's word is enough.")
    show.signal(fixer, signal.SIGKILL)
    show.agentctl("why", fixer[:8])
    show.wait(2)
    show.say("Somebody answers the one that waited; it goes on at once.")
    show.signal(asker, signal.SIGUSR1)
    show.until("killed", "completed", "running", "idle", "failed")
    show.agentctl()
    show.wait(2)
    show.say("Go on with one that was done: the same session, in its own directory.")
    show.agentctl("resume", done[:8], "work 1, exit 0", "--wait")
    show.wait(1)
    show.say("Delete our state directory. Labels go; the truth was never in it.")
    print("$ rm -r ~/.agentctl", flush=True)
    shutil.rmtree(f"{show.home}/.agentctl")
    show.agentctl("list", "-a")
    show.wait(2)
    show.say("Stop one, with a proof.")
    show.agentctl("stop", asker[:8])
    show.wait(1)


def _leave(number: int, _: object) -> None:
    sys.exit(128 + number)
