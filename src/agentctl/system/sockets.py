"""A process's TCP sockets, as the kernel tells them: whether it talks to anybody just now."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from agentctl.errors import Gone
from agentctl.system.proc import Process

TABLES = ("net/tcp", "net/tcp6")
CAP = 1 << 20  # bytes of one table: some 7000 sockets
ESTABLISHED = "01"


class Socket(NamedTuple):
    local: str  # ADDRESS:PORT, in the kernel's hexadecimal
    remote: str
    state: str


def sockets(process: Process) -> list[Socket]:
    """Those that it holds open. Raises SourceError."""
    held = {
        link[8:-1] for link in process.open_files() if link.startswith("socket:[")
    }  # by their inodes
    return [socket for inode, socket in _known(process) if inode in held] if held else []


def is_connected(process: Process) -> bool:
    """Whether it has a connection to somebody. Raises SourceError."""
    return any(socket.state == ESTABLISHED for socket in sockets(process))


def _known(process: Process) -> Iterator[tuple[str, Socket]]:
    """Every TCP socket of its network namespace, by inode."""
    with process.entry() as handle:
        for table in TABLES:
            try:
                lines = handle.read(table, CAP).splitlines()[1:]
            except Gone:  # a kernel without IPv6
                continue
            for fields in (line.decode("ascii", "replace").split() for line in lines):
                if len(fields) > 9:
                    yield fields[9], Socket(fields[1], fields[2], fields[3])
