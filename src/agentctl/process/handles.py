"""Handles on several processes at once: opened before the first signal, so that each signal reaches the
process that was meant, whoever its parent or its pid's next owner may be by then."""

from __future__ import annotations

import select
import time
from collections.abc import Callable, Iterable, Sequence
from signal import SIGCONT, SIGKILL, Signals

from agentctl.errors import Forbidden, Gone
from agentctl.process.kinship import Left, command_of
from agentctl.system import proc
from agentctl.system.identity import ProcessIdentity
from agentctl.system.pidfd import LONGEST, Handle
from agentctl.system.proc import Process

NOT_OURS = "another user's process"
DEATH = 5.0  # seconds that KILL may take: the kernel has to let go of what the process held


class Targets:
    """Use as a context manager."""

    def __init__(self) -> None:
        self._handles: dict[ProcessIdentity, Handle] = {}
        self._names: dict[ProcessIdentity, str] = {}
        self._commands: dict[ProcessIdentity, str] = {}
        self._refused: dict[ProcessIdentity, str] = {}

    def __enter__(self) -> Targets:
        return self

    def __exit__(self, *_: object) -> None:
        for handle in self._handles.values():
            handle.close()

    @property
    def identities(self) -> frozenset[ProcessIdentity]:
        return frozenset(self._handles)

    def open(self, processes: Iterable[Process]) -> int:
        """How many of these are new, and alive."""
        before = len(self._handles)
        for process in processes:
            if process.identity not in self._handles:
                self._open(process)
        return len(self._handles) - before

    def name(self, processes: Sequence[Process]) -> None:
        """Those that belong here and are not ours to end: signalled never, told as survivors."""
        for process in processes:
            self._refused[process.identity] = NOT_OURS
        self.open(processes)

    def living(self) -> list[Handle]:
        """Those that have not ended, but for those we may not end."""
        return [
            handle
            for identity, handle in self._handles.items()
            if identity not in self._refused and not handle.wait(0)
        ]

    def signal(self, number: Signals) -> int:
        """To all that live. How many it reached."""
        return sum([self._signal(handle, number) for handle in self.living()])

    def wait(self, seconds: float) -> bool:
        """Whether all have ended; returns at once when they have."""
        deadline = time.monotonic() + seconds
        poller, left = select.poll(), {}
        for handle in self.living():
            left[handle.fileno()] = handle
            poller.register(handle, select.POLLIN)
        while left:
            rest = max(0.0, deadline - time.monotonic()) * 1000
            ended = poller.poll(min(rest, LONGEST))
            if not ended:
                return False
            for fd, _ in ended:
                poller.unregister(left.pop(fd))
        return True

    def ended(self) -> int:
        return sum(handle.wait(0) for handle in self._handles.values())

    def survivors(self) -> tuple[Left, ...]:
        return tuple(
            Left(
                identity.pid,
                f"{self._names[identity]}: {self._refused.get(identity) or _state(identity)}",
                self._commands[identity],
            )
            for identity, handle in self._handles.items()
            if not handle.wait(0)
        )

    def _open(self, process: Process) -> None:
        try:
            handle = Handle(process.identity)
        except Gone:  # it has ended by itself since the table was read
            return
        if handle.wait(0):  # a zombie: nothing to end
            handle.close()
            return
        self._handles[process.identity] = handle
        self._names[process.identity] = process.comm
        self._commands[process.identity] = command_of(process)  # now: later there may be none to ask

    def _signal(self, handle: Handle, number: Signals) -> bool:
        try:
            handle.signal(number)
            process = proc.current(handle.identity)
            if process is not None and process.state in "Tt":  # suspended: it acts on none but KILL
                handle.signal(SIGCONT)
        except Gone:
            return False
        except Forbidden:
            self._refused[handle.identity] = NOT_OURS
            return False
        return True


def kill_all(find: Callable[[frozenset[ProcessIdentity]], Iterable[Process]]) -> None:
    """Until a look finds none but those known by then: `find` is given these."""
    with Targets() as targets:
        while targets.open(find(targets.identities)):
            targets.signal(SIGKILL)
            targets.wait(DEATH)


def _state(identity: ProcessIdentity) -> str:
    process = proc.current(identity)
    if process is not None and process.state == "D":
        return "stuck in the kernel, as on a file system that does not answer"
    return "does not end"
