"""Reads the journal while it is written, to know when each event was there at the latest."""

from __future__ import annotations

import threading
from pathlib import Path

from agentctl.errors import SourceError
from agentctl.state import journal
from agentctl.truth.event import Event
from tests.soak.book import Book, now

BEAT = 0.05  # seconds
GRACE = 1.0  # seconds; an end within them may be of the run before


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
            events = self._journal.read_new(10_000)
        except SourceError as error:
            if not self._book.disk_was_full(now() - 1, now(), margin=5):
                self._book.note("wrong", f"the journal cannot be read: {error}")
            return
        moment, before, self._last = now(), self._last, began
        for event in events:
            self.events.append((moment, event))
            if event.type == "session.stopped":
                self._check_end(event, before)

    def _check_end(self, event: Event, moment: float) -> None:
        """The event was written after the end and after `moment`: a run that was ready before
        `moment` and still lives is not the one that ended. What a daemon sees on a full disk it writes
        later."""
        full = self._book.full
        moment = min([moment, *(since for since, until in full if until > moment - GRACE)])
        process = event.body["data"].get("process")
        for run in self._book.runs_of(event.subject or ""):
            is_subject = process is None or run.process in (None, process)
            if is_subject and run.lives(moment - GRACE):
                self._book.note("wrong", f"event {event.seq}: {run} is reported as stopped, and lives")
