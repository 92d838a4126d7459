"""The processes of one session, as words: who is to go, who is not, and how each is called."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from agentctl.errors import SourceError
from agentctl.system.proc import Process

Table = Mapping[int, Process]


class Left(NamedTuple):
    """A process that stays, and why."""

    pid: int
    why: str
    command: str = ""
    terminal: str | None = None  # the one that a person uses, if that is why


class Tree(NamedTuple):
    members: tuple[Process, ...]  # to be ended, the oldest of a family first; never the owner itself
    not_ours: tuple[Process, ...]  # they belong to it, and are another user's
    spared: tuple[Left, ...]  # they look like it, and are to live


def line_of(table: Table, pid: int) -> list[int]:
    """This process, its parent, and so on."""
    found: list[int] = []
    while pid in table and pid not in found:
        found.append(pid)
        pid = table[pid].parent
    return found or [pid]


def command_of(process: Process) -> str:
    try:
        return " ".join(process.argv) or process.comm
    except SourceError:
        return process.comm
