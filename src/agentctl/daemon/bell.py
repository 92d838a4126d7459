"""The bell wakes subscribers when there are new events. It carries no event: each subscriber reads on in
the journal from where it was. So a ring that cannot be delivered now loses nothing."""

from __future__ import annotations

import asyncio
import threading

from agentctl.light_typing import Callable

Subscriber = Callable[[int], None]


class Bell:
    """May be rung in any thread; calls its subscribers in the thread of the loop. Rings that come before
    the loop has its turn are one."""

    def __init__(self) -> None:
        self.seq = 0  # the last event
        self._mutex = threading.Lock()
        self._is_pending = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._subscribers: set[Subscriber] = set()

    def attach(self, loop: asyncio.AbstractEventLoop | None) -> None:
        """Use this loop. None: call no subscriber any more."""
        with self._mutex:
            self._loop = loop
            self._is_pending = False

    def ring(self, seq: int) -> None:
        """There are events up to this number."""
        with self._mutex:
            self.seq = max(self.seq, seq)
            if self._loop is None or self._is_pending:
                return
            self._is_pending = True
            self._loop.call_soon_threadsafe(self._call_subscribers)

    def reset(self) -> None:
        """Begin at 0: the journal was deleted."""
        with self._mutex:
            self.seq = 0

    def subscribe(self, subscriber: Subscriber) -> None:
        """Call in the thread of the loop. `subscriber` is called there, too, and must not block."""
        self._subscribers.add(subscriber)

    def unsubscribe(self, subscriber: Subscriber) -> None:
        self._subscribers.discard(subscriber)

    @property
    def subscribers(self) -> int:
        return len(self._subscribers)

    def _call_subscribers(self) -> None:
        with self._mutex:
            self._is_pending = False
            seq = self.seq
        for subscriber in tuple(self._subscribers):
            subscriber(seq)
