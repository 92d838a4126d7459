"""Which process numbers were given out since we last asked.

The kernel shows the number that it gave out last in /proc/loadavg. In an lxcfs container that file is
the host's, whose numbers mean nothing here, and in gVisor it never changes. So a file is used only if it
shows the number of a thread that we start; where none does, the names in /proc are compared.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Collection

COUNTERS = ("/proc/loadavg", "/proc/sys/kernel/ns_last_pid")  # the last word of each is the number
PROBES = 3  # the numbers may begin anew during one of them
MANY = 2000  # new numbers: rather list those in use than ask for each


class Numbers:
    def __init__(self) -> None:
        self._counter: Counter | None = _counter()
        self._known: frozenset[int] = frozenset() if self._counter is not None else _in_use()

    def close(self) -> None:
        if self._counter is not None:
            self._counter.close()

    def new(self) -> Collection[int]:
        """Those given out since the last call, as far as we know: some are of threads, some of processes
        that have ended."""
        if self._counter is not None:
            try:
                return self._counter.new()
            except (OSError, ValueError):  # it has worked before; whatever it says now is of no use
                self._counter.close()
                self._counter, self._known = None, _in_use()
                return self._known
        before, self._known = self._known, _in_use() or self._known
        return self._known - before


class Counter:
    """A file that shows the number that was given out last. Raises OSError, ValueError."""

    def __init__(self, path: str) -> None:
        self._fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        self._raw, self._last = b"", 0

    def close(self) -> None:
        os.close(self._fd)

    def new(self) -> Collection[int]:
        raw = self._read()
        if raw == self._raw:  # nearly always
            return ()
        before, self._raw, self._last = self._last, raw, int(raw)
        if before <= self._last <= before + MANY:
            return range(before + 1, self._last + 1)
        return _in_use()  # they have begun anew, or are too many

    def moves(self) -> bool:
        """Whether it shows the numbers of our own pid namespace."""
        for _ in range(PROBES):
            before, ours = int(self._read()), _number_given_out()
            self._raw = self._read()
            self._last = int(self._raw)
            if before < ours <= self._last:
                return True
        return False

    def _read(self) -> bytes:
        return os.pread(self._fd, 128, 0).rpartition(b" ")[2]


def _counter() -> Counter | None:
    for path in COUNTERS:
        try:
            counter = Counter(path)
        except OSError:  # not in this kernel, or hidden
            continue
        try:
            if counter.moves():
                return counter
        except (OSError, ValueError):  # not a number
            pass
        counter.close()
    return None


def _number_given_out() -> int:
    """To a thread, which costs less than a process and takes a number from the same count; 0: none."""
    told: list[int] = []
    thread = threading.Thread(target=lambda: told.append(threading.get_native_id()), daemon=True)
    try:
        thread.start()
    except RuntimeError:  # no more threads
        return 0
    thread.join()
    return told[0]


def _in_use() -> frozenset[int]:
    """Numbers of processes; empty where they cannot be listed now."""
    try:
        return frozenset(int(name) for name in os.listdir("/proc") if name.isdigit())
    except OSError:
        return frozenset()
