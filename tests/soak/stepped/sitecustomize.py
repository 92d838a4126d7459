"""Puts a Python process on a clock that the soak can set: the machine's own is never touched.

Python imports this before any program if its directory is on PYTHONPATH. $SOAK_CLOCK names a file with
all steps so far: when (by the machine's clock), and by how many seconds the time of day is off since.
The file is mapped into memory, so every program sees a step at once. The kernel stamps a file with the
machine's time of day: its stamps are moved by what the clock was off at that moment.
The clocks that cannot be set (monotonic, boot) stay as they are.

A shim is started without site, and so is the program that it becomes: the command of such a program is
changed to read this file first.
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
        self._entries = mmap.mmap(fd, 0, prot=mmap.PROT_READ)
        os.close(fd)

    def __iter__(self) -> Iterator[tuple[float, float]]:
        """Yield the steps, oldest first. An entry that is all zero is not used yet."""
        for at in range(0, len(self._entries), _STEP.size):
            since, off = _STEP.unpack_from(self._entries, at)
            if not since:
                return
            yield since, off

    def offset_at(self, moment: float) -> float:
        return next((off for since, off in reversed(list(self)) if since <= moment), 0.0)

    def offset(self) -> float:
        return self.offset_at(float("inf"))

    def move_stamps(self, call: Callable[..., os.stat_result]) -> Callable[..., os.stat_result]:
        def call_moved(*words: Any, **more: Any) -> os.stat_result:
            status = call(*words, **more)
            moved = {name: self.offset_at(getattr(status, name)) for name in _STAMPS}
            return _replace_stamps(status, moved) if any(moved.values()) else status

        return call_moved


def _replace_stamps(status: os.stat_result, moved: Mapping[str, float]) -> os.stat_result:
    names = [name for name in dir(status) if name.startswith("st_")]
    more = {name: getattr(status, name) for name in names}
    for name, off in moved.items():
        more[name] += off
        more[f"{name}_ns"] += int(off * 1e9)
    return os.stat_result((*status[:7], *(int(more[name]) for name in _STAMPS)), more)


def _install(path: str) -> None:
    steps = _Steps(path)

    def seconds() -> float:
        return _seconds() + steps.offset()

    time.time = seconds
    time.time_ns = lambda: _nanoseconds() + int(steps.offset() * 1e9)
    time.gmtime = lambda moment=None: _broken_down(seconds() if moment is None else moment)
    time.localtime = lambda moment=None: _local(seconds() if moment is None else moment)
    for name in ("stat", "lstat", "fstat"):
        setattr(os, name, steps.move_stamps(getattr(os, name)))
    os.posix_spawn = _start_with_clock(os.posix_spawn)
    os.execve = _start_with_clock(os.execve)


def _start_with_clock(call: Any) -> Any:
    def start(path: Any, words: Sequence[Any], environ: Mapping[Any, Any], **more: Any) -> Any:
        argv = [os.fsdecode(word) for word in words]
        if "-I" in argv:
            argv[argv.index("-c") + 1] = f"{_FIRST}; {argv[argv.index('-c') + 1]}"
        return call(path, argv, environ, **more)

    return start


_HERE = os.path.abspath(__file__)
_FIRST = f"exec(open({_HERE!r}).read(), {{'__name__': 'stepped', '__file__': {_HERE!r}}})"
if _path := os.environ.get("SOAK_CLOCK"):
    _install(_path)
