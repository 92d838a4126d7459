"""Puts a Python process on a clock that the soak can set: the machine's own is never touched.

Python imports this before any program if its directory is on PYTHONPATH. $SOAK_CLOCK names a file with
all steps so far: when (by the machine's clock), and by how many seconds the time of day is off since.
It is mapped into memory, so a step is seen at once by all who run. The kernel stamps a file with the
time of day as it is then: what a file's status tells is off by what the clock was off at that moment.
The clocks that nobody can set (monotonic, boot) stay as they are.

A shim is started without site, and so is what it becomes: who starts such a program has it read this
file first.
"""

import mmap
import os
import struct
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

_seconds, _nanoseconds = time.time, time.time_ns
_broken_down, _local = time.gmtime, time.localtime
_STEP = struct.Struct("dd")
_STAMPS = ("st_atime", "st_mtime", "st_ctime")


class _Steps:
    def __init__(self, path: str) -> None:
        fd = os.open(path, os.O_RDONLY)
        self._made = mmap.mmap(fd, 0, prot=mmap.PROT_READ)
        os.close(fd)

    def __iter__(self) -> Iterator[tuple[float, float]]:
        """Oldest first. An entry that is all zero has not been made yet."""
        for at in range(0, len(self._made), _STEP.size):
            since, off = _STEP.unpack_from(self._made, at)
            if not since:
                return
            yield since, off

    def at(self, moment: float) -> float:
        return next((off for since, off in reversed(list(self)) if since <= moment), 0.0)

    def now(self) -> float:
        return self.at(float("inf"))

    def stamped(self, call: Callable[..., os.stat_result]) -> Callable[..., os.stat_result]:
        def seen(*words: Any, **more: Any) -> os.stat_result:
            told = call(*words, **more)
            moved = {name: self.at(getattr(told, name)) for name in _STAMPS}
            return _restamped(told, moved) if any(moved.values()) else told

        return seen


def _restamped(told: os.stat_result, moved: Mapping[str, float]) -> os.stat_result:
    names = [name for name in dir(told) if name.startswith("st_")]
    more = {name: getattr(told, name) for name in names}
    for name, off in moved.items():
        more[name] += off
        more[f"{name}_ns"] += int(off * 1e9)
    return os.stat_result((*told[:7], *(int(more[name]) for name in _STAMPS)), more)


def _step(path: str) -> None:
    steps = _Steps(path)

    def seconds() -> float:
        return _seconds() + steps.now()

    time.time = seconds
    time.time_ns = lambda: _nanoseconds() + int(steps.now() * 1e9)
    time.gmtime = lambda given=None: _broken_down(seconds() if given is None else given)
    time.localtime = lambda given=None: _local(seconds() if given is None else given)
    for name in ("stat", "lstat", "fstat"):
        setattr(os, name, steps.stamped(getattr(os, name)))
    os.posix_spawn = _spawned(os.posix_spawn)
    os.execve = _spawned(os.execve)


def _spawned(call: Any) -> Any:
    def with_this(path: Any, words: Sequence[Any], environ: Mapping[Any, Any], **more: Any) -> Any:
        given = [os.fsdecode(word) for word in words]
        if "-I" in given:
            given[given.index("-c") + 1] = f"{_FIRST}; {given[given.index('-c') + 1]}"
        return call(path, given, environ, **more)

    return with_this


_HERE = os.path.abspath(__file__)
_FIRST = f"exec(open({_HERE!r}).read(), {{'__name__': 'stepped', '__file__': {_HERE!r}}})"
if _path := os.environ.get("SOAK_CLOCK"):
    _step(_path)
