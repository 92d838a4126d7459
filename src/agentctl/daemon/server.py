"""The daemon's socket: who may connect, how much, for how long. `methods` answers the requests.

No client can hold up another. Each has at most one request at work and one response to read. The rest of
half a request must come within `patience`, and a client must read on within `patience`. If too many
clients are connected, the one that was silent longest is disconnected.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket

from agentctl.daemon_client import protocol
from agentctl.daemon_client.client import SOCKET, short_path
from agentctl.daemon_client.protocol import Request
from agentctl.errors import AgentctlError, Fault
from agentctl.light_typing import Any, Awaitable, Callable, NamedTuple, cast
from agentctl.system.sockets import read_peer

log = logging.getLogger("agentctl.daemon.server")

MOST = 200  # clients at once
BACKLOG = 128


class Peer(NamedTuple):
    """The process that sent a request, by the kernel's word, and its connection."""

    pid: int
    uid: int
    connection: Connection


class Connection:
    """One client. Its task reads a request, answers it, waits until the response is read, and so on."""

    def __init__(
        self, server: Server, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self._server, self._reader, self._writer = server, reader, writer
        self._is_busy = False  # a request is at work, or its response is not read yet
        self._is_ending = False  # no more requests are read
        self.subscribed = False
        self.task = cast("asyncio.Task[None]", asyncio.current_task())
        writer.transport.set_write_buffer_limits(high=0)  # `drain` waits for every byte
        pid, uid, _ = read_peer(writer.get_extra_info("socket"))
        self._peer = Peer(pid, uid, self)

    @property
    def is_silent(self) -> bool:
        """No request is at work and no event is waited for."""
        return not self._is_busy and not self.subscribed

    @property
    def unread_bytes(self) -> int:
        return self._writer.transport.get_write_buffer_size()

    async def run(self) -> None:
        """Serve the client until it has no more requests, or is refused."""
        try:
            self._server.admit(self, self._peer)
            while line := await self._read_line():
                await self._answer(line)
                await asyncio.sleep(0)  # the turn of other clients, also if this one sent many requests
            self._is_busy = self._is_ending = True
            await self._drain()
        except Fault as fault:
            await self._refuse(fault)
        except (OSError, asyncio.CancelledError):  # the client has hung up, or we do
            pass
        finally:
            self._server.connections.pop(self, None)
            self._writer.close()

    def ring(self, seq: int) -> None:
        """Send the bell, unless the client has not read the last one yet: that one will wake it."""
        if not self.unread_bytes and not self._writer.is_closing():
            self._writer.write(protocol.encode_notification("events", {"seq": seq}))

    def finish(self) -> None:
        """End after the response to the request that is at work, if any."""
        self._is_ending = True
        if not self._is_busy:
            self.task.cancel()

    def abort(self) -> None:
        self._writer.transport.abort()
        self.task.cancel()

    async def _read_line(self) -> bytes:
        """Return the next request; empty: there is none. Raises Fault."""
        first = b"" if self._is_ending else await self._reader.read(1)
        if not first or first == b"\n":
            return first
        self._server.note_activity(self)
        try:
            async with asyncio.timeout(self._server.patience):
                return first + await self._reader.readuntil(b"\n")
        except TimeoutError:
            raise Fault(protocol.INVALID, "half a request, and the rest did not come") from None
        except asyncio.IncompleteReadError as end:  # the last request needs no newline
            return first + end.partial
        except asyncio.LimitOverrunError:
            raise Fault(
                protocol.INVALID, f"a request has at most {protocol.REQUEST_CAP} bytes"
            ) from None

    async def _answer(self, line: bytes) -> None:
        if not line.strip():
            return
        self._is_busy = True
        request = protocol.parse_request(line)
        if isinstance(request, Fault):
            self._writer.write(protocol.encode_fault(request))
        else:
            response = await self._call(request)
            if request.needs_response:
                self._writer.write(response)
        await self._drain()
        self._is_busy = False

    async def _call(self, request: Request) -> bytes:
        """Return the response, also if the method fails."""
        try:
            return protocol.encode_result(request.id, await self._server.answer(request, self._peer))
        except Fault as fault:
            return protocol.encode_fault(Fault(fault.code, str(fault), request.id))
        except AgentctlError as error:
            return protocol.encode_fault(Fault(protocol.INTERNAL, str(error), request.id))
        except Exception as error:
            log.exception("%s failed", request.method)
            why = f"{type(error).__name__}: {error}"
            return protocol.encode_fault(Fault(protocol.INTERNAL, why, request.id))

    async def _refuse(self, fault: Fault) -> None:
        self._is_busy = True
        try:
            self._writer.write(protocol.encode_fault(fault))
            await self._drain()
        except OSError:  # the client has hung up
            pass

    async def _drain(self) -> None:
        """Wait until the client has read everything, however slowly. Raises OSError if it stops reading.
        A subscriber may sleep: no more than one bell waits for it."""
        while size := self.unread_bytes:
            try:
                async with asyncio.timeout(self._server.patience):
                    await self._writer.drain()
            except TimeoutError:
                may_sleep = self.subscribed and not self._is_ending
                if self.unread_bytes >= size and not may_sleep:
                    log.warning("a client (pid %d) does not read its answer: hung up", self._peer.pid)
                    self._writer.transport.abort()
                    raise


Answer = Callable[[Request, Peer], Awaitable[Any]]


class Server:
    """Runs in the loop's thread."""

    def __init__(self, home: str, answer: Answer, *, patience: float = 10.0, most: int = MOST) -> None:
        self.home = home
        self.answer = answer
        self.patience = patience  # seconds for half a request, and for an unread answer
        self.most = most
        self.is_ending = False
        self.connections: dict[Connection, None] = {}  # the one that was silent longest first
        self._listening: asyncio.Server | None = None
        self._inode: tuple[int, int] | None = None

    @property
    def path(self) -> str:
        return f"{self.home}/{SOCKET}"

    async def listen(self) -> None:
        """Replace the socket at our path, in one step. This process holds the lock of the home, so that
        socket is a dead daemon's. Raises OSError."""
        old, bound = self._listening, self._bind()
        # the first byte of a request is read before the rest
        limit = protocol.REQUEST_CAP - 1
        self._listening = await asyncio.start_unix_server(self._serve, sock=bound, limit=limit)
        if old is not None:
            old.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await Connection(self, reader, writer).run()

    def _bind(self) -> socket.socket:
        listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        try:
            with short_path(self.home) as place:
                new = f"{place}/{SOCKET}.new"
                if os.path.lexists(new):  # left by a daemon that was killed right here
                    os.unlink(new)
                listening.bind(new)
                os.chmod(new, 0o600)
                listening.listen(BACKLOG)
                status = os.stat(new)
                os.rename(new, f"{place}/{SOCKET}")
        except BaseException:
            listening.close()
            raise
        self._inode = (status.st_dev, status.st_ino)
        return listening

    def is_reachable(self) -> bool:
        """Return True if clients find this server."""
        try:
            status = os.lstat(self.path)
        except OSError:
            return False
        return (status.st_dev, status.st_ino) == self._inode

    def close(self) -> None:
        """No new clients, no new requests."""
        self.is_ending = True
        if self._listening is not None:
            self._listening.close()
        if self.is_reachable():
            os.unlink(self.path)
        for connection in tuple(self.connections):
            connection.finish()

    async def drain(self) -> None:
        """Return when every request that is at work is answered and its response is read."""
        while tasks := [each.task for each in self.connections]:
            await asyncio.wait(tasks)

    def abort(self) -> None:
        for connection in tuple(self.connections):
            connection.abort()

    def admit(self, newcomer: Connection, peer: Peer) -> None:
        """Add a client, if need be in the place of the one that was silent longest. Raises Fault."""
        if peer.uid != os.geteuid():
            log.warning("refused a client of uid %d (pid %d)", peer.uid, peer.pid)
            raise Fault(protocol.NOT_YOURS, "this is another user's daemon")
        if self.is_ending:
            raise Fault(protocol.ENDING, "the daemon is about to end")
        if len(self.connections) >= self.most:
            silent = next((each for each in self.connections if each.is_silent), None)
            if silent is None:
                raise Fault(protocol.BUSY, "too many clients")
            log.warning("%d clients: disconnected the one that was silent longest", self.most)
            silent.abort()
            self.connections.pop(silent, None)
        self.connections[newcomer] = None

    def note_activity(self, connection: Connection) -> None:
        """Move a client to the end of those that may be disconnected."""
        if connection in self.connections:
            self.connections[connection] = self.connections.pop(connection)
