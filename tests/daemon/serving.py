"""Real daemons, and a server in a thread of the test, with a client that sends single bytes."""

import asyncio
import json
import socket
import sys
import threading
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from agentctl import __version__
from agentctl.daemon.server import Peer, Server
from agentctl.daemon_client import lock_file, protocol
from agentctl.daemon_client.client import SOCKET, short_path
from agentctl.daemon_client.protocol import Request
from agentctl.system.proc import ProcessIdentity
from agentctl.testing import Stage
from tests.running import agentctl_of, environ_of
from tests.waiting import DEADLINE

Answer = Callable[[Request, Peer], Awaitable[Any]]


async def echo(request: Request, peer: Peer) -> Any:
    return {"method": request.method, "params": request.params, "pid": peer.pid}


class Served:
    """A server in a loop of its own. Use as a context manager."""

    def __init__(self, home: Path, answer: Answer = echo, *, patience: float = 60.0, most: int = 200):
        home.mkdir(exist_ok=True, parents=True)
        self.home = str(home)
        self.loop = asyncio.new_event_loop()
        self.server = Server(self.home, answer, patience=patience, most=most)
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> "Served":
        self._thread.start()
        try:
            self.do(self.server.listen())
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.do(self._close())
        self._end()

    def _end(self) -> None:
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(DEADLINE)
        self.loop.close()

    def do(self, work: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(DEADLINE)

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        self.loop.run_forever()

    async def _close(self) -> None:
        self.server.close()
        self.server.abort()
        await self.server.drain()


class Wire:
    """A client that sends any bytes that a test wants. Use as a context manager."""

    def __init__(self, home: str) -> None:
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(DEADLINE)
        with short_path(home) as place:
            self.socket.connect(f"{place}/{SOCKET}")
        self._file = self.socket.makefile("rb")

    def __enter__(self) -> "Wire":
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()
        self.socket.close()

    def say(self, raw: bytes) -> None:
        self.socket.sendall(raw)

    def hear(self) -> dict[str, Any]:
        """Return the next line; empty if the server has disconnected."""
        line = self._file.readline()
        return dict(json.loads(line)) if line else {}

    def ask(self, method: str, number: int = 1, **params: Any) -> dict[str, Any]:
        request = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
        self.say(json.dumps(request).encode() + b"\n")
        return self.hear()


def caller_params(stage: Stage) -> dict[str, Any]:
    """Return the parameters that a caller on this stage sends with `ask` and `sessions`."""
    return {
        "protocol": protocol.PROTOCOL,
        "version": __version__,
        "environ": environ_of(stage),
        "cwd": "/",
        "path": sys.path,
        "until": time.monotonic() + 60,
    }


def home_of(stage: Stage) -> str:
    return stage.environ["AGENTCTL_HOME"]


def daemon_of(stage: Stage, **more: str) -> ProcessIdentity:
    """Start a daemon as a user starts it, and return its identity."""
    ran = agentctl_of(stage, "daemon", "start", **more)
    assert ran.code == 0, ran.err
    holder = lock_file.find_proven(more.get("AGENTCTL_HOME", home_of(stage)))
    assert holder is not None
    return holder.identity


def daemons_of(stage: Stage) -> list[int]:
    """Return the pids of all daemons on this stage, of any home."""
    return [process.pid for process in stage.processes() if process.comm == "agentctl-daemon"]


def log_of(stage: Stage) -> str:
    with open(f"{home_of(stage)}/daemon.log", encoding="utf-8") as file:
        return file.read()
