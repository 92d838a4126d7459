"""Serve metrics to Prometheus, and to `agentctl metrics` through the socket. A port that another program
uses is reported, and stops nothing else."""

from __future__ import annotations

import logging
import os
import threading
import time

from agentctl.config import settings as config
from agentctl.daemon.parts.http import HttpServer, Page, is_loopback
from agentctl.errors import SourceError, TimedOut, UsageError
from agentctl.light_typing import Any, Callable, Container, Iterable, Mapping
from agentctl.metrics import collect, exposition
from agentctl.metrics.counters import EventCounters
from agentctl.metrics.exposition import Family
from agentctl.sessions import query
from agentctl.truth.survey import Survey

log = logging.getLogger("agentctl.daemon.parts.metrics")

PATIENCE = 10.0  # seconds to wait for the look of another request
FRESH = 1.0  # seconds for which a page is served again


class Metrics:
    """A part of the daemon. `families` may be called in any thread, also if the HTTP server is off."""

    name = "metrics"

    def __init__(
        self,
        database: str,
        environ: Mapping[str, str],
        since: float,
        look: Callable[[], Survey] = query.survey_sessions,
    ) -> None:
        self._environ = environ
        self._since = since
        self._look = look
        self._counters = EventCounters(database)
        self._look_lock = threading.Lock()  # one look at a time
        self._looked_at = 0.0  # the start of the last look
        self._families: list[Family] = []
        self._server: HttpServer | None = None
        self._page_lock = threading.Lock()  # one rendering at a time
        self._page: str | None = None
        self._page_at = 0.0

    def start(self) -> None:
        """Raise UsageError for invalid settings."""
        self._count_events()
        settings = config.load(self._environ).metrics
        if settings.off.value:
            return
        pages = {"/metrics": self._render_page, "/healthz": lambda: Page(200, "ok\n")}
        address = settings.address.value
        self._server = HttpServer(
            address, settings.port.value, pages, find_uids(address, settings.users.value)
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
        """Return the metrics of now. Callers that wait for a look to end share the next one. Raises
        TimedOut."""
        called_at = time.monotonic()
        if not self._look_lock.acquire(timeout=PATIENCE):
            raise TimedOut(f"no look at the machine has ended within {PATIENCE:g} s")
        try:
            if self._looked_at < called_at:
                self._looked_at = time.monotonic()
                self._families = self._collect()
            return self._families
        finally:
            self._look_lock.release()

    def _collect(self) -> list[Family]:
        states = collect.collect(self._environ, self._survey)
        self._count_events()
        return [*states, *self._counters.families(), *collect.process_families(self._since)]

    def _survey(self) -> Survey:
        began = time.monotonic()
        survey = self._look()
        self._counters.observe_survey(time.monotonic() - began)
        return survey

    def _count_events(self) -> None:
        try:
            self._counters.catch_up()
        except SourceError as error:  # agentctl_state_problems shows it, too
            log.warning("the journal cannot be counted: %s", error)

    def _render_page(self) -> Page:
        """Return a page that is at most a second old, so that many requests cost one look a second."""
        if not self._page_lock.acquire(timeout=PATIENCE):
            return Page(503, f"no look at the machine has ended within {PATIENCE:g} s\n")
        try:
            if self._page is None or time.monotonic() - self._page_at >= FRESH:
                began = time.monotonic()
                self._page = exposition.render_text(self.families())
                self._page_at = began
            return Page(200, self._page, exposition.CONTENT_TYPE)
        except TimedOut as error:
            return Page(503, f"{error}\n")
        finally:
            self._page_lock.release()


def find_uids(address: str, users: Iterable[str]) -> Container[int] | None:
    """Return the uids that may read the metrics; None: every uid. Raises UsageError."""
    if "*" in users or not is_loopback(address):  # an address for other machines is not for one user
        return None
    import pwd

    uids = {0, os.geteuid()}
    for name in users:
        try:
            uids.add(int(name) if name.isascii() and name.isdigit() else pwd.getpwnam(name).pw_uid)
        except (KeyError, ValueError) as error:
            raise UsageError(
                f"metrics.users: there is no user {name!r}", 'example: ["prometheus"]'
            ) from error
    return uids
