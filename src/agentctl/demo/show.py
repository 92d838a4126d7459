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
import uuid
from collections.abc import Iterator
from contextlib import contextmanager

from agentctl import paths
from agentctl.store import launches
from agentctl.truth import procfs
from agentctl.truth.model import Launch
from agentctl.truth.pidfd import Handle

MARKER = "AGENTCTL_DEMO"
CAST = (
    ("shop", "fix the checkout", "work 30"),
    ("shop", "update the docs", "work 2, exit 0"),
    ("api", "rename the table", "work 1, ask, work 30"),
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
        self._environ = {
            **os.environ,
            "HOME": home,
            "AGENTCTL_HOME": f"{home}/.agentctl",
            "AGENTCTL_CONFINE": f"{MARKER}={marker}",
            MARKER: marker,
        }
        for variable in ("DEMO_AGENT_HOME", "CLAUDE_CONFIG_DIR", "CODEX_HOME", "XDG_DATA_HOME"):
            self._environ.pop(variable, None)
        self.actors: list[Actor] = []

    def say(self, line: str) -> None:
        bold = (
            ("\x1b[1m", "\x1b[0m")
            if sys.stdout.isatty() and not os.environ.get("NO_COLOR")
            else ("", "")
        )
        print(f"\n{bold[0]}▸ {line}{bold[1]}", flush=True)

    def agentctl(self, *words: str) -> None:
        print(f"$ agentctl {' '.join(words)}".rstrip(), flush=True)
        # capture nothing: it writes to our own terminal and sees its width
        subprocess.run([sys.executable, "-m", "agentctl", *words], env=self._environ, check=False)

    def begin(self) -> None:
        for directory, name, script in CAST:
            actor = Actor(f"{self.home}/{directory}", name, script, self._environ)
            launches.record(paths.notes_file(f"{self.home}/.agentctl"), actor.note())
            self.actors.append(actor)

    def wait(self, seconds: float) -> None:
        """Let the agents work while the audience reads. Nothing depends on it but what is seen."""
        signal.sigtimedwait([], seconds * self._pause)

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
    with stage(pause=pause) as show:
        show.say("Five demo agents start in a temporary home. No key, no network, no model.")
        show.begin()
        show.agentctl()
        show.wait(2.5)
        show.say("A moment later: one waits for a person (it comes first), one rests, two are done.")
        show.agentctl("list", "-a")
        fixer, _, asker, *_ = show.actors
        show.say("How do we know that it waits? Every verdict shows its evidence.")
        show.agentctl("why", asker.session[:8])
        show.wait(2)
        show.say("Kill one with -9. It cannot say goodbye; the kernel's word is enough.")
        fixer.kill()
        show.agentctl("why", fixer.session[:8])
        show.wait(2)
        show.say("Somebody answers the one that waited; it goes on at once.")
        asker.signal(signal.SIGUSR1)
        show.wait(0.5)
        show.agentctl()
        show.wait(2)
        show.say(
            "Delete our whole state directory. Only our labels are gone: the truth was never in it."
        )
        shutil.rmtree(f"{show.home}/.agentctl")
        show.agentctl("list", "-a")
        show.say("Clean up: the agents we started are ended, by identity, and the home is removed.")
    print("\nNext: `agentctl` in your own terminal shows the agents that run on this machine.")
