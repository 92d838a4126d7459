"""Serves metrics to Prometheus, and to `agentctl metrics` through the socket. A port that is another's
is told, and stops nothing else."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Container, Iterable, Mapping
from typing import Any

from agentctl.config import settings as config
from agentctl.daemon.parts.http import Answer, Server, loopback
from agentctl.errors import SourceError, TimedOut, UsageError
from agentctl.metrics import collect, exposition
from agentctl.metrics.counters import Tally
from agentctl.metrics.exposition import Family
from agentctl.sessions import query
from agentctl.truth.survey import Survey

log = logging.getLogger("agentctl.daemon.parts.metrics")

PATIENCE = 10.0  # seconds to wait for another's look to end
FRESH = 1.0  # seconds for which a page is shown again


class Metrics:
    """A part of the daemon. `families` may be asked for from any thread, also where it serves nobody."""

    name = "metrics"

    def __init__(
        self,
        notes: str,
        environ: Mapping[str, str],
        since: float,
        look: Callable[[], Survey] = query.everything,
    ) -> None:
        self._environ = environ
        self._since = since
        self._look = look
        self._tally = Tally(notes)
        self._one = threading.Lock()  # one look at a time
        self._begun = 0.0  # when the last look was
        self._families: list[Family] = []
        self._server: Server | None = None
        self._page = threading.Lock()  # one rendering at a time
        self._rendered: str | None = None
        self._rendered_at = 0.0

    def start(self) -> None:
        """Raises UsageError where the settings make no sense."""
        self._caught_up()
        settings = config.load(self._environ).metrics
        if settings.off.value:
            return
        pages = {"/metrics": self._scraped, "/healthz": lambda: Answer(200, "ok\n")}
        address = settings.address.value
        self._server = Server(
            address, settings.port.value, pages, readers(address, settings.users.value)
        )
        self._server.start()

    def stop(self) -> None:
        if self._server is not None:
            self._server.stop()

    def status(self) -> dict[str, Any]:
        server = self._server
        if server is None:
            return {"state": "off"}
        place = {"address": server.address, "port": server.port}
        if server.problem is not None:
            return {"state": "failing", "problem": server.problem, **place}
        return place if server.listening else {"state": "starting", **place}

    def families(self) -> list[Family]:
        """Of now: whoever waits for another's look to end shares the next with all who wait. Raises
        TimedOut."""
        asked = time.monotonic()
        if not self._one.acquire(timeout=PATIENCE):
            raise TimedOut(f"no look at the machine has ended within {PATIENCE:g} s")
        try:
            if self._begun < asked:
                self._begun = time.monotonic()
                self._families = self._made()
            return self._families
        finally:
            self._one.release()

    def _made(self) -> list[Family]:
        states = collect.collect(self._environ, self._surveyed)
        self._caught_up()
        return [*states, *self._tally.families(), *collect.of_process(self._since)]

    def _surveyed(self) -> Survey:
        began = time.monotonic()
        found = self._look()
        self._tally.surveyed(time.monotonic() - began)
        return found

    def _caught_up(self) -> None:
        try:
            self._tally.catch_up()
        except SourceError as error:  # also told as agentctl_state_problems
            log.warning("the journal cannot be counted: %s", error)

    def _scraped(self) -> Answer:
        """At most one look a second, however many ask."""
        if not self._page.acquire(timeout=PATIENCE):
            return Answer(503, f"no look at the machine has ended within {PATIENCE:g} s\n")
        try:
            if self._rendered is None or time.monotonic() - self._rendered_at >= FRESH:
                began = time.monotonic()
                self._rendered = exposition.text(self.families())
                self._rendered_at = began
            return Answer(200, self._rendered, exposition.CONTENT_TYPE)
        except TimedOut as error:
            return Answer(503, f"{error}\n")
        finally:
            self._page.release()


def readers(address: str, users: Iterable[str]) -> Container[int] | None:
    """The uids that are answered; None: everybody's. Raises UsageError."""
    if "*" in users or not loopback(address):  # who lets other machines read it cannot mean this user
        return None
    import pwd

    found = {0, os.geteuid()}
    for name in users:
        try:
            found.add(int(name) if name.isascii() and name.isdigit() else pwd.getpwnam(name).pw_uid)
        except (KeyError, ValueError) as error:
            raise UsageError(
                f"metrics.users: there is no user {name!r}", 'example: ["prometheus"]'
            ) from error
    return found
