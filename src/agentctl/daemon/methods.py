"""The methods of the daemon's socket. None of them writes: commands write the database, and the daemon
notices."""

from __future__ import annotations

import asyncio
import logging
import time
from concurrent.futures import ThreadPoolExecutor

from agentctl import __version__
from agentctl.daemon.server import Peer
from agentctl.daemon_client import protocol
from agentctl.daemon_client.protocol import Request
from agentctl.errors import Fault
from agentctl.light_typing import TYPE_CHECKING, Any, Awaitable, Callable, Mapping, TypeVar
from agentctl.metrics import exposition

if TYPE_CHECKING:
    from agentctl.daemon.answers import Answers
    from agentctl.daemon.app import App

_T = TypeVar("_T")

log = logging.getLogger("agentctl.daemon.methods")

Params = Mapping[str, Any]
Method = Callable[[Params, Peer], Awaitable[Any]]


class Methods:
    """Calls the method of a request. One worker thread looks at the machine for all of them: two looks
    at once would take twice as long."""

    def __init__(self, app: App) -> None:
        self._app = app
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="questions")
        self._answers: Answers | None = None
        self._table: Mapping[str, Method] = {
            "hello": self._hello,
            "ask": self._ask,
            "sessions": self._sessions,
            "events.subscribe": self._subscribe,
            "daemon.status": self._status,
            "metrics": self._metrics,
            "shutdown": self._shutdown,
        }

    async def __call__(self, request: Request, peer: Peer) -> Any:
        method = self._table.get(request.method)
        if method is None:
            raise Fault(
                protocol.NO_METHOD, f"no method {request.method!r}; known: {', '.join(self._table)}"
            )
        return await method(request.params, peer)

    async def _hello(self, params: Params, _: Peer) -> dict[str, Any]:
        """Answer a client of any protocol with ours: the newer of the two refuses."""
        _check_types(params, protocol=int, version=str)
        holder = self._app.lock.holder
        return {
            "protocol": protocol.PROTOCOL,
            "version": __version__,
            "pid": holder.identity.pid,
            "start": holder.identity.start,
            "home": self._app.home,
        }

    async def _ask(self, params: Params, peer: Peer) -> dict[str, Any]:
        return await self._in_worker(lambda: self._load_answers().ask(params, peer.pid))

    async def _sessions(self, params: Params, peer: Peer) -> dict[str, Any]:
        return await self._in_worker(lambda: self._load_answers().sessions(params, peer.pid))

    async def _in_worker(self, work: Callable[[], _T]) -> _T:
        return await asyncio.get_running_loop().run_in_executor(self._worker, work)

    def _load_answers(self) -> Answers:
        """Import them with the first question: they bring all that looks at the machine."""
        if self._answers is None:
            try:
                from agentctl.daemon.answers import Answers
            except ImportError as error:
                log.warning("cannot answer list, status and why: %s", error)
                raise Fault(
                    protocol.ELSEWHERE, f"the daemon cannot import its answers: {error}"
                ) from error
            self._answers = Answers()
        return self._answers

    async def _subscribe(self, params: Params, peer: Peer) -> dict[str, Any]:
        """Return the last `seq`; a notification `events` follows for each event after it."""
        _check_types(params)
        bell, connection = self._app.bell, peer.connection
        if not connection.subscribed:
            connection.subscribed = True
            bell.subscribe(connection.ring)
            connection.task.add_done_callback(lambda _: bell.unsubscribe(connection.ring))
        return {"seq": bell.seq}

    async def _status(self, params: Params, _: Peer) -> dict[str, Any]:
        _check_types(params)
        return self._app.status()

    async def _metrics(self, params: Params, _: Peer) -> dict[str, Any]:
        _check_types(params)
        families = await self._in_worker(self._app.metrics.families)
        return {"families": exposition.families_json(families)}

    async def _shutdown(self, params: Params, peer: Peer) -> dict[str, Any]:
        _check_types(params)
        self._app.end(f"requested by pid {peer.pid}")
        return {"ending": True, "at": time.time()}


def _check_types(params: Params, **types: type) -> None:
    """Raise Fault for a parameter of another type. Absent and unknown ones are fine: an older or a newer
    client sent them."""
    for name, kind in types.items():
        value = params.get(name)
        if value is not None and (not isinstance(value, kind) or isinstance(value, bool)):
            raise Fault(protocol.BAD_PARAMS, f"{name}: not of type {kind.__name__}")
