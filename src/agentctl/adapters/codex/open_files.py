"""What a Codex process holds open: the locks and rollouts of its threads."""

from __future__ import annotations

from typing import NamedTuple

from agentctl.adapters.codex import rollout
from agentctl.adapters.codex.argv import Invocation, invocation_of
from agentctl.errors import Gone, SourceError
from agentctl.system.proc import Process
from agentctl.truth.look import Look

LOCKS = "/thread-writer-locks/"


class Grip(NamedTuple):
    """What a Codex process holds open."""

    process: Process
    call: Invocation
    locks: dict[str, str]  # thread: path, as seen from here
    # of these, and those that it writes: a server reads a thread before it takes it
    rollouts: dict[str, str]
    databases: bool  # from some 40 ms after its start until its last thread is released
    nothing: bool  # not even a standard input: it is ending, and the kernel has closed all it had

    @property
    def empty(self) -> bool:
        return not self.locks and not self.rollouts

    @property
    def spent(self) -> bool:
        """An exec that is done and lingers, some 5 s, to deliver telemetry. One that still waits for
        its standard input has no lock either, but its databases open."""
        return self.call.role == "exec" and self.empty and not self.databases


def grip_of(process: Process, look: Look) -> Grip | None:
    """None: it has just ended, or may not be looked into; it is then listed as a bare process."""
    try:
        return read_grip(process, look)
    except Gone:
        return None
    except SourceError as error:
        look.unreadable(error)
        return None


def read_grip(process: Process, look: Look) -> Grip:
    """Raises SourceError."""
    locks: dict[str, str] = {}
    rollouts: dict[str, str] = {}
    databases = False
    links = process.open_files()
    for link in links:
        path = link.removesuffix(" (deleted)")  # held is held, whatever became of the name
        name = path.rpartition("/")[2]
        if LOCKS in path and rollout.is_id(session_id := name.removesuffix(".lock")):
            locks[session_id] = look.through(process, path) + link.removeprefix(path)
        elif (found := rollout.thread_id(name)) is not None:
            rollouts[found] = link
        databases = databases or name.endswith(".sqlite")
    rollouts = {
        thread: look.through(process, link.removesuffix(" (deleted)"))
        for thread, link in rollouts.items()
        if thread in locks or process.writes(link)
    }
    return Grip(process, invocation_of(process), locks, rollouts, databases, not links)
