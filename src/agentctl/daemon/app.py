"""Run the daemon from its start to its end: the socket, and the parts that do its work.

A part that cannot start is shown in the log and in `daemon status`, stops nothing else, and is started
again later. The end takes two seconds at most, even if a part hangs: the database holds what is not
finished by then, and the next daemon does it, as after a kill -9.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import threading
import time

from agentctl import __version__, paths
from agentctl.daemon.bell import Bell
from agentctl.daemon.lock import Singleton
from agentctl.daemon.methods import Methods
from agentctl.daemon.parts.deliverer import Deliverer
from agentctl.daemon.parts.guard import Guard
from agentctl.daemon.parts.metrics import Metrics
from agentctl.daemon.parts.recorder import Recorder
from agentctl.daemon.parts.timer import Timer
from agentctl.daemon.server import Server
from agentctl.daemon_client import protocol
from agentctl.deliver.notify import NotifySender
from agentctl.deliver.webhook import WebhookSender
from agentctl.errors import AgentctlError
from agentctl.light_typing import Any, Callable, Mapping, Protocol
from agentctl.system import this_process
from agentctl.system.clock import format_rfc3339

log = logging.getLogger("agentctl.daemon.app")

STOP_LIMIT = 1.5  # seconds, for the parts and the requests at work together
RETRY = 1.0, 60.0  # seconds until a part that did not start is tried again: at first, and at most


class Part(Protocol):
    """A piece of the daemon's work, with threads of its own.

    `start` is called in the loop's thread and returns at once, or raises. `stop` is called in a thread
    of its own, after `start` has succeeded, and returns when the part has ended; all parts stop at the
    same time. `status` is called in the loop's thread and never blocks; its field `state`, if any,
    replaces "running" in `daemon status`: "failing", "off".
    """

    name: str

    def start(self) -> None: ...
    def stop(self) -> None: ...
    def status(self) -> dict[str, Any]: ...


def make_parts(app: App) -> list[Part]:
    """Return all parts, in the order in which they start."""
    return [
        Guard((app.lock.path, app.server.path), app.check_home),
        app.metrics,  # before the recorder: it counts events from its own start
        Recorder(app.database, app.environ, app.lock.holder.identity, app.bell),
        Timer(app.home),
        Deliverer(
            app.home,
            app.environ,
            [WebhookSender(app.environ), NotifySender(app.database, app.environ)],
        ),
    ]


class App:
    """All methods run in the loop's thread, except `end` and `check_home`."""

    def __init__(self, lock: Singleton, environ: Mapping[str, str]) -> None:
        self.lock = lock
        self.home = lock.home
        self.environ = environ
        self.database = paths.database_file(lock.home)
        self.bell = Bell()
        self.server = Server(self.home, Methods(self))
        self.metrics = Metrics(self.database, environ, lock.holder.since)
        self.parts = make_parts(self)
        self._start_errors: dict[str, str] = {}  # of parts that did not start
        self._loop: asyncio.AbstractEventLoop
        self._stopping: asyncio.Event
        self._listening: asyncio.Task[None] | None = None

    async def run(self, ready: Callable[[], None]) -> None:
        """Run until a signal or a request ends it. Raises OSError if it cannot listen."""
        self._loop, self._stopping = asyncio.get_running_loop(), asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            self._loop.add_signal_handler(number, self.end, signal.Signals(number).name)
        self.bell.attach(self._loop)
        await self.server.listen()
        log.info("agentctl %s, pid %d, for %s", __version__, os.getpid(), self.home)
        if self.lock.problem is not None:
            log.warning("the lock file does not name this daemon: %s", self.lock.problem)
        self._start_parts()
        ready()
        await self._stopping.wait()
        await self._stop()

    def end(self, why: str) -> None:
        """May be called in any thread, and more than once."""
        self._call_soon(self._end, why)

    def check_home(self) -> None:
        """Check, from any thread, whether the lock file or the socket is gone."""
        self._call_soon(self._check_home)

    def status(self) -> dict[str, Any]:
        holder = self.lock.holder
        return {
            "pid": holder.identity.pid,
            "start": holder.identity.start,
            "version": __version__,
            "protocol": protocol.PROTOCOL,
            "since": format_rfc3339(holder.since),
            "home": self.home,
            "socket": self.server.path,
            "memory_bytes": this_process.read_private_bytes(),
            "clients": len(self.server.connections),
            "subscribers": self.bell.subscribers,
            "seq": self.bell.seq,
            "parts": [*map(self._part_status, self.parts), *_answers_status()],
        }

    def _part_status(self, part: Part) -> dict[str, Any]:
        problem = self._start_errors.get(part.name)
        if problem is not None:
            return {"name": part.name, "state": "failed", "problem": problem}
        try:
            return {"name": part.name, "state": "running", **part.status()}
        except Exception as error:  # the fence
            log.exception("the status of %s cannot be read", part.name)
            return {"name": part.name, "state": "unknown", "problem": f"{type(error).__name__}: {error}"}

    def _start_parts(self) -> None:
        for part in self.parts:
            self._start(part, RETRY[0])

    def _start(self, part: Part, pause: float) -> None:
        if self._stopping.is_set():
            return
        try:
            part.start()
        except AgentctlError as error:
            self._report_failure(part.name, str(error), None)
        except Exception as error:  # noqa: BLE001 - the fence: it is logged
            self._report_failure(part.name, f"{type(error).__name__}: {error}", error)
        else:
            if self._start_errors.pop(part.name, None) is not None:
                log.info("%s started", part.name)
            return
        self._loop.call_later(pause, self._start, part, min(2 * pause, RETRY[1]))

    def _report_failure(self, name: str, why: str, bug: Exception | None) -> None:
        if self._start_errors.get(name) != why:  # logged once, not at each try
            log.error("%s did not start: %s; it is tried again", name, why, exc_info=bug)
        self._start_errors[name] = why

    def _end(self, why: str) -> None:
        if not self._stopping.is_set():
            log.info("ending: %s", why)
            self._stopping.set()

    async def _stop(self) -> None:
        """Accept no more clients, let parts and requests end at the same time, and leave the rest."""
        began = time.monotonic()
        self.server.close()
        # A home that is not ours any more is not written to: it stays as after a kill -9.
        parts = self.parts if self.lock.is_ours() else []
        tasks = [self._stop_part(part) for part in parts if part.name not in self._start_errors]
        tasks.append(self._loop.create_task(self.server.drain(), name="a client"))
        _, late = await asyncio.wait(tasks, timeout=STOP_LIMIT)
        for task in late:
            log.warning("did not end in time: %s", task.get_name())
        self.bell.attach(None)
        self.server.abort()
        self.lock.release()
        log.info("ended, in %.1f s", time.monotonic() - began)

    def _stop_part(self, part: Part) -> asyncio.Task[None]:
        """Stop a part in a thread of its own, which is left behind if it hangs."""
        has_stopped = asyncio.Event()

        def stop() -> None:
            try:
                part.stop()
            except Exception:  # the fence
                log.exception("%s did not stop", part.name)
            self._call_soon(has_stopped.set)

        async def wait() -> None:
            await has_stopped.wait()

        threading.Thread(target=stop, name=f"stop {part.name}", daemon=True).start()
        return self._loop.create_task(wait(), name=part.name)

    def _call_soon(self, function: Callable[..., None], *arguments: str) -> None:
        try:
            self._loop.call_soon_threadsafe(function, *arguments)
        except RuntimeError:  # the loop has ended, and this thread was left behind
            pass

    def _check_home(self) -> None:
        if self._stopping.is_set():
            return
        if not self.lock.is_ours():
            self._end(f"{self.lock.path} is gone, or not ours any more")
        elif not self.server.is_reachable() and self._listening is None:
            self._listening = self._loop.create_task(self._listen_again())

    async def _listen_again(self) -> None:
        try:
            await self.server.listen()
            log.warning("the socket was gone, and is there again")
        except OSError as error:
            self._end(f"the socket is gone and cannot be made again: {error}")
        finally:
            self._listening = None


def _answers_status() -> list[dict[str, Any]]:
    """Without descriptors for a look, callers are sent to look themselves: see `caller`."""
    shortage = this_process.describe_shortage()
    return [] if shortage is None else [{"name": "answers", "state": "degraded", "problem": shortage}]
