"""The daemon from its start to its end: the socket, and the parts that do its work.

A part that cannot start is shown in the log and in `daemon status`, stops nothing else, and is started
again later. The end takes two seconds at most, whatever hangs: what a part has not finished by then, it
finds in the database when it starts again, as after a kill -9.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from agentctl import __version__, paths
from agentctl.daemon.bell import Bell
from agentctl.daemon.lock import Singleton
from agentctl.daemon.memory import private_bytes
from agentctl.daemon.methods import Methods
from agentctl.daemon.parts.deliverer import Courier
from agentctl.daemon.parts.guard import Guard
from agentctl.daemon.parts.metrics import Metrics
from agentctl.daemon.parts.recorder import Watcher
from agentctl.daemon.parts.timer import Clock
from agentctl.daemon.server import Server
from agentctl.daemon_client import protocol
from agentctl.deliver.notify import Notices
from agentctl.deliver.webhook import Webhooks
from agentctl.errors import AgentctlError
from agentctl.system import descriptors
from agentctl.system.clock import rfc3339

log = logging.getLogger("agentctl.daemon.app")

DRAIN = 1.5  # seconds, for the parts and for the answers that are at work, together
AGAIN = 1.0, 60.0  # seconds until a part that did not start is started again: at first, and at most


class Part(Protocol):
    """A piece of the daemon's work, with threads of its own.

    `start` is called in the loop's thread and returns at once, or raises. `stop` is called in a thread
    of its own, after `start` has succeeded, and returns when the part has ended; all parts stop at the
    same time. `status` is called in the loop's thread and never blocks; `state` in it, if any, stands
    for "running" in `daemon status`: "failing", "off".
    """

    name: str

    def start(self) -> None: ...
    def stop(self) -> None: ...
    def status(self) -> dict[str, Any]: ...


def parts(app: App) -> list[Part]:
    """All of them, in the order of their starting. `app` has home, environ, bell, notes, lock."""
    return [
        Guard((app.lock.path, app.server.path), app.look_after_home),
        app.metrics,  # before whoever tells of events: it counts them from its start
        Watcher(app.notes, app.environ, app.lock.holder.identity, app.bell),
        Clock(app.home),
        Courier(app.home, app.environ, [Webhooks(app.environ), Notices(app.notes, app.environ)]),
    ]


class App:
    """Everything here runs in the loop's thread, but for `end` and `look_after_home`."""

    def __init__(self, lock: Singleton, environ: Mapping[str, str]) -> None:
        self.lock = lock
        self.home = lock.home
        self.environ = environ
        self.notes = paths.notes_file(lock.home)
        self.bell = Bell()
        self.server = Server(self.home, Methods(self))
        self.metrics = Metrics(self.notes, environ, lock.holder.since)
        self.parts = parts(self)
        self._failed: dict[str, str] = {}  # parts that did not start, and why
        self._loop: asyncio.AbstractEventLoop
        self._over: asyncio.Event
        self._healing: asyncio.Task[None] | None = None

    async def run(self, ready: Callable[[], None]) -> None:
        """Until somebody ends it. Raises OSError where it cannot listen."""
        self._loop, self._over = asyncio.get_running_loop(), asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            self._loop.add_signal_handler(number, self.end, signal.Signals(number).name)
        self.bell.hang(self._loop)
        await self.server.listen()
        log.info("agentctl %s, pid %d, for %s", __version__, os.getpid(), self.home)
        if self.lock.problem is not None:
            log.warning("others cannot be told who we are: %s", self.lock.problem)
        self._start_parts()
        ready()
        await self._over.wait()
        await self._stop()

    def end(self, why: str) -> None:
        """From any thread, also more than once."""
        self._soon(self._end, why)

    def look_after_home(self) -> None:
        """From any thread: one of the files by which we are found may be gone."""
        self._soon(self._look_after_home)

    def status(self) -> dict[str, Any]:
        holder = self.lock.holder
        return {
            "pid": holder.identity.pid,
            "start": holder.identity.start,
            "version": __version__,
            "protocol": protocol.PROTOCOL,
            "since": rfc3339(holder.since),
            "home": self.home,
            "socket": self.server.path,
            "memory_bytes": private_bytes(),
            "clients": len(self.server.connections),
            "subscribers": self.bell.hearers,
            "seq": self.bell.seq,
            "parts": [*map(self._status_of, self.parts), *_without_descriptors()],
        }

    def _status_of(self, part: Part) -> dict[str, Any]:
        why = self._failed.get(part.name)
        if why is not None:
            return {"name": part.name, "state": "failed", "problem": why}
        try:
            return {"name": part.name, "state": "running", **part.status()}
        except Exception as error:  # the fence
            log.exception("%s cannot say how it is", part.name)
            return {"name": part.name, "state": "unknown", "problem": f"{type(error).__name__}: {error}"}

    def _start_parts(self) -> None:
        for part in self.parts:
            self._start(part, AGAIN[0])

    def _start(self, part: Part, pause: float) -> None:
        if self._over.is_set():
            return
        try:
            part.start()
        except AgentctlError as error:
            self._note_failure(part.name, str(error), None)
        except Exception as error:  # noqa: BLE001 - the fence: it goes into the log
            self._note_failure(part.name, f"{type(error).__name__}: {error}", error)
        else:
            if self._failed.pop(part.name, None) is not None:
                log.info("%s has started now", part.name)
            return
        self._loop.call_later(pause, self._start, part, min(2 * pause, AGAIN[1]))

    def _note_failure(self, name: str, why: str, unforeseen: Exception | None) -> None:
        if self._failed.get(name) != why:  # once, however often it is tried
            log.error("%s did not start: %s; it is tried again", name, why, exc_info=unforeseen)
        self._failed[name] = why

    def _end(self, why: str) -> None:
        if not self._over.is_set():
            log.info("ending: %s", why)
            self._over.set()

    async def _stop(self) -> None:
        """Nobody new comes in; then all that is at work ends at the same time; then whoever is left is
        let go of."""
        began = time.monotonic()
        self.server.close()
        # In a home that is not ours any more nothing is to be written: it is as after a kill -9.
        to_stop = self.parts if self.lock.still_ours() else []
        stopping = [self._stopped(part) for part in to_stop if part.name not in self._failed]
        drained = asyncio.ensure_future(self.server.drained())
        _, late = await asyncio.wait([*stopping, drained], timeout=DRAIN)
        for one in late:
            log.warning("did not end in time: %s", one.get_name() if one is not drained else "a client")
        self.bell.hang(None)
        self.server.abort()
        self.lock.release()
        log.info("ended, in %.1f s", time.monotonic() - began)

    def _stopped(self, part: Part) -> asyncio.Task[None]:
        """In a thread of its own, which is left behind if it hangs."""
        done = asyncio.Event()

        def stop() -> None:
            try:
                part.stop()
            except Exception:  # the fence
                log.exception("%s did not stop well", part.name)
            self._soon(done.set)

        async def wait() -> None:
            await done.wait()

        threading.Thread(target=stop, name=f"stop {part.name}", daemon=True).start()
        return self._loop.create_task(wait(), name=part.name)

    def _soon(self, call: Callable[..., None], *words: str) -> None:
        try:
            self._loop.call_soon_threadsafe(call, *words)
        except RuntimeError:  # the loop is closed: we have ended, and this thread was left behind
            pass

    def _look_after_home(self) -> None:
        if self._over.is_set():
            return
        if not self.lock.still_ours():
            self._end(f"{self.lock.path} is gone, or not ours any more")
        elif not self.server.still_there() and self._healing is None:
            self._healing = self._loop.create_task(self._listen_again())

    async def _listen_again(self) -> None:
        try:
            await self.server.listen()
            log.warning("the socket was gone, and is there again")
        except OSError as error:
            self._end(f"the socket is gone and cannot be made anew: {error}")
        finally:
            self._healing = None


def _without_descriptors() -> list[dict[str, Any]]:
    """Who asks for a look is sent to look itself: see `answers`."""
    shortage = descriptors.shortage()
    return [] if shortage is None else [{"name": "answers", "state": "degraded", "problem": shortage}]
