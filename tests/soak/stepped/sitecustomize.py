"""Puts a Python process on a clock that the soak can set: the machine's own is never touched.

Python imports this before any program if its directory is on PYTHONPATH. $SOAK_CLOCK names a file of
eight bytes: seconds, as a double, by which the time of day is off. They are mapped into memory, so a
step is seen at once by all who run. The clocks that nobody can set (monotonic, boot) stay as they are.

A shim is started without site, and so is what it becomes: who starts such a program has it read this
file first.
"""

import mmap
import os
import struct
import time
from collections.abc import Mapping, Sequence
from typing import Any

_seconds, _nanoseconds = time.time, time.time_ns
_broken_down, _local = time.gmtime, time.localtime


def _step(path: str) -> None:
    fd = os.open(path, os.O_RDONLY)
    off = mmap.mmap(fd, 8, prot=mmap.PROT_READ)
    os.close(fd)

    def offset() -> float:
        return float(struct.unpack("d", off[:8])[0])

    def seconds() -> float:
        return _seconds() + offset()

    time.time = seconds
    time.time_ns = lambda: _nanoseconds() + int(offset() * 1e9)
    time.gmtime = lambda given=None: _broken_down(seconds() if given is None else given)
    os.posix_spawn = _spawned(os.posix_spawn)
    os.execve = _spawned(os.execve)
    time.localtime = lambda given=None: _local(seconds() if given is None else given)


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
