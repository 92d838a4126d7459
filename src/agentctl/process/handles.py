"""Handles on several processes at once. They are opened before the first signal, so that each signal
reaches the intended process even if it gets another parent, or its pid another process."""

from __future__ import annotations

import select
import time
from signal import SIGCONT, SIGKILL, Signals

from agentctl.errors import Forbidden, Gone
from agentctl.light_typing import Callable, Iterable, Sequence
from agentctl.process.relatives import RemainingProcess, command_line
from agentctl.system import proc
from agentctl.system.pidfd import LONGEST, Handle
from agentctl.system.proc import Process, ProcessIdentity

NOT_OURS = "another user's process"
DEATH = 5.0  # seconds that KILL may take: the kernel first releases what the process holds


class ProcessHandles:
    """Use as a context manager."""

    def __init__(self) -> None:
        self._handles: dict[ProcessIdentity, Handle] = {}
        self._names: dict[ProcessIdentity, str] = {}
        self._commands: dict[ProcessIdentity, str] = {}
        self._refusals: dict[ProcessIdentity, str] = {}

    def __enter__(self) -> ProcessHandles:
        return self

    def __exit__(self, *_: object) -> None:
        for handle in self._handles.values():
            handle.close()

    @property
    def identities(self) -> frozenset[ProcessIdentity]:
        return frozenset(self._handles)

    def open(self, processes: Iterable[Process]) -> int:
        """Open handles on living processes. Return how many of them are new."""
        before = len(self._handles)
        for process in processes:
            if process.identity not in self._handles:
                self._open(process)
        return len(self._handles) - before

    def open_unsignalled(self, processes: Sequence[Process]) -> None:
        """Open handles on another user's processes: they get no signal, and count as survivors."""
        for process in processes:
            self._refusals[process.identity] = NOT_OURS
        self.open(processes)

    def list_living(self) -> list[Handle]:
        """Return the handles on processes that live and that we may signal."""
        return [
            handle
            for identity, handle in self._handles.items()
            if identity not in self._refusals and not handle.wait(0)
        ]

    def signal(self, number: Signals) -> int:
        """Signal all living processes. Return how many the signal reached."""
        return sum([self._signal(handle, number) for handle in self.list_living()])

    def wait(self, seconds: float) -> bool:
        """Return True as soon as all processes have ended, False after that many seconds."""
        deadline = time.monotonic() + seconds
        poller, living = select.poll(), {}
        for handle in self.list_living():
            living[handle.fileno()] = handle
            poller.register(handle, select.POLLIN)
        while living:
            rest = max(0.0, deadline - time.monotonic()) * 1000
            ready = poller.poll(min(rest, LONGEST))
            if not ready:
                return False
            for fd, _ in ready:
                poller.unregister(living.pop(fd))
        return True

    def count_ended(self) -> int:
        return sum(handle.wait(0) for handle in self._handles.values())

    def list_survivors(self) -> tuple[RemainingProcess, ...]:
        return tuple(
            RemainingProcess(
                identity.pid,
                f"{self._names[identity]}: {self._refusals.get(identity) or _describe_state(identity)}",
                self._commands[identity],
            )
            for identity, handle in self._handles.items()
            if not handle.wait(0)
        )

    def _open(self, process: Process) -> None:
        try:
            handle = Handle(process.identity)
        except Gone:  # the process has ended since the table was read
            return
        if handle.wait(0):  # a zombie: nothing to end
            handle.close()
            return
        self._handles[process.identity] = handle
        self._names[process.identity] = process.comm
        self._commands[process.identity] = command_line(process)  # a process that ends loses it

    def _signal(self, handle: Handle, number: Signals) -> bool:
        try:
            handle.signal(number)
            process = proc.find_process(handle.identity)
            if process is not None and process.state in "Tt":  # a suspended process acts only on KILL
                handle.signal(SIGCONT)
        except Gone:
            return False
        except Forbidden:
            self._refusals[handle.identity] = NOT_OURS
            return False
        return True


def kill_all(find: Callable[[frozenset[ProcessIdentity]], Iterable[Process]]) -> None:
    """Kill processes until `find` returns no new ones. `find` receives those that it returned before."""
    with ProcessHandles() as handles:
        while handles.open(find(handles.identities)):
            handles.signal(SIGKILL)
            handles.wait(DEATH)


def _describe_state(identity: ProcessIdentity) -> str:
    process = proc.find_process(identity)
    if process is not None and process.state == "D":
        return "stuck in the kernel, as on a file system that does not answer"
    return "does not end"
