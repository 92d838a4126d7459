"""The socket: who may connect, how much, for how long. What is asked is for `methods`.

No client can hold another: each has at most one request at work and one answer to be read, half a
request waits for its other half for so long, an unread answer to be read for so long, and whoever is
silent longest goes when too many are here.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import Awaitable, Callable
from typing import Any

from agentctl.daemon.connection import Connection, Peer
from agentctl.daemon_client.client import SOCKET, short
from agentctl.daemon_client.protocol import Request

log = logging.getLogger("agentctl.daemon.server")

MOST = 200  # clients at once
BACKLOG = 128

Answer = Callable[[Request, Peer], Awaitable[Any]]


class Server:
    """Runs in the loop's thread."""

    def __init__(self, home: str, answer: Answer, *, patience: float = 10.0, most: int = MOST) -> None:
        self.home = home
        self.answer = answer
        self.patience = patience  # seconds for half a request, and for an unread answer
        self.most = most
        self.ending = False
        self.connections: dict[Connection, None] = {}  # the longest silent first
        self._listening: asyncio.Server | None = None
        self._inode: tuple[int, int] | None = None

    @property
    def path(self) -> str:
        return f"{self.home}/{SOCKET}"

    async def listen(self) -> None:
        """Whatever is at our path is replaced, in one step: only who holds the lock of the home comes
        here, so it is a dead daemon's. Raises OSError."""
        bound = self._bound()
        old, loop = self._listening, asyncio.get_running_loop()
        self._listening = await loop.create_unix_server(lambda: Connection(self), sock=bound)
        if old is not None:
            old.close()

    def _bound(self) -> socket.socket:
        made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        try:
            with short(self.home) as place:
                new = f"{place}/{SOCKET}.new"
                if os.path.lexists(new):  # left by one that was killed right here
                    os.unlink(new)
                made.bind(new)
                os.chmod(new, 0o600)
                made.listen(BACKLOG)
                status = os.stat(new)
                os.rename(new, f"{place}/{SOCKET}")
        except BaseException:
            made.close()
            raise
        self._inode = (status.st_dev, status.st_ino)
        return made

    def still_there(self) -> bool:
        """Whether clients find us."""
        try:
            status = os.lstat(self.path)
        except OSError:
            return False
        return (status.st_dev, status.st_ino) == self._inode

    def close(self) -> None:
        """No new clients, no new requests."""
        self.ending = True
        if self._listening is not None:
            self._listening.close()
        if self.still_there():
            os.unlink(self.path)
        for connection in tuple(self.connections):
            connection.finish()

    async def drained(self) -> None:
        """When every request that is at work has been answered, and read."""
        while self.connections:
            await asyncio.wait([connection.closed for connection in self.connections])

    def abort(self) -> None:
        for connection in tuple(self.connections):
            connection.abort()

    def admit(self, newcomer: Connection) -> bool:
        """Whether there is room, if need be by sending away who has been silent longest."""
        if len(self.connections) >= self.most:
            silent = next((each for each in self.connections if each.silent), None)
            if silent is None:
                return False
            log.warning("%d clients: sent away the one that was silent longest", self.most)
            silent.abort()
            self.connections.pop(silent, None)
        self.connections[newcomer] = None
        return True

    def spoke(self, connection: Connection) -> None:
        if connection in self.connections:
            self.connections[connection] = self.connections.pop(connection)
