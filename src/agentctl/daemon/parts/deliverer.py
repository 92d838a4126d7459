"""Make the deliveries in the outbox, of every kind. The code that writes an event knows nothing of them.

One thread waits for the database to change and for the next delivery that is due. It starts a thread for
each lane that has one due, so a target that hangs holds up only itself; the thread ends when its lane is
empty. A delivery that was under way when the daemon ended becomes due again by itself.
"""

from __future__ import annotations

import logging
import os
import sqlite3
import threading
import time

from agentctl import paths
from agentctl.config import settings as config
from agentctl.config.keys import Webhook
from agentctl.config.settings import Config
from agentctl.daemon.parts.worker import OpenDatabase, Worker
from agentctl.deliver.policy import DAY, Result, Sender
from agentctl.errors import AgentctlError, SourceError
from agentctl.light_typing import Any, Iterable, Mapping
from agentctl.state import journal, outbox
from agentctl.state.outbox import Delivery, Lane, LaneQueue
from agentctl.truth.event import Event

log = logging.getLogger("agentctl.daemon.courier")  # the name in `daemon status`

LANES = 32  # threads at once
REST = 5.0  # seconds for a lane after an unexpected error, such as a full disk
TRIES = 3  # to record a result: without its record, the delivery would be made again
NO_TARGET = "no such target any more"


