"""The demo: five demo agents in a temporary home are launched, watched, killed, answered and stopped.

Everything happens below one temporary directory. The agents carry a marker in their environment, and
agentctl is confined to it, so no other agents appear. The agents are signalled by identity only.
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
from contextlib import contextmanager, suppress

import agentctl
from agentctl import text
from agentctl.adapters.registry import find_adapters
from agentctl.errors import SourceError
from agentctl.light_typing import Iterator
from agentctl.system import proc
from agentctl.system.pidfd import Handle
from agentctl.system.proc import Process
from agentctl.truth.look import Look
from agentctl.truth.survey import HistoryQuery, survey

MARKER = "AGENTCTL_DEMO"
GROUP = "demo"
TIMEOUT = 15.0  # seconds until the agents are in the state that the demo announces
PAUSE = 0.05  # seconds between two looks
# The variables of our environment that the agents and agentctl get. A variable of a real agent could
# lead them out of the temporary home.
PASSED = frozenset(
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
    """Prints what it does, does it, and runs agentctl to show the result."""

    def __init__(self, home: str, *, pause: float) -> None:
        self._marker = uuid.uuid4().hex
        self.home = home
        self._pause = pause
        passed = {n: v for n, v in os.environ.items() if n in PASSED or n.startswith(("LC_", "PYTHON"))}
        package = os.path.dirname(os.path.dirname(agentctl.__file__))  # also when run from a source tree
        self._environ = {
            **passed,
            "PYTHONPATH": os.pathsep.join(filter(None, (package, os.environ.get("PYTHONPATH")))),
            "HOME": home,
            "AGENTCTL_HOME": f"{home}/.agentctl",
            "AGENTCTL_CONFINE": f"{MARKER}={self._marker}",
            MARKER: self._marker,
        }
        self.sessions: list[str] = []

    def say(self, line: str) -> None:
        print("\n" + text.paint(f"▸ {line}", "bold", on=text.has_colour()), flush=True)

    def agentctl(self, *words: str) -> None:
        command = " ".join(f'"{word}"' if " " in word else word for word in words)
        print(f"$ agentctl {command}".rstrip(), flush=True)
        # The output is not captured: agentctl writes to our terminal and fits its width.
        subprocess.run([sys.executable, "-P", "-m", "agentctl", *words], env=self._environ, check=False)

    def launch_agents(self) -> None:
        for directory, name, script in CAST:
            cwd = f"{self.home}/{directory}"
            os.makedirs(cwd)
            words = ("launch", "demo", "--cwd", cwd, "--name", name, "--group", GROUP, "-p", script)
            print(
                f"$ agentctl launch demo --cwd ~/{directory} --name {name!r} -p {script!r}", flush=True
            )
            self.sessions.append(self._launch(*words))

    def _launch(self, *words: str) -> str:
        command = [sys.executable, "-P", "-m", "agentctl", *words, "--json"]
        process = subprocess.run(command, env=self._environ, stdout=subprocess.PIPE, check=True)
        session_id = str(json.loads(process.stdout)["sessions"][0]["id"])
        print(session_id, flush=True)
        return session_id

    def signal(self, session_id: str, number: signal.Signals) -> None:
        """Send a signal to the process that runs a session, by its identity."""
        look = Look.take(self._environ)
        for session in survey(look, find_adapters(["demo"]), deadline=TIMEOUT).sessions:
            observation = session.observation
            if observation.session_id == session_id and observation.owner is not None:
                identity = observation.owner.identity
                print(f"$ kill -{number.name.removeprefix('SIG')} {identity.pid}", flush=True)
                with Handle(identity) as handle:
                    handle.signal(number)
                    if number == signal.SIGKILL:
                        handle.wait(TIMEOUT)

    def wait(self, seconds: float) -> None:
        """Give the user time to read. Nothing depends on it."""
        signal.sigtimedwait([], seconds * self._pause)

    def wait_for(self, *states: str) -> None:
        """Wait until the agents are in these states, in the order of their launch."""
        deadline = time.monotonic() + TIMEOUT
        while self._states() != states and time.monotonic() < deadline:
            signal.sigtimedwait([], PAUSE)

    def _states(self) -> tuple[str, ...]:
        look = Look.take(self._environ)
        sessions = survey(look, find_adapters(["demo"]), HistoryQuery(), deadline=TIMEOUT).sessions
        by_id = {session.observation.session_id: session.verdict for session in sessions}
        verdicts = [by_id.get(session) for session in self.sessions]
        return tuple((v.outcome or v.status) if v else "unknown" for v in verdicts)

    def end(self) -> None:
        """Kill every process of the demo that is still alive."""
        while processes := self._live_processes():
            for process in processes:
                with suppress(SourceError), Handle(process.identity) as handle:
                    handle.signal(signal.SIGKILL)
                    handle.wait(TIMEOUT)

    def _live_processes(self) -> list[Process]:
        return [p for p in proc.read_table().values() if p.is_alive and self._is_ours(p)]

    def _is_ours(self, process: Process) -> bool:
        try:
            return process.environ().get(MARKER) == self._marker
        except SourceError:  # another user's process, or it is gone
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
    signal.signal(signal.SIGTERM, _leave)  # clean up on a signal, too
    signal.signal(signal.SIGHUP, _leave)
    with stage(pause=pause) as show:
        _show_agents(show)
        _change_agents(show)
        show.say("Clean up: the agents are killed by identity, the home is removed.")
    print("\nNext: agentctl in your own terminal shows the agents on this machine.")


def _show_agents(show: Show) -> None:
    show.say("Launch five demo agents in a temporary home. No key, no network, no model.")
    show.launch_agents()
    show.wait(1)
    show.wait_for("running", "completed", "waiting", "idle", "failed")
    show.say("A moment later: one waits for you and comes first, two have ended.")
    show.agentctl("list", "-a")
    show.wait(2)
    show.say("How does agentctl know that it waits? Every status has its evidence.")
    show.agentctl("why", show.sessions[2][:8])
    show.wait(2)


def _change_agents(show: Show) -> None:
    working, completed, waiting, *_ = show.sessions
    show.say("Kill one with -9. It writes nothing, but the kernel knows that it is gone.")
    show.signal(working, signal.SIGKILL)
    show.agentctl("why", working[:8])
    show.wait(2)
    show.say("Answer the one that waits; it goes on at once.")
    show.signal(waiting, signal.SIGUSR1)
    show.wait_for("killed", "completed", "running", "idle", "failed")
    show.agentctl()
    show.wait(2)
    show.say("Resume one that has completed: the same session, in its own directory.")
    show.agentctl("resume", completed[:8], "work 1, exit 0", "--wait")
    show.wait(1)
    show.say("Delete agentctl's own files. The labels are lost, no status is.")
    print("$ rm -r ~/.agentctl", flush=True)
    shutil.rmtree(f"{show.home}/.agentctl")
    show.agentctl("list", "-a")
    show.wait(2)
    show.say("Stop one, with proof.")
    show.agentctl("stop", waiting[:8])
    show.wait(1)


def _leave(number: int, _: object) -> None:
    sys.exit(128 + number)
