"""One client of the daemon: its bytes in, its answers out, one at a time."""

from __future__ import annotations

import asyncio
import logging
import os
from typing import TYPE_CHECKING, NamedTuple, cast

from agentctl.daemon_client import protocol
from agentctl.daemon_client.client import credentials
from agentctl.daemon_client.protocol import Request
from agentctl.errors import AgentctlError, Fault

if TYPE_CHECKING:
    from agentctl.daemon.server import Server

log = logging.getLogger("agentctl.daemon.server")


class Peer(NamedTuple):
    """Who asks, by the kernel's word, and how to ring at its door."""

    pid: int
    uid: int
    connection: Connection


class Connection(asyncio.Protocol):
    """asyncio calls these in the loop's thread."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport
        self._peer: Peer
        self._buffer = bytearray()
        self._task: asyncio.Task[None] | None = None
        self._stuck = False  # an answer is not read yet
        self._over = False  # no more requests: it has said all, or we have
        self._half: asyncio.TimerHandle | None = None
        self._unread: asyncio.TimerHandle | None = None
        self.subscribed = False
        self.closed: asyncio.Future[None] = self._loop.create_future()

    @property
    def silent(self) -> bool:
        """Asks nothing, waits for nothing."""
        return self._task is None and not self.subscribed and not self._stuck

    # what asyncio tells

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._transport.set_write_buffer_limits(high=0)  # tell us of every byte that is not taken
        pid, uid, _ = credentials(transport.get_extra_info("socket"))
        self._peer = Peer(pid, uid, self)
        if uid != os.geteuid():
            log.warning("refused a client of uid %d (pid %d)", uid, pid)
            self._refuse(Fault(protocol.NOT_YOURS, "this is another user's daemon"))
        elif self._server.ending:
            self._refuse(Fault(protocol.ENDING, "the daemon is about to end"))
        elif not self._server.admit(self):
            self._refuse(Fault(protocol.BUSY, "too many clients"))

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's word
        self._server.connections.pop(self, None)
        for timer in (self._half, self._unread):
            if timer is not None:
                timer.cancel()
        if self._task is not None:  # nobody is left to be answered
            self._task.cancel()
        if not self.closed.done():
            self.closed.set_result(None)

    def data_received(self, data: bytes) -> None:
        if self._over:
            return
        self._server.spoke(self)
        self._buffer += data
        self._advance()

    def eof_received(self) -> bool:
        """It has said all it wanted, and may still read: `printf … | nc -U` does that. A subscriber that
        has gone away looks the same."""
        self.subscribed = False
        self._over_after_this()
        return True

    def pause_writing(self) -> None:
        self._stuck = True
        self._wait_for_reader(self._transport.get_write_buffer_size())

    def resume_writing(self) -> None:
        self._stuck = False
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None
        self._advance()

    # what we do

    def ring(self, seq: int) -> None:
        """Only if it can be written now: else a bell that it has not heard yet lies there already."""
        if not self._stuck and not self._transport.is_closing():
            self._transport.write(protocol.notification("events", {"seq": seq}))

    def finish(self) -> None:
        """After the answer that it waits for, if any."""
        self.subscribed = False
        self._buffer.clear()
        self._over_after_this()

    def abort(self) -> None:
        self._over = True
        self._transport.abort()

    def _over_after_this(self) -> None:
        self._over = True
        self._advance()

    def _advance(self) -> None:
        """The next request, if it is whole and its turn has come."""
        if self._transport.is_closing():
            return
        busy = self._task is not None or self._stuck
        line = None if busy else self._line()
        if line is not None:
            self._task = self._loop.create_task(self._answer(line))
            self._task.add_done_callback(self._answered)
            busy = True
        if self._over and not busy and not self.subscribed:
            self._transport.close()
            return
        if busy:
            self._transport.pause_reading()
        else:
            self._transport.resume_reading()
        self._wait_for_rest(waiting=not busy and bool(self._buffer))

    def _line(self) -> bytes | None:
        end = self._buffer.find(b"\n", 0, protocol.REQUEST_CAP + 1)
        if end < 0 and len(self._buffer) > protocol.REQUEST_CAP:
            self._refuse(Fault(protocol.INVALID, f"a request has at most {protocol.REQUEST_CAP} bytes"))
            return None
        if end < 0:
            if not (self._over and self._buffer):
                return None
            end = len(self._buffer)  # the last one needs no newline
        line = bytes(self._buffer[:end])
        del self._buffer[: end + 1]
        return line if line.strip() else self._line()

    async def _answer(self, line: bytes) -> None:
        asked = protocol.decoded(line)
        told = protocol.fault(asked) if isinstance(asked, Fault) else await self._told(asked)
        if not isinstance(asked, Request) or asked.answered:
            self._transport.write(told)

    async def _told(self, asked: Request) -> bytes:
        """Behind a fence: a question that breaks a method is answered, and ends nothing else."""
        try:
            return protocol.result(asked.id, await self._server.answer(asked, self._peer))
        except Fault as fault:
            return protocol.fault(Fault(fault.code, str(fault), asked.id))
        except AgentctlError as error:
            return protocol.fault(Fault(protocol.INTERNAL, str(error), asked.id))
        except Exception as error:
            log.exception("%s failed", asked.method)
            return protocol.fault(Fault(protocol.INTERNAL, f"{type(error).__name__}: {error}", asked.id))

    def _answered(self, task: asyncio.Task[None]) -> None:
        self._task = None
        if not task.cancelled() and task.exception() is not None:
            log.error("a client was lost: %r", task.exception())
            self.abort()
        self._advance()

    def _refuse(self, fault: Fault) -> None:
        self._over = True
        self._buffer.clear()
        self._transport.write(protocol.fault(fault))
        self._transport.close()

    def _wait_for_rest(self, *, waiting: bool) -> None:
        """Half a request may not stay for ever; each byte of it buys no more time."""
        if not waiting and self._half is not None:
            self._half.cancel()
            self._half = None
        elif waiting and self._half is None:
            self._half = self._loop.call_later(self._server.patience, self._given_up)

    def _given_up(self) -> None:
        self._refuse(Fault(protocol.INVALID, "half a request, and the rest did not come"))

    def _wait_for_reader(self, size: int) -> None:
        """As long as it reads on, however slowly. A subscriber may sleep: a bell is all that waits."""
        self._unread = self._loop.call_later(self._server.patience, self._look_at_reader, size)

    def _look_at_reader(self, size: int) -> None:
        left = self._transport.get_write_buffer_size()
        if left < size or (self.subscribed and not self._over):
            self._wait_for_reader(left)
        else:
            log.warning("a client (pid %d) does not read its answer: hung up", self._peer.pid)
            self.abort()
