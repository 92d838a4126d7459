"""The processes that belong to a session: those that a stop ends, those that it leaves, and why."""

from __future__ import annotations

from agentctl.errors import SourceError
from agentctl.light_typing import Mapping, NamedTuple
from agentctl.system.proc import Process

Table = Mapping[int, Process]


class RemainingProcess(NamedTuple):
    """A process that a stop leaves alive, and why. Its fields are part of the JSON of `stop`."""

    pid: int
    why: str
    command: str = ""
    terminal: str | None = None  # its terminal, if the user uses it


class Relatives(NamedTuple):
    members: tuple[Process, ...]  # to be ended, parents first; without the owner of the session
    not_ours: tuple[Process, ...]  # they belong to the session, but run as another user
    spared: tuple[RemainingProcess, ...]  # they look like members, and must live


def ancestors(table: Table, pid: int) -> list[int]:
    """Return this pid, its parent, and so on."""
    pids: list[int] = []
    while pid in table and pid not in pids:
        pids.append(pid)
        pid = table[pid].parent
    return pids or [pid]


def command_line(process: Process) -> str:
    try:
        return " ".join(process.argv) or process.comm
    except SourceError:
        return process.comm
