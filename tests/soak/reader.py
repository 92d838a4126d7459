"""Reads the journal while it is written, to know when each event was there at the latest."""

from __future__ import annotations

import threading
from pathlib import Path

from agentctl.errors import SourceError
from agentctl.state import journal
from agentctl.truth.event import Event
from tests.soak.book import Book, now

BEAT = 0.05  # seconds
GRACE = 1.0  # of a process that has just begun, an end that is told may be of the one before


class Reader:
    def __init__(self, notes: Path, book: Book) -> None:
        self.events: list[tuple[float, Event]] = []  # with the moment at which it was surely there
        self._book = book
        self._journal = journal.Reader(str(notes), 0)
        self._last = now()  # when we last began to read; while the disk is full we cannot
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="reader")

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._over.wait(BEAT):
            self._read()
        self._read()
        self._journal.close()

    def _read(self) -> None:
        began = now()
        try:
            found = self._journal.new(10_000)
        except SourceError as error:
            if not self._book.disk_was_full(now() - 1, now(), margin=5):
                self._book.note("wrong", f"the journal cannot be read: {error}")
            return
        moment, before, self._last = now(), self._last, began
        for event in found:
            self.events.append((moment, event))
            if event.type == "session.stopped":
                self._check_gone(event, before)

    def _check_gone(self, event: Event, moment: float) -> None:
        """Told after its end and after that moment, so whoever was there by then, and lives, is none of
        those that were told to have stopped. What it saw on a full disk a daemon tells later."""
        moment = min([moment, *(began for began, ended in self._book.full if ended > moment - GRACE)])
        process = event.body["data"].get("process")
        for run in self._book.runs_of(event.subject or ""):
            named = process is None or run.process in (None, process)
            if named and run.lives(moment - GRACE):
                self._book.note("wrong", f"event {event.seq}: {run} is told to have stopped, and lives")
