"""What a Codex process holds open: the locks and rollouts of its threads."""

from __future__ import annotations

from agentctl.adapters.codex import agent, rollout
from agentctl.adapters.codex.argv import Invocation, read_invocation
from agentctl.errors import Gone, SourceError
from agentctl.light_typing import NamedTuple
from agentctl.system.proc import Process
from agentctl.truth.look import Look

LOCKS = f"/{agent.LOCKS.removesuffix('*')}"  # below the root


class OpenFiles(NamedTuple):
    """What a Codex process holds open."""

    process: Process
    call: Invocation
    locks: dict[str, str]  # thread: path, as seen from here
    # Of the locked threads, and those open for writing: a server reads a thread before it takes it.
    rollouts: dict[str, str]
    has_databases: bool  # from some 40 ms after the start until the last thread is released
    has_none: bool  # not even standard input: the process is ending

    @property
    def has_no_thread(self) -> bool:
        return not self.locks and not self.rollouts

    @property
    def is_lingering_exec(self) -> bool:
        """Whether this is an exec that has finished and lingers, some 5 s, to send telemetry. An exec
        that still waits for standard input has no lock either, but has its databases open."""
        return self.call.role == "exec" and self.has_no_thread and not self.has_databases


def find_open_files(process: Process, look: Look) -> OpenFiles | None:
    """Return what a process holds open; None if it has just ended or is withheld."""
    try:
        return read_open_files(process, look)
    except Gone:
        return None
    except SourceError as error:
        look.report_unreadable(error)
        return None


def read_open_files(process: Process, look: Look) -> OpenFiles:
    """Raises SourceError."""
    locks: dict[str, str] = {}
    rollouts: dict[str, str] = {}
    has_databases = False
    links = process.list_open_files()
    for link in links:
        path = link.removesuffix(" (deleted)")  # a deleted file is still held
        name = path.rpartition("/")[2]
        if LOCKS in path and rollout.is_id(session_id := name.removesuffix(".lock")):
            locks[session_id] = look.resolve_path(process, path) + link.removeprefix(path)
        elif (thread_id := rollout.read_thread_id(name)) is not None:
            rollouts[thread_id] = link
        has_databases = has_databases or name.endswith(".sqlite")
    rollouts = {
        thread: look.resolve_path(process, link.removesuffix(" (deleted)"))
        for thread, link in rollouts.items()
        if thread in locks or process.has_open_to_write(link)
    }
    return OpenFiles(process, read_invocation(process), locks, rollouts, has_databases, not links)
