"""Writes into the journal that the daemon has started, and that it ends."""

from __future__ import annotations

import logging
import threading
import time
from typing import Any

from agentctl import __version__
from agentctl.daemon.bell import Bell
from agentctl.errors import SourceError
from agentctl.store import journal
from agentctl.store.journal import Event
from agentctl.truth.model import ProcessIdentity

log = logging.getLogger("agentctl.daemon.presence")


class Presence:
    name = "presence"

    def __init__(self, notes: str, identity: ProcessIdentity, bell: Bell) -> None:
        self._notes = notes
        self._identity = identity
        self._bell = bell
        self._problem: str | None = None
        self._written = threading.Thread(target=self._write, args=("daemon.started",), daemon=True)

    def start(self) -> None:
        self._written.start()  # a database that is locked, or on a slow disk, keeps nobody waiting

    def stop(self) -> None:
        self._written.join()
        self._write("daemon.stopped")

    def status(self) -> dict[str, Any]:
        return {} if self._problem is None else {"state": "failing", "problem": self._problem}

    def _write(self, what: str) -> None:
        now = time.time()
        data = {"pid": self._identity.pid, "start": self._identity.start, "version": __version__}
        try:
            seq = journal.record(
                self._notes,
                [Event(what, now, now, subject=self._identity.address, body={"data": data})],
            )[-1]
        except SourceError as error:
            self._problem = str(error)
            log.warning("%s is not in the journal: %s", what, error)
        else:
            self._problem = None
            self._bell.ring(seq)
