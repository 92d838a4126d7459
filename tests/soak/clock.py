"""A time of day that can be set, for programs in Python that are started on it."""

from __future__ import annotations

import struct
import time
from pathlib import Path

from tests.running import SOURCES

STEPPED = str(Path(__file__).parent / "stepped")
STEP, STEPS = struct.Struct("dd"), 64  # when it was set, and what it is off by since


class Clock:
    def __init__(self, path: Path) -> None:
        self.path = path
        # a program with these lives by this clock
        self.environ = {"PYTHONPATH": f"{STEPPED}:{SOURCES}", "SOAK_CLOCK": str(path)}
        self._count = 0
        path.write_bytes(bytes(STEPS * STEP.size))
        self.set(0.0)

    def set(self, offset: float) -> None:
        """Add a step. The steps before it stay in the file: files were stamped by them."""
        with open(self.path, "r+b") as file:
            file.seek(self._count * STEP.size)
            file.write(STEP.pack(time.time(), offset))
        self._count += 1
