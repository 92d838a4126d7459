"""Whose connection it is. The kernel lists every TCP socket of this machine with its owner; a connection
over loopback has both of its ends in that list."""

from __future__ import annotations

import socket
import struct

V4, V6 = "/proc/net/tcp", "/proc/net/tcp6"
_LOCAL, _REMOTE, _UID = 1, 2, 7  # columns


def uid_of(connection: socket.socket) -> int | None:
    """Of the process at the other end; None: nobody can tell. The kernel reports uid 0 for a peer that
    has already closed its end. That is harmless: such a peer cannot read the answer."""
    theirs, ours = connection.getpeername()[:2], connection.getsockname()[:2]
    for table, text in _places(theirs, ours):
        uid = _found(table, text)
        if uid is not None:
            return uid
    return None


def _places(theirs: tuple[str, int], ours: tuple[str, int]) -> list[tuple[str, tuple[str, str]]]:
    """In which tables, and as what, the other end would be listed."""
    if ":" in theirs[0]:
        return [(V6, (_written(socket.AF_INET6, theirs), _written(socket.AF_INET6, ours)))]
    mapped = [(f"::ffff:{host}", port) for host, port in (theirs, ours)]  # as Java's sockets are
    return [
        (V4, (_written(socket.AF_INET, theirs), _written(socket.AF_INET, ours))),
        (V6, (_written(socket.AF_INET6, mapped[0]), _written(socket.AF_INET6, mapped[1]))),
    ]


def _written(family: socket.AddressFamily, place: tuple[str, int]) -> str:
    """Words of 32 bits as this machine has them, in hexadecimal."""
    raw = socket.inet_pton(family, place[0].partition("%")[0])
    words = struct.unpack(f"={len(raw) // 4}I", raw)
    return "".join(f"{word:08X}" for word in words) + f":{place[1]:04X}"


def _found(table: str, pair: tuple[str, str]) -> int | None:
    try:
        with open(table, encoding="ascii", errors="replace") as lines:
            for line in lines:
                if pair[0] in line:
                    columns = line.split()
                    if (columns[_LOCAL], columns[_REMOTE]) == pair:
                        return int(columns[_UID])
    except OSError:  # a kernel without IPv6, or a sandbox without these tables
        pass
    return None
