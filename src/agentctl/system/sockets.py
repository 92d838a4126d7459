"""TCP sockets as the kernel lists them: those of one process, and whose connection one is."""

from __future__ import annotations

from agentctl.errors import Gone
from agentctl.light_typing import TYPE_CHECKING, Iterator, NamedTuple
from agentctl.system.proc import Process

if TYPE_CHECKING:
    import socket

TABLES = ("net/tcp", "net/tcp6")  # of a process, which has a network namespace
V4, V6 = "/proc/net/tcp", "/proc/net/tcp6"  # ours
CAP = 1 << 20  # bytes of one table: some 7000 sockets
ESTABLISHED = "01"
_LOCAL, _REMOTE, _STATE, _UID, _INODE = 1, 2, 3, 7, 9  # columns


class Socket(NamedTuple):
    local: str  # ADDRESS:PORT, in the kernel's hexadecimal
    remote: str
    state: str


def read_sockets(process: Process) -> list[Socket]:
    """Return the TCP sockets that this process has open. Raises SourceError."""
    inodes = {link[8:-1] for link in process.list_open_files() if link.startswith("socket:[")}
    return [socket for inode, socket in _read_tables(process) if inode in inodes] if inodes else []


def is_connected(process: Process) -> bool:
    """Return True if one of its sockets has a connection. Raises SourceError."""
    return any(socket.state == ESTABLISHED for socket in read_sockets(process))


def _read_tables(process: Process) -> Iterator[tuple[str, Socket]]:
    """Yield every TCP socket of its network namespace, with its inode."""
    with process.entry() as entry:
        for table in TABLES:
            try:
                lines = entry.read(table, CAP).splitlines()[1:]
            except Gone:  # a kernel without IPv6
                continue
            for fields in (line.decode("ascii", "replace").split() for line in lines):
                if len(fields) > _INODE:
                    yield fields[_INODE], Socket(fields[_LOCAL], fields[_REMOTE], fields[_STATE])


def read_peer(connection: socket.socket) -> tuple[int, int, int]:
    """Return pid, uid and gid of the process at the other end of a Unix socket. Raises OSError."""
    import socket
    import struct

    peer = struct.Struct("3i")
    raw = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, peer.size)
    pid, uid, gid = peer.unpack(raw)
    return pid, uid, gid


def find_peer_uid(connection: socket.socket) -> int | None:
    """Return the user at the other end of a connection over loopback; None: the tables do not show it.

    The kernel lists both ends of such a connection. It shows uid 0 for a peer that has already closed
    its end. That is harmless: such a peer cannot read the response.
    """
    theirs, ours = connection.getpeername()[:2], connection.getsockname()[:2]
    for table, local, remote in _peer_rows(theirs, ours):
        uid = _find_uid(table, local, remote)
        if uid is not None:
            return uid
    return None


def _peer_rows(theirs: tuple[str, int], ours: tuple[str, int]) -> list[tuple[str, str, str]]:
    """Return in which tables, and as which local and remote address, the other end is listed."""
    if ":" in theirs[0]:
        return [(V6, _kernel_text(theirs), _kernel_text(ours))]
    mapped = [(f"::ffff:{host}", port) for host, port in (theirs, ours)]  # as Java's sockets are
    return [
        (V4, _kernel_text(theirs), _kernel_text(ours)),
        (V6, _kernel_text(mapped[0]), _kernel_text(mapped[1])),
    ]


def _kernel_text(address: tuple[str, int]) -> str:
    """Return ADDRESS:PORT as the kernel writes it: 32-bit words in this machine's byte order."""
    import socket
    import struct

    host, port = address
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    raw = socket.inet_pton(family, host.partition("%")[0])
    words = struct.unpack(f"={len(raw) // 4}I", raw)
    return "".join(f"{word:08X}" for word in words) + f":{port:04X}"


def _find_uid(table: str, local: str, remote: str) -> int | None:
    try:
        with open(table, encoding="ascii", errors="replace") as lines:
            for line in lines:
                if local in line:
                    columns = line.split()
                    if (columns[_LOCAL], columns[_REMOTE]) == (local, remote):
                        return int(columns[_UID])
    except OSError:  # a kernel without IPv6, or a sandbox without these tables
        pass
    return None
