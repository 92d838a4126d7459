"""Which pids the kernel gave out since the last call.

The kernel shows the last pid that it gave out in /proc/loadavg. In an lxcfs container that file is the
host's, whose pids mean nothing here, and in gVisor it never changes. So a file is used only if it shows
the number of a thread that we start. If none does, the names in /proc are compared.
"""

from __future__ import annotations

import os
import threading

from agentctl.light_typing import Collection

COUNTERS = ("/proc/loadavg", "/proc/sys/kernel/ns_last_pid")  # the last word of each is the pid
PROBES = 3  # the pids may wrap around during one of them
MANY = 2000  # new pids: with more, list /proc instead of checking each


class NewPids:
    def __init__(self) -> None:
        self._counter: Counter | None = _find_counter()
        self._pids: frozenset[int] = frozenset() if self._counter is not None else _list_pids()

    def close(self) -> None:
        if self._counter is not None:
            self._counter.close()

    def take(self) -> Collection[int]:
        """Return the pids given out since the last call. Some are of threads, or of processes that have
        ended."""
        if self._counter is not None:
            try:
                return self._counter.take()
            except (OSError, ValueError):  # it worked before, and does not any more
                self._counter.close()
                self._counter, self._pids = None, _list_pids()
                return self._pids
        before, self._pids = self._pids, _list_pids() or self._pids
        return self._pids - before


class Counter:
    """A file that shows the last pid that was given out. Raises OSError, ValueError."""

    def __init__(self, path: str) -> None:
        self._fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        self._raw, self._last = b"", 0

    def close(self) -> None:
        os.close(self._fd)

    def take(self) -> Collection[int]:
        raw = self._read()
        if raw == self._raw:  # nearly always
            return ()
        before, self._raw, self._last = self._last, raw, int(raw)
        if before <= self._last <= before + MANY:
            return range(before + 1, self._last + 1)
        return _list_pids()  # the pids have wrapped around, or are too many

    def is_usable(self) -> bool:
        """Return whether the file shows the pids of our own pid namespace."""
        for _ in range(PROBES):
            before, ours = int(self._read()), _take_thread_id()
            self._raw = self._read()
            self._last = int(self._raw)
            if before < ours <= self._last:
                return True
        return False

    def _read(self) -> bytes:
        return os.pread(self._fd, 128, 0).rpartition(b" ")[2]


def _find_counter() -> Counter | None:
    for path in COUNTERS:
        try:
            counter = Counter(path)
        except OSError:  # not in this kernel, or hidden
            continue
        try:
            if counter.is_usable():
                return counter
        except (OSError, ValueError):  # not a number
            pass
        counter.close()
    return None


def _take_thread_id() -> int:
    """Return the id of a new thread, which costs less than a process and takes the next pid; 0 if no
    thread can start."""
    numbers: list[int] = []
    thread = threading.Thread(target=lambda: numbers.append(threading.get_native_id()), daemon=True)
    try:
        thread.start()
    except RuntimeError:  # no more threads
        return 0
    thread.join()
    return numbers[0]


def _list_pids() -> frozenset[int]:
    """Return the pids of all processes; empty if they cannot be listed."""
    try:
        return frozenset(int(name) for name in os.listdir("/proc") if name.isdigit())
    except OSError:
        return frozenset()
