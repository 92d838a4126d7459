"""Serves metrics to Prometheus, and to `agentctl metrics` through the socket. A port that is another's
is told, and stops nothing else."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from agentctl import asking, config
from agentctl.control import metrics
from agentctl.control.tally import Tally
from agentctl.daemon.http import Answer, Server
from agentctl.errors import SourceError, TimedOut
from agentctl.truth.survey import Survey
from agentctl.wire import prometheus
from agentctl.wire.prometheus import Family

log = logging.getLogger("agentctl.daemon.metrics")

PATIENCE = 10.0  # seconds to wait for another's look to end


class Metrics:
    """A part of the daemon. `families` may be asked for from any thread, also where it serves nobody."""

    name = "metrics"

    def __init__(
        self,
        notes: str,
        environ: Mapping[str, str],
        since: float,
        look: Callable[[], Survey] = asking.everything,
    ) -> None:
        self._environ = environ
        self._since = since
        self._look = look
        self._tally = Tally(notes)
        self._one = threading.Lock()  # one look at a time
        self._begun = 0.0  # when the last look was
        self._families: list[Family] = []
        self._server: Server | None = None

    def start(self) -> None:
        """Raises UsageError where the settings make no sense."""
        self._caught_up()
        settings = config.load(self._environ).metrics
        if settings.off.value:
            return
        pages = {"/metrics": self._scraped, "/healthz": lambda: Answer(200, "ok\n")}
        self._server = Server(settings.address.value, settings.port.value, pages)
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
        states = metrics.collect(self._environ, self._surveyed)
        self._caught_up()
        return [*states, *self._tally.families(), *metrics.of_process(self._since)]

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
        try:
            return Answer(200, prometheus.text(self.families()), prometheus.CONTENT_TYPE)
        except TimedOut as error:
            return Answer(503, f"{error}\n")
