"""The client of a daemon: connect, call methods, read notifications.

The daemon is trusted only if the kernel says that it runs as this user. Its responses are bounded in
size and time: a daemon that hangs is an error, not an endless wait.
"""

from __future__ import annotations

import os
import socket
import time
from contextlib import contextmanager

from agentctl import __version__
from agentctl.daemon_client import protocol as lines
from agentctl.errors import Fault, NoDaemon, Unreachable
from agentctl.light_typing import Any, Iterator, Mapping, NamedTuple
from agentctl.system.sockets import read_peer
from agentctl.system.this_process import descriptor_path

SOCKET = "daemon.sock"
LONGEST_PATH = 107  # bytes, in sockaddr_un
PATIENCE = 10.0  # seconds for one response
RESTART = "agentctl daemon restart"


class Hello(NamedTuple):
    """The daemon that answers."""

    protocol: int
    version: str
    pid: int
    start: int  # with the pid: its process identity
    home: str


class Client:
    """One connection. Use as a context manager. Raises NoDaemon if no daemon listens."""

    def __init__(self, home: str, patience: float = PATIENCE) -> None:
        self.home = home
        self.patience = patience
        self._buffer = bytearray()
        self._last_id = 0
        self._notifications: list[dict[str, Any]] = []
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
        """Return a descriptor that is readable when a notification came or the daemon has ended."""
        return self._socket.fileno()

    def hello(self) -> Hello:
        """Return who answers, of any version."""
        fields = self.call("hello", {"protocol": lines.PROTOCOL, "version": __version__})
        try:
            protocol, pid, start = (int(fields[name]) for name in ("protocol", "pid", "start"))
            return Hello(protocol, str(fields["version"]), pid, start, str(fields["home"]))
        except (KeyError, TypeError, ValueError) as error:
            raise Unreachable("the daemon's hello is of an unknown shape", RESTART) from error

    def check_protocol(self) -> Hello:
        """Return who answers. Raises Unreachable if the daemon speaks another protocol."""
        hello = self.hello()
        if hello.protocol != lines.PROTOCOL:
            raise Unreachable(
                f"the daemon is agentctl {hello.version} (protocol {hello.protocol}), "
                f"this is {__version__} (protocol {lines.PROTOCOL})",
                RESTART,
            )
        return hello

    def call(self, method: str, params: Mapping[str, Any] | None = None) -> Any:
        """Return the result. Raises Fault for the daemon's error, Unreachable if no response comes."""
        self._last_id += 1
        deadline = time.monotonic() + self.patience
        try:
            self._socket.settimeout(self.patience)
            self._socket.sendall(lines.encode_request(self._last_id, method, params))
        except OSError:  # the daemon hung up; its reason may be there to read
            pass
        try:
            while True:
                message = self._read_message(deadline)
                if "method" in message:
                    self._notifications.append(message)
                elif message.get("id") == self._last_id:
                    return message.get("result")
        except TimeoutError as error:
            raise Unreachable(
                f"the daemon did not answer within {self.patience:g} s", "agentctl daemon status"
            ) from error

    def read_notification(self, timeout: float | None = None) -> dict[str, Any] | None:
        """Return the next notification; None: none came in time. Raises NoDaemon when the daemon
        ends."""
        if self._notifications:
            return self._notifications.pop(0)
        deadline = None if timeout is None else time.monotonic() + timeout
        try:
            return self._read_message(deadline)
        except TimeoutError:
            return None

    def _read_message(self, deadline: float | None) -> dict[str, Any]:
        """Raise TimeoutError, Fault or NoDaemon if no message comes."""
        while b"\n" not in self._buffer:
            remaining = None if deadline is None else deadline - time.monotonic()
            if remaining is not None and remaining <= 0:
                raise TimeoutError
            self._socket.settimeout(remaining)
            try:
                data = self._socket.recv(1 << 16)
            except TimeoutError:
                raise
            except OSError as error:
                raise _connection_lost() from error
            if not data or len(self._buffer) > lines.ANSWER_CAP:
                raise _connection_lost()
            self._buffer += data
        line, _, rest = self._buffer.partition(b"\n")
        self._buffer = rest
        message = lines.parse_response(bytes(line))
        if isinstance(message, Fault):
            raise message
        return message

    def _connect(self) -> None:
        self._socket.settimeout(self.patience)
        try:
            with short_path(self.home) as place:
                self._socket.connect(f"{place}/{SOCKET}")
        except TimeoutError as error:  # the backlog is full: the daemon lives and accepts no client
            raise Unreachable("the daemon takes no connection", RESTART) from error
        except PermissionError as error:
            raise Unreachable(f"{self.home}/{SOCKET}: permission denied") from error
        except OSError as error:
            raise NoDaemon(f"no daemon runs for {self.home}", "agentctl daemon start") from error
        _, uid, _ = read_peer(self._socket)
        if uid != os.geteuid():
            raise Unreachable(f"{self.home}/{SOCKET} is another user's (uid {uid})")


def connect(home: str, patience: float = PATIENCE) -> Client:
    """Connect to a daemon of our protocol. Raises NoDaemon, also for a daemon that is about to end, and
    Unreachable."""
    client = Client(home, patience)
    try:
        client.check_protocol()
    except Fault as fault:
        client.close()
        if fault.code == lines.ENDING:
            raise NoDaemon(str(fault), "agentctl daemon start") from fault
        raise Unreachable(f"the daemon refuses: {fault}", "agentctl daemon logs") from fault
    except BaseException:
        client.close()
        raise
    return client


def _connection_lost() -> NoDaemon:
    return NoDaemon("the daemon has ended, or hung up", "agentctl daemon status")


@contextmanager
def short_path(home: str) -> Iterator[str]:
    """Yield a name of the directory that leaves room for the socket's: addresses end at 107 bytes."""
    if len(os.fsencode(home)) + len(SOCKET) + 16 <= LONGEST_PATH:
        yield home
        return
    fd = os.open(home, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield descriptor_path(fd)
    finally:
        os.close(fd)