class Deliverer(Worker[Lane]):
    name = "courier"

    def __init__(self, home: str, environ: Mapping[str, str], senders: Iterable[Sender]) -> None:
        self._database, self._file = paths.database_file(home), paths.config_file(home)
        super().__init__(f"{self._database}-wal", self._database, self._file)
        self._environ = environ
        self._senders = {sender.kind: sender for sender in senders}
        self._settings: Config | None = None
        self._problems: dict[str, str] = {}
        self._queues: list[LaneQueue] = []
        self._db = OpenDatabase(self._database)

    def status(self) -> dict[str, Any]:
        settings = self._settings
        targets = (
            {"webhook": list(settings.webhooks), "notify": list(settings.notify)} if settings else {}
        )
        fields: dict[str, Any] = {
            "targets": targets,
            # known from the first answer on, when the settings may not have been read yet
            "environment_webhook": bool(self._environ.get(Webhook.url.variable)),
            "pending": sum(queue.pending for queue in self._queues),
            "at_work": len(self._threads),
        }
        if self._problems:
            return {**fields, "state": "failing", "problem": "; ".join(self._problems.values())}
        return {**fields, **self._condition}

    def _run(self) -> None:
        self._loaded_stamp: object = _NEVER
        while not self._stopping.is_set():
            try:
                pause = self._start_due()
            except (SourceError, sqlite3.Error) as error:
                self._report("outbox", str(error))
                pause = REST
            except Exception:  # the fence
                log.exception("resting")
                pause = REST
            self._pause(pause)
        self._db.close()

    def _start_due(self) -> float:
        """Start every lane that has a delivery due. Return the seconds until there is more to do, if
        nothing changes."""
        is_new = self._db.open()
        if not self._db.is_current:
            return DAY
        stamp = _read_stamp(self._file)
        if is_new or stamp != self._loaded_stamp:
            self._loaded_stamp = stamp if self._load_settings() else _NEVER
        now = time.time()
        self._queues = outbox.list_lanes(self._database, now, self._db.connection)
        pauses = [self._start_lane(queue, now) for queue in self._queues]
        self._problems.pop("outbox", None)
        return min(pauses, default=DAY)

    def _load_settings(self) -> bool:
        """Return False, and keep the settings as they were, if the file has a mistake."""
        try:
            settings = config.load(self._environ)
            outbox.sync_targets(self._database, settings.webhooks, settings.notify, daemon=True)
        except AgentctlError as error:
            self._report("settings", str(error))
            return False
        self._settings = settings
        self._problems.pop("settings", None)
        return True

    def _start_lane(self, queue: LaneQueue, now: float) -> float:
        """Start a thread for a lane that is due and has none. Return the seconds until it is due."""
        sender, lane = self._senders.get(queue.lane.kind), queue.lane
        if sender is None or self._settings is None:
            return DAY
        if not sender.has_target(lane.target, lane.url, self._settings):
            if now - queue.oldest >= DAY:
                outbox.abandon_lane(self._database, lane, now - DAY, now, NO_TARGET)
            return DAY
        with self._mutex:
            rest = self._rest_until.get(lane, 0.0) - time.monotonic()
            if lane in self._threads or len(self._threads) >= LANES:
                return DAY  # a thread that ends wakes us
            if rest > 0 or queue.due_at > now:
                return max(rest, queue.due_at - now)
            thread = threading.Thread(
                target=self._work, args=(lane, sender), name=f"{lane.kind} {lane.target}", daemon=True
            )
            self._threads[lane] = thread
        thread.start()
        return DAY

    def _work(self, lane: Lane, sender: Sender) -> None:
        """Make all deliveries of a lane that are due, one after the other."""
        try:
            while not self._stopping.is_set():
                delivery = outbox.find_next_due(self._database, lane, time.time())
                if delivery is None or not self._attempt(delivery, sender):
                    return
        except SourceError as error:
            log.warning("%s %s rests: %s", lane.kind, lane.target, error)
            self._rest_until[lane] = time.monotonic() + REST
        except Exception:  # the fence
            log.exception("%s %s rests", lane.kind, lane.target)
            self._rest_until[lane] = time.monotonic() + REST
        finally:
            with self._mutex:
                del self._threads[lane]
            self._waiter.wake()

    def _attempt(self, delivery: Delivery, sender: Sender) -> bool:
        """Return False if nothing of this lane can be done now."""
        now, settings = time.time(), self._settings
        if settings is None or not self._db.is_current:
            return False
        if not sender.has_target(delivery.target, delivery.url, settings):
            return False
        retry_at = now + sender.policy.pause(delivery.attempt + 1)
        claimed = outbox.claim_delivery(self._database, delivery, now, retry_at)
        if claimed is None:
            return True
        event = _find_event(self._database, claimed)
        if event is None:
            outbox.record_dead(self._database, claimed, now, "its event is not in the journal any more")
            return True
        result = sender.deliver(claimed, event, settings)
        self._record(claimed, result, sender)
        return True

    def _record(self, delivery: Delivery, result: Result, sender: Sender) -> None:
        for tries_left in reversed(range(TRIES)):
            if not self._db.is_current:
                return
            try:
                self._write(delivery, result, sender, time.time())
            except SourceError:
                if not tries_left or self._stopping.wait(1.0):
                    raise
            else:
                return

    def _write(self, delivery: Delivery, result: Result, sender: Sender, now: float) -> None:
        name = f"{delivery.kind} {delivery.target} {delivery.id}"
        if result.outcome == "delivered":
            data = {"status": result.status, "seconds": round(result.seconds, 3)}
            outbox.record_delivered(self._database, delivery, now, data)
            log.info("%s: delivered, try %d", name, delivery.attempt)
        elif result.outcome == "dropped":
            outbox.record_dropped(self._database, delivery, now, result.message)
        elif result.outcome == "dead" or sender.policy.is_over(delivery, now):
            outbox.record_dead(self._database, delivery, now, result.message)
            log.warning("%s: given up after try %d: %s", name, delivery.attempt, result.message)
        else:
            pause = sender.policy.pause(delivery.attempt, result.after)
            outbox.record_failure(self._database, delivery, result.message, now + pause)
            log.info(
                "%s: try %d failed, again in %.0f s: %s", name, delivery.attempt, pause, result.message
            )

    def _report(self, source: str, problem: str) -> None:
        if self._problems.get(source) != problem:
            log.warning("%s: %s", source, problem)
        self._problems[source] = problem


_NEVER = object()


def _find_event(path: str, delivery: Delivery) -> Event | None:
    events = journal.read_after(path, delivery.seq - 1, 1)
    return events[0] if events and events[0].seq == delivery.seq else None


def _read_stamp(file: str) -> object:
    try:
        status = os.stat(file)
    except OSError:
        return None
    return (status.st_ino, status.st_size, status.st_mtime_ns)
