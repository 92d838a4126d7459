"""What the daemon can be asked: one method, one function. None of them writes: verbs write the
database, and the daemon notices."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from typing import TYPE_CHECKING, Any, cast

from agentctl import __version__
from agentctl.daemon.connection import Peer
from agentctl.daemon_client import protocol
from agentctl.daemon_client.protocol import Request
from agentctl.errors import Fault
from agentctl.metrics import exposition

if TYPE_CHECKING:
    from agentctl.daemon.app import App

log = logging.getLogger("agentctl.daemon.methods")

Params = Mapping[str, Any]
Method = Callable[[Params, Peer], Awaitable[Any]]


class Methods:
    """The table. One worker answers questions, one after the other: each is a look at the machine, and
    two at once would take twice as long."""

    def __init__(self, app: App) -> None:
        self._app = app
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="questions")
        self._asker: Callable[[dict[str, Any], int], dict[str, Any]] | None = None
        self._table: Mapping[str, Method] = {
            "hello": self._hello,
            "ask": self._ask,
            "events.subscribe": self._subscribe,
            "daemon.status": self._status,
            "metrics": self._metrics,
            "shutdown": self._shutdown,
        }

    async def __call__(self, asked: Request, peer: Peer) -> Any:
        method = self._table.get(asked.method)
        if method is None:
            raise Fault(
                protocol.NO_METHOD, f"no method {asked.method!r}; known: {', '.join(self._table)}"
            )
        return await method(asked.params, peer)

    async def _hello(self, params: Params, _: Peer) -> dict[str, Any]:
        """Whatever the client speaks, it is told what we speak: to refuse is for the newer one to do."""
        _typed(params, protocol=int, version=str)
        holder = self._app.lock.holder
        return {
            "protocol": protocol.PROTOCOL,
            "version": __version__,
            "pid": holder.identity.pid,
            "start": holder.identity.start,
            "home": self._app.home,
        }

    async def _ask(self, params: Params, peer: Peer) -> dict[str, Any]:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._worker, self._answer, dict(params), peer.pid)

    def _answer(self, params: dict[str, Any], pid: int) -> dict[str, Any]:
        if self._asker is None:
            self._asker = _asker()
        return self._asker(params, pid)

    async def _subscribe(self, params: Params, peer: Peer) -> dict[str, Any]:
        """The result comes first, then a notification `events` for whatever comes after `seq`."""
        _typed(params)
        bell, connection = self._app.bell, peer.connection
        if not connection.subscribed:
            connection.subscribed = True
            bell.hear(connection.ring)
            connection.closed.add_done_callback(lambda _: bell.leave(connection.ring))
        return {"seq": bell.seq}

    async def _status(self, params: Params, _: Peer) -> dict[str, Any]:
        _typed(params)
        return self._app.status()

    async def _metrics(self, params: Params, _: Peer) -> dict[str, Any]:
        _typed(params)
        loop = asyncio.get_running_loop()
        families = await loop.run_in_executor(self._worker, self._app.metrics.families)
        return {"families": exposition.shapes(families)}

    async def _shutdown(self, params: Params, peer: Peer) -> dict[str, Any]:
        _typed(params)
        self._app.end(f"asked to, by pid {peer.pid}")
        return {"ending": True, "at": time.time()}


def _asker() -> Callable[[dict[str, Any], int], dict[str, Any]]:
    """Imported with the first question: it brings all that looks at the machine."""
    try:
        found = import_module("agentctl.daemon.answers")
    except ImportError as error:
        log.warning("cannot answer list, status and why: %s", error)
        raise Fault(protocol.ELSEWHERE, f"the daemon cannot import its answers: {error}") from error
    return cast("Callable[[dict[str, Any], int], dict[str, Any]]", found.answer)


def _typed(params: Params, **wanted: type) -> None:
    """Absent ones are fine; what is there must be of its kind. Unknown ones are a newer client's."""
    for name, kind in wanted.items():
        value = params.get(name)
        if value is not None and (not isinstance(value, kind) or isinstance(value, bool)):
            raise Fault(protocol.BAD_PARAMS, f"{name}: not of type {kind.__name__}")
