"""The bell: wakes whoever waits for events. It carries no event: the journal does, and each reads on
from where it was. So a bell that cannot be heard now is no loss: what it would say is still there."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

Hearer = Callable[[int], None]


class Bell:
    """Rung from any thread; heard in the loop's. Many rings before the loop comes round are one."""

    def __init__(self) -> None:
        self.seq = 0  # the last event that was rung for
        self._mutex = threading.Lock()
        self._pending = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._hearers: set[Hearer] = set()

    def hang(self, loop: asyncio.AbstractEventLoop | None) -> None:
        """None: take it down; nobody hears it any more."""
        with self._mutex:
            self._loop = loop
            self._pending = False

    def ring(self, seq: int) -> None:
        """There are events up to this one."""
        with self._mutex:
            self.seq = max(self.seq, seq)
            if self._loop is None or self._pending:
                return
            self._pending = True
            self._loop.call_soon_threadsafe(self._strike)

    def anew(self) -> None:
        """The journal was deleted, and with it the numbers that were rung for."""
        with self._mutex:
            self.seq = 0

    def hear(self, hearer: Hearer) -> None:
        """In the loop's thread, as are the calls of `hearer`, which must not block."""
        self._hearers.add(hearer)

    def leave(self, hearer: Hearer) -> None:
        self._hearers.discard(hearer)

    @property
    def hearers(self) -> int:
        return len(self._hearers)

    def _strike(self) -> None:
        with self._mutex:
            self._pending = False
            seq = self.seq
        for hearer in tuple(self._hearers):
            hearer(seq)
