"""Real daemons, and a server in a thread of the test's own, to be spoken with byte by byte."""

import asyncio
import json
import os
import socket
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from agentctl.daemon.connection import Peer
from agentctl.daemon.server import Server
from agentctl.daemon_client import lock_file
from agentctl.daemon_client.client import SOCKET, short
from agentctl.daemon_client.protocol import Request
from agentctl.system.identity import ProcessIdentity
from agentctl.testing import Stage
from tests.running import agentctl_of
from tests.waiting import DEADLINE

Answer = Callable[[Request, Peer], Awaitable[Any]]


async def echo(asked: Request, peer: Peer) -> Any:
    return {"method": asked.method, "params": asked.params, "pid": peer.pid}


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
        await self.server.drained()


class Wire:
    """A client that says whatever a test wants it to say. Use as a context manager."""

    def __init__(self, home: str) -> None:
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(DEADLINE)
        with short(home) as place:
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
        """The next line; empty when the other side has hung up."""
        line = self._file.readline()
        return dict(json.loads(line)) if line else {}

    def ask(self, method: str, number: int = 1, **params: Any) -> dict[str, Any]:
        said = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
        self.say(json.dumps(said).encode() + b"\n")
        return self.hear()


def home_of(stage: Stage) -> str:
    return stage.environ["AGENTCTL_HOME"]


def daemon_of(stage: Stage, **more: str) -> ProcessIdentity:
    """Started as a person starts it, and running."""
    ran = agentctl_of(stage, "daemon", "start", **more)
    assert ran.code == 0, ran.err
    found = lock_file.proven(more.get("AGENTCTL_HOME", home_of(stage)))
    assert found is not None
    return found.identity


def daemons_of(stage: Stage) -> list[int]:
    """All that live on this stage, whatever their home."""
    return [process.pid for process in stage.processes() if process.comm == "agentctl-daemon"]


def log_of(stage: Stage) -> str:
    with open(f"{home_of(stage)}/daemon.log", encoding="utf-8") as file:
        return file.read()


def inode(path: str) -> int:
    return os.stat(path).st_ino
