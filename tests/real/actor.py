"""One real agent that a scenario plays with: headless, or with a person's hands on its terminal.

Whatever is done to it goes through here, so that the watcher hears of it: `unsettled` when something was
done, `told` when the driver knows what is true now. The model's journal and the kernel are how it knows.
"""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from agentctl.errors import Gone
from agentctl.system import proc
from agentctl.system.identity import ProcessIdentity
from agentctl.system.pidfd import Handle
from tests.real import native
from tests.real.book import Told, Who
from tests.real.tmux import Terminal
from tests.waiting import until

if TYPE_CHECKING:
    from agentctl.rehearsal.model.journal import Kind, Note
    from tests.real.lab import Lab

PATIENCE = 60.0  # seconds: big programs start slowly on a loaded machine
Body = Terminal | subprocess.Popen[bytes] | ProcessIdentity
_marks = itertools.count(1)


class Actor:
    def __init__(self, lab: Lab, name: str, body: Body, mark: str) -> None:
        self.lab, self.name = lab, name
        self.marks = [mark]  # of all its turns
        self.body = body
        self.session_id: str | None = None
        self.died_at: float | None = None
        self._left: Who | None = None
        self.launcher = body if isinstance(body, ProcessIdentity) else identity_of(body.pid)
        self.process = self._agent()
        self._watch = threading.Thread(target=self._see_it_die, daemon=True)
        self._watch.start()

    # what is done to it

    def says(self, script: str) -> None:
        """Types a prompt and sends it; returns when the model has it. `%` in it is this turn's mark."""
        self.types(script)
        self.heard("asked")

    def types(self, script: str) -> None:
        """The same, for a model that is not there to hear it."""
        self.mark, text = marked(script)
        self.unsettled()
        self.terminal.type(text)
        self.terminal.shows(self.mark)
        self.terminal.press("Enter")

    def opens(self, suffix: str = "") -> None:
        """Lets the model go on: the gate named after this turn's mark."""
        self.unsettled()
        self.lab.model.open(self.mark + suffix)

    def presses(self, *keys: str) -> None:
        self.unsettled()
        self.terminal.press(*keys)

    def signal(self, number: signal.Signals) -> None:
        self.unsettled()
        with Handle(self.process) as handle:
            handle.signal(number)

    # what is known of it

    def heard(self, kind: Kind, *, after: int = 0) -> Note:
        """Waits for the model's note of this turn. `after`: not one up to this number."""
        return self.lab.model.journal.wait(kind, self.mark, after=after, deadline=PATIENCE)

    def answers(self, dialog: str, key: str) -> None:
        """Presses this key until the dialog is gone: some take no key in their first moment."""
        self.unsettled()
        while dialog in self.terminal.screen():
            self.terminal.press(key)
            with suppress(TimeoutError):
                until(lambda: dialog not in self.terminal.screen(), f"{dialog!r} is gone", 2.0)

    def sees(self, text: str) -> float:
        """Waits until its screen shows this; since when we know."""
        self.terminal.shows(text)
        return time.time()

    def has_id(self) -> str:
        """Waits until it has written down its session: some do it after they have asked the model."""
        until(lambda: self.who().session_id is not None, f"{self.name} writes its session", PATIENCE)
        assert self.session_id is not None
        return self.session_id

    def unsettled(self, *, since: float | None = None) -> None:
        self.lab.watcher.unsettled(self.who(), since or time.time())

    def is_now(self, status: str, *, since: float | None = None, **more: str) -> None:
        """Declares what is true: `waiting_for`, `outcome`, `blind` as in `Told`."""
        self.lab.watcher.told(self.who(), Told(status, **more), since or time.time())

    def is_held(self, *, after: int = 0, **more: str) -> None:
        """Its turn is open: the model stands at a gate of this turn."""
        self.is_now("running", since=self.heard("held", after=after).at, **more)

    def has_answer(self, **more: str) -> None:
        """Its turn is over: the model's last word is sent. (Headless: it will end by itself.)"""
        self.is_now("idle", since=self.heard("answered").at, **more)

    def plays_out(self, *, after: int = 0) -> None:
        """The model has reached the gate of this turn, may go on, and says its last word."""
        self.is_held(after=after)
        self.opens()
        self.has_answer()

    def is_gone(self, **more: str) -> None:
        """Waits for the kernel's word that it has ended."""
        until(lambda: self.died_at is not None, f"{self.name} ends", PATIENCE)
        self.is_now("stopped", since=self.died_at, **more)

    def leaves(self) -> None:
        """It is about to go on with another session: from now on it is known by its process alone."""
        self.has_id()
        self.unsettled()  # with that id: what was noted before it was known is its, too
        self._left = self.who()._replace(name=f"{self.session_id}, left by {self.name}", process=None)
        self.session_id, self.mark = None, marked("")[0]
        self.unsettled()

    def is_elsewhere(self, **more: str) -> None:
        """It goes on with another session: nobody runs the one that it had."""
        if self._left is None:
            self.leaves()
        assert self._left is not None
        (old, now), self._left = (self._left, time.time()), None
        self.lab.watcher.told(old, Told("stopped", **more), now)
        self.lab.watcher.ended(old, now)  # after that, since nobody knows the very moment

    def who(self) -> Who:
        if self.session_id is None:
            self.session_id = native.session_with(self.lab.adapter, self.lab.home, self.mark)
        return Who(self.name, self.lab.adapter, self.process, self.session_id)

    @property
    def mark(self) -> str:
        """Of its last turn."""
        return self.marks[-1]

    @mark.setter
    def mark(self, mark: str) -> None:
        self.marks.append(mark)

    @property
    def terminal(self) -> Terminal:
        assert isinstance(self.body, Terminal), f"{self.name} is headless"
        return self.body

    @property
    def exit_code(self) -> int:
        """Of a headless one: waits for its end."""
        assert isinstance(self.body, subprocess.Popen), f"{self.name} has a terminal"
        return self.body.wait(PATIENCE)

    def _agent(self) -> ProcessIdentity:
        """The process that is the agent: what we started, or what a launcher of it started."""
        if self.lab.adapter != "codex" or isinstance(self.body, ProcessIdentity):
            return self.launcher
        if isinstance(self.body, subprocess.Popen) and _is_binary(self.body):
            return self.launcher
        found: list[ProcessIdentity] = []

        def is_there() -> bool:
            table = proc.read_table().values()
            # by its program: a script called codex has that name, too, until its interpreter runs
            codexes = [p for p in table if p.comm == "codex" and (p.exe or "").endswith("/codex")]
            found[:] = [p.identity for p in codexes if self._below(p.pid)]
            return bool(found)

        until(is_there, "the native codex is there")
        return found[0]

    def _below(self, pid: int) -> bool:
        table = proc.read_table()
        while pid > 1 and pid in table:
            if pid == self.launcher.pid:
                return True
            pid = table[pid].parent
        return False

    def _see_it_die(self) -> None:
        try:
            with Handle(self.process) as handle:
                handle.wait(None)
        except Gone:
            pass
        self.died_at = time.time()
        self.lab.watcher.ended(self.who(), self.died_at)
        if isinstance(self.body, subprocess.Popen):
            self.body.wait()  # a launcher ends right after what it launched


def _is_binary(body: subprocess.Popen[bytes]) -> bool:
    """Whether the agent itself was started, and not a script that starts it."""
    assert isinstance(body.args, list)
    with open(str(body.args[0]), "rb") as program:
        return program.read(4) == b"\x7fELF"


def marked(script: str) -> tuple[str, str]:
    """A mark that no other turn has, and the prompt that carries it."""
    mark = f"m{next(_marks)}x{os.getpid()}"
    return mark, f"{mark} {script.replace('%', mark)}"


def identity_of(pid: int) -> ProcessIdentity:
    return proc.read_process(pid, proc.boot_id()).identity
