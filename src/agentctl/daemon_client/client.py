"""The client of a daemon: connects, says hello, asks, hears the bell.

The daemon is believed only if the kernel says that it runs as this very user; its answers are bounded
in size and time, so that one that hangs is an error and not a wait for ever.
"""

from __future__ import annotations

import os
import socket
import struct
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

from agentctl import __version__
from agentctl.daemon_client import protocol as lines
from agentctl.errors import Fault, NoDaemon, Unreachable

SOCKET = "daemon.sock"
LONGEST = 107  # bytes of a path in sockaddr_un
PATIENCE = 10.0  # seconds for one answer
RESTART = "agentctl daemon restart"
CREDENTIALS = struct.Struct("3i")  # pid, uid, gid


class Hello(NamedTuple):
    """Who answers."""

    protocol: int
    version: str
    pid: int
    start: int  # with the pid, its identity
    home: str


class Client:
    """One connection. Use as a context manager. Raises NoDaemon where nobody listens."""

    def __init__(self, home: str, patience: float = PATIENCE) -> None:
        self.home = home
        self.patience = patience
        self._buffer = bytearray()
        self._asked = 0
        self._rung: list[dict[str, Any]] = []
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
        try:
            self._connect()
        except BaseException:
            self._socket.close()
            raise

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._socket.close()

    def fileno(self) -> int:
        """Readable when the bell rang, or the daemon has ended."""
        return self._socket.fileno()

    def hello(self) -> Hello:
        """Who answers, of whatever version."""
        told = self.call("hello", {"protocol": lines.PROTOCOL, "version": __version__})
        try:
            protocol, pid, start = (int(told[name]) for name in ("protocol", "pid", "start"))
            return Hello(protocol, str(told["version"]), pid, start, str(told["home"]))
        except (KeyError, TypeError, ValueError) as error:
            raise Unreachable(
                "the daemon says hello in a way that is not known here", RESTART
            ) from error

    def understood(self) -> Hello:
        """The same, of one that speaks as we do. Raises Unreachable, with what to do."""
        told = self.hello()
        if told.protocol != lines.PROTOCOL:
            raise Unreachable(
                f"the daemon is agentctl {told.version} (protocol {told.protocol}), "
                f"this is {__version__} (protocol {lines.PROTOCOL})",
                RESTART,
            )
        return told

    def call(self, method: str, params: Mapping[str, Any] | None = None) -> Any:
        """Its result. Raises Fault with its error, Unreachable where none comes."""
        self._asked += 1
        deadline = time.monotonic() + self.patience
        try:
            self._socket.settimeout(self.patience)
            self._socket.sendall(lines.request(self._asked, method, params))
        except OSError:  # it hung up on us; perhaps not without a word, which is there to read
            pass
        try:
            while True:
                told = self._next(deadline)
                if "method" in told:
                    self._rung.append(told)
                elif told.get("id") == self._asked:
                    return told.get("result")
        except TimeoutError as error:
            raise Unreachable(
                f"the daemon did not answer within {self.patience:g} s", "agentctl daemon status"
            ) from error

    def rung(self, timeout: float | None = None) -> dict[str, Any] | None:
        """The next notification; None: none within the time. Raises NoDaemon when the daemon ends."""
        if self._rung:
            return self._rung.pop(0)
        deadline = None if timeout is None else time.monotonic() + timeout
        try:
            return self._next(deadline)
        except TimeoutError:
            return None

    def _next(self, deadline: float | None) -> dict[str, Any]:
        """The next message. Raises TimeoutError, Fault, NoDaemon."""
        while b"\n" not in self._buffer:
            left = None if deadline is None else deadline - time.monotonic()
            if left is not None and left <= 0:
                raise TimeoutError
            self._socket.settimeout(left)
            try:
                got = self._socket.recv(1 << 16)
            except TimeoutError:
                raise
            except OSError as error:
                raise self._lost() from error
            if not got or len(self._buffer) > lines.ANSWER_CAP:
                raise self._lost()
            self._buffer += got
        line, _, rest = self._buffer.partition(b"\n")
        self._buffer = rest
        told = lines.answer(bytes(line))
        if isinstance(told, Fault):
            raise told
        return told

    def _connect(self) -> None:
        self._socket.settimeout(self.patience)
        try:
            with short(self.home) as place:
                self._socket.connect(f"{place}/{SOCKET}")
        except TimeoutError as error:  # its backlog is full: it lives, and takes nobody any more
            raise Unreachable("the daemon takes no connection", "agentctl daemon restart") from error
        except PermissionError as error:
            raise Unreachable(f"{self.home}/{SOCKET}: permission denied") from error
        except OSError as error:
            raise NoDaemon(f"no daemon runs for {self.home}", "agentctl daemon start") from error
        _, uid, _ = credentials(self._socket)
        if uid != os.geteuid():
            raise Unreachable(f"{self.home}/{SOCKET} is another user's (uid {uid})")

    def _lost(self) -> NoDaemon:
        return NoDaemon("the daemon has ended, or hung up", "agentctl daemon status")


def connect(home: str, patience: float = PATIENCE) -> Client:
    """To a daemon that speaks as we do. Raises NoDaemon, also for one that is about to end, and
    Unreachable."""
    client = Client(home, patience)
    try:
        client.understood()
    except Fault as fault:
        client.close()
        if fault.code == lines.ENDING:
            raise NoDaemon(str(fault), "agentctl daemon start") from fault
        raise Unreachable(f"the daemon refuses: {fault}", "agentctl daemon logs") from fault
    except BaseException:
        client.close()
        raise
    return client


def credentials(connected: socket.socket) -> tuple[int, int, int]:
    """The kernel's word on who is at the other end: pid, uid, gid."""
    size = CREDENTIALS.size
    pid, uid, gid = CREDENTIALS.unpack(connected.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size))
    return pid, uid, gid


@contextmanager
def short(home: str) -> Iterator[str]:
    """The same directory by a name that leaves room for a socket's: addresses end at 107 bytes."""
    if len(os.fsencode(home)) + len(SOCKET) + 16 <= LONGEST:
        yield home
        return
    fd = os.open(home, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{fd}"
    finally:
        os.close(fd)
