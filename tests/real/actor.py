"""One real agent that a scenario plays with: headless, or with a person's hands on its terminal.

Every act goes through here, so that the watcher learns of it: `unsettled` when something was done,
`declare` when the driver knows what is true now. It knows this from the model's journal and the kernel.
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
from agentctl.system.pidfd import Handle
from agentctl.system.proc import ProcessIdentity
from tests.real import native
from tests.real.book import State, Who
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
        self._former: Who | None = None
        self.launcher = body if isinstance(body, ProcessIdentity) else identity_of(body.pid)
        self.process = self._agent()
        self._watch = threading.Thread(target=self._watch_process, daemon=True)
        self._watch.start()

    # what is done to it

    def says(self, script: str) -> None:
        """Types a prompt and sends it; returns when the model has it. `%` in it is this turn's mark."""
        self.types(script)
        self.heard("asked")

    def types(self, script: str) -> None:
        """The same, while no model is there to receive it."""
        self.mark, text = make_prompt(script)
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
        """Press this key until the dialog is gone: some dialogs take no key in their first moment."""
        self.unsettled()
        while dialog in self.terminal.screen():
            self.terminal.press(key)
            with suppress(TimeoutError):
                until(lambda: dialog not in self.terminal.screen(), f"{dialog!r} is gone", 2.0)

    def sees(self, text: str) -> float:
        """Wait until its screen shows this text; return when it did."""
        self.terminal.shows(text)
        return time.time()

    def has_id(self) -> str:
        """Wait until its session is written down: some agents do so after they have asked the model."""
        until(lambda: self.who().session_id is not None, f"{self.name} writes its session", PATIENCE)
        assert self.session_id is not None
        return self.session_id

    def unsettled(self, *, since: float | None = None) -> None:
        self.lab.watcher.unsettled(self.who(), since or time.time())

    def is_now(self, status: str, *, since: float | None = None, **more: str) -> None:
        """Declare what is true: `waiting_for`, `outcome`, `blind` as in `State`."""
        self.lab.watcher.declare(self.who(), State(status, **more), since or time.time())

    def is_held(self, *, after: int = 0, **more: str) -> None:
        """Its turn is open: the model stands at a gate of this turn."""
        self.is_now("running", since=self.heard("held", after=after).at, **more)

    def has_answer(self, **more: str) -> None:
        """Its turn is over: the model's answer is sent. (Headless: it will end by itself.)"""
        self.is_now("idle", since=self.heard("answered").at, **more)

    def plays_out(self, *, after: int = 0) -> None:
        """The model has reached the gate of this turn, may go on, and answers."""
        self.is_held(after=after)
        self.opens()
        self.has_answer()

    def is_gone(self, **more: str) -> None:
        """Wait until the kernel has ended it."""
        until(lambda: self.died_at is not None, f"{self.name} ends", PATIENCE)
        self.is_now("stopped", since=self.died_at, **more)

    def leaves(self) -> None:
        """It is about to go on with another session: from now on only its process identifies it."""
        self.has_id()
        self.unsettled()  # with that id: what was noted before belongs to this session too
        self._former = self.who()._replace(name=f"{self.session_id}, left by {self.name}", process=None)
        self.session_id, self.mark = None, make_prompt("")[0]
        self.unsettled()

    def is_elsewhere(self, **more: str) -> None:
        """It goes on with another session: no process runs the former one."""
        if self._former is None:
            self.leaves()
        assert self._former is not None
        (old, now), self._former = (self._former, time.time()), None
        self.lab.watcher.declare(old, State("stopped", **more), now)
        self.lab.watcher.record_end(old, now)  # last, since the exact moment is not known

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
        agents: list[ProcessIdentity] = []

        def is_there() -> bool:
            table = proc.read_table().values()
            # by its program: a script called codex has that name, too, until its interpreter runs
            codexes = [p for p in table if p.comm == "codex" and (p.exe or "").endswith("/codex")]
            agents[:] = [p.identity for p in codexes if self._below(p.pid)]
            return bool(agents)

        until(is_there, "the native codex is there")
        return agents[0]

    def _below(self, pid: int) -> bool:
        table = proc.read_table()
        while pid > 1 and pid in table:
            if pid == self.launcher.pid:
                return True
            pid = table[pid].parent
        return False

    def _watch_process(self) -> None:
        try:
            with Handle(self.process) as handle:
                handle.wait(None)
        except Gone:
            pass
        self.died_at = time.time()
        self.lab.watcher.record_end(self.who(), self.died_at)
        if isinstance(self.body, subprocess.Popen):
            self.body.wait()  # a launcher ends right after what it launched


def _is_binary(body: subprocess.Popen[bytes]) -> bool:
    """Whether the agent itself was started, and not a script that starts it."""
    assert isinstance(body.args, list)
    with open(str(body.args[0]), "rb") as program:
        return program.read(4) == b"\x7fELF"


def make_prompt(script: str) -> tuple[str, str]:
    """A mark that no other turn has, and the prompt that carries it."""
    mark = f"m{next(_marks)}x{os.getpid()}"
    return mark, f"{mark} {script.replace('%', mark)}"


def identity_of(pid: int) -> ProcessIdentity:
    return proc.read_process(pid, proc.read_boot_id()).identity
