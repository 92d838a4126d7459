"""Delivers what is in the outbox, whatever the kind: who writes an event need not know of it.

One thread waits for the database to change and for the next that is due. It starts a thread for each
lane in which something is due and that has none, so a target that hangs holds nobody but itself; the
thread ends when its lane is empty. What was under way when the daemon ends is due again, by itself.
"""

from __future__ import annotations

import logging
import os
import sqlite3
import threading
import time
from collections.abc import Iterable, Mapping
from typing import Any

from agentctl import paths
from agentctl.config import settings as config
from agentctl.config.settings import Config
from agentctl.daemon.held import Held
from agentctl.daemon.parts.worker import Hands
from agentctl.deliver.policy import DAY, Deliverer, Result
from agentctl.errors import AgentctlError, SourceError
from agentctl.state import journal, outbox, targets
from agentctl.state.outbox import Delivery, Lane, Waiting
from agentctl.truth.event import Event

log = logging.getLogger("agentctl.daemon.courier")  # as `daemon status` names it

LANES = 32  # threads at once
REST = 5.0  # seconds for a lane in which something unexpected failed, such as a full disk
TRIES = 3  # to write down what a delivery came to: it would be made again for want of that
NOBODY = "no such target any more"


class Courier(Hands[Lane]):
    name = "courier"

    def __init__(self, home: str, environ: Mapping[str, str], deliverers: Iterable[Deliverer]) -> None:
        self._notes, self._file = paths.notes_file(home), paths.config_file(home)
        super().__init__(f"{self._notes}-wal", self._notes, self._file)
        self._environ = environ
        self._deliverers = {one.kind: one for one in deliverers}
        self._settings: Config | None = None
        self._problems: dict[str, str] = {}
        self._waiting: list[Waiting] = []
        self._held = Held(self._notes)

    def status(self) -> dict[str, Any]:
        told: dict[str, Any] = {
            "targets": {kind: list(getattr(self._settings, field)) for kind, field in _FIELDS.items()}
            if self._settings is not None
            else {},
            "pending": sum(one.pending for one in self._waiting),
            "at_work": len(self._working),
        }
        if self._problems:
            return {**told, "state": "failing", "problem": "; ".join(self._problems.values())}
        return {**told, **self._condition}

    def _run(self) -> None:
        self._loaded: object = _NEVER
        while not self._stopping.is_set():
            try:
                pause = self._round()
            except (SourceError, sqlite3.Error) as error:
                self._tell("outbox", str(error))
                pause = REST
            except Exception:  # the fence
                log.exception("resting")
                pause = REST
            self._pause(pause)
        self._held.drop()

    def _round(self) -> float:
        """Sets everyone to work who has to. How long until there is more, if nothing happens."""
        fresh = self._held.take()
        if not self._held.there:
            return DAY
        stamp = _stamp(self._file)
        if fresh or stamp != self._loaded:
            self._loaded = stamp if self._load() else _NEVER
        now = time.time()
        self._waiting = outbox.waiting(self._notes, now, self._held.connection)
        ahead = [self._look_after(one, now) for one in self._waiting]
        self._problems.pop("outbox", None)
        return min(ahead, default=DAY)

    def _load(self) -> bool:
        """A mistake in the file leaves what held before."""
        try:
            settings = config.load(self._environ)
            targets.sync(self._notes, settings.webhooks, settings.notify, daemon=True)
        except AgentctlError as error:
            self._tell("settings", str(error))
            return False
        self._settings = settings
        self._problems.pop("settings", None)
        return True

    def _look_after(self, waiting: Waiting, now: float) -> float:
        deliverer, lane = self._deliverers.get(waiting.lane.kind), waiting.lane
        if deliverer is None or self._settings is None:
            return DAY
        if not deliverer.knows(lane.target, lane.url, self._settings):
            if now - waiting.oldest >= DAY:
                outbox.abandon(self._notes, lane, now - DAY, now, NOBODY)
            return DAY
        with self._mutex:
            rest = self._resting.get(lane, 0.0) - time.monotonic()
            if lane in self._working or len(self._working) >= LANES:
                return DAY  # whoever ends calls us
            if rest > 0 or waiting.due_at > now:
                return max(rest, waiting.due_at - now)
            worker = threading.Thread(
                target=self._work, args=(lane, deliverer), name=f"{lane.kind} {lane.target}", daemon=True
            )
            self._working[lane] = worker
        worker.start()
        return DAY

    def _work(self, lane: Lane, deliverer: Deliverer) -> None:
        """Everything in this lane that is due, one after the other."""
        try:
            while not self._stopping.is_set():
                delivery = outbox.next_due(self._notes, lane, time.time())
                if delivery is None or not self._attempt(delivery, deliverer):
                    return
        except SourceError as error:
            log.warning("%s %s rests: %s", lane.kind, lane.target, error)
            self._resting[lane] = time.monotonic() + REST
        except Exception:  # the fence
            log.exception("%s %s rests", lane.kind, lane.target)
            self._resting[lane] = time.monotonic() + REST
        finally:
            with self._mutex:
                del self._working[lane]
            self._wake.call()

    def _attempt(self, delivery: Delivery, deliverer: Deliverer) -> bool:
        """False: look anew, nothing of this lane is to be done now."""
        now, settings = time.time(), self._settings
        if settings is None or not self._held.there:
            return False
        if not deliverer.knows(delivery.target, delivery.url, settings):
            return False
        again = now + deliverer.policy.pause(delivery.attempt + 1)
        claimed = outbox.claim(self._notes, delivery, now, again)
        if claimed is None:
            return True
        event = _event(self._notes, claimed)
        if event is None:
            outbox.dead(self._notes, claimed, now, "its event is not in the journal any more")
            return True
        result = deliverer.deliver(claimed, event, settings)
        self._settle(claimed, result, deliverer)
        return True

    def _settle(self, delivery: Delivery, result: Result, deliverer: Deliverer) -> None:
        for left in reversed(range(TRIES)):
            if not self._held.there:
                return
            try:
                self._write(delivery, result, deliverer, time.time())
            except SourceError:
                if not left or self._stopping.wait(1.0):
                    raise
            else:
                return

    def _write(self, delivery: Delivery, result: Result, deliverer: Deliverer, now: float) -> None:
        who = f"{delivery.kind} {delivery.target} {delivery.id}"
        if result.outcome == "delivered":
            data = {"status": result.status, "seconds": round(result.seconds, 3)}
            outbox.delivered(self._notes, delivery, now, data)
            log.info("%s: delivered, try %d", who, delivery.attempt)
        elif result.outcome == "dropped":
            outbox.dropped(self._notes, delivery, now, result.told)
        elif result.outcome == "dead" or deliverer.policy.over(delivery, now):
            outbox.dead(self._notes, delivery, now, result.told)
            log.warning("%s: given up after try %d: %s", who, delivery.attempt, result.told)
        else:
            pause = deliverer.policy.pause(delivery.attempt, result.after)
            outbox.failed(self._notes, delivery, result.told, now + pause)
            log.info("%s: try %d failed, again in %.0f s: %s", who, delivery.attempt, pause, result.told)

    def _tell(self, what: str, problem: str) -> None:
        if self._problems.get(what) != problem:
            log.warning("%s: %s", what, problem)
        self._problems[what] = problem


_FIELDS = {"webhook": "webhooks", "notify": "notify"}
_NEVER = object()


def _event(path: str, delivery: Delivery) -> Event | None:
    found = journal.after(path, delivery.seq - 1, 1)
    return found[0] if found and found[0].seq == delivery.seq else None


def _stamp(file: str) -> object:
    try:
        status = os.stat(file)
    except OSError:
        return None
    return (status.st_ino, status.st_size, status.st_mtime_ns)
