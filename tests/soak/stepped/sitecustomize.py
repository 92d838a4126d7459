"""Puts a Python process on a clock that the soak can set: the machine's own is never touched.

Python imports this before any program if its directory is on PYTHONPATH. $SOAK_CLOCK names a file of
eight bytes: seconds, as a double, by which the time of day is off. They are mapped into memory, so a
step is seen at once by all who run. The clocks that nobody can set (monotonic, boot) stay as they are.
"""

import mmap
import os
import struct
import time

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
    time.localtime = lambda given=None: _local(seconds() if given is None else given)


if _path := os.environ.get("SOAK_CLOCK"):
    _step(_path)
