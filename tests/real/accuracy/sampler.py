"""Asks tools again and again, and keeps each answer with its time. A tool is any command."""

from __future__ import annotations

import itertools
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from tests.real.accuracy.timeline import Census
from tests.real.accuracy.tools import Row, Tool

LONGEST = 20.0  # seconds that one answer may take


class Sample(NamedTuple):
    asked_at: float  # time.time()
    answered_at: float
    rows: tuple[Row, ...] | None  # None: no answer that could be read
    before: Census  # who lived when the question was asked
    after: Census  # who lived when the answer was in
    error: str = ""


class Pace(NamedTuple):
    """How hard a sampler works: more would measure the load that it makes."""

    interval: float  # seconds between two questions
    at_once: int  # questions in the air
    politely: bool  # yields to everything else on the machine


class Sampler:
    """Asks one tool after another, a question an interval, and one at once when poked."""

    def __init__(
        self,
        tools: Sequence[Tool],
        pace: Pace,
        census: Callable[[], Census],
        environ: Mapping[str, str],
        cwd: str,
    ) -> None:
        self.samples: dict[str, list[Sample]] = {tool.name: [] for tool in tools}
        self._next, self._pace = itertools.cycle(tools), pace
        self._census = census
        self._environ, self._cwd = dict(environ), cwd
        self._wake, self._over = threading.Event(), threading.Event()
        self._free = threading.Semaphore(pace.at_once)
        self._asking: list[threading.Thread] = []
        self._clock = threading.Thread(target=self._tick, daemon=True)

    def start(self) -> None:
        self._clock.start()

    def poke(self) -> None:
        self._wake.set()

    def stop(self) -> None:
        """Returns when the last answer is in."""
        self._over.set()
        self._wake.set()
        self._clock.join()
        for thread in self._asking:
            thread.join()
        for samples in self.samples.values():
            samples.sort(key=lambda sample: sample.asked_at)

    def _tick(self) -> None:
        while not self._over.is_set():
            if self._free.acquire(timeout=self._pace.interval):
                thread = threading.Thread(target=self._ask, args=[next(self._next)], daemon=True)
                self._asking = [one for one in self._asking if one.is_alive()] + [thread]
                thread.start()
            self._wake.wait(self._pace.interval)
            self._wake.clear()

    def _ask(self, tool: Tool) -> None:
        try:
            self.samples[tool.name].append(self._answer(tool))
        finally:
            self._free.release()

    def _answer(self, tool: Tool) -> Sample:
        politely = ["nice", "-n", "10"] if self._pace.politely else []
        before = self._census()
        asked_at = time.time()
        try:
            process = subprocess.run(
                [*politely, *tool.command()],
                env=self._environ,
                cwd=self._cwd,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=LONGEST,
                check=False,
            )
            answered_at = time.time()
            after = self._census()
            rows = tuple(tool.rows(process.stdout, process.returncode))
            return Sample(asked_at, answered_at, rows, before, after)
        except (ValueError, subprocess.TimeoutExpired) as error:
            return Sample(asked_at, time.time(), None, before, {}, f"{type(error).__name__}: {error}")
