"""The soak's own clock moves stamps and the time of day."""

import os
import struct
import subprocess
import sys
import time
from pathlib import Path

from tests.soak.clock import STEPPED

PRINT_TIMES = """
import os, sys, time
for path in sys.argv[1:]:
    status = os.stat(path)
    print(status.st_mtime, status.st_mtime_ns, status[8], status.st_size)
print(time.time(), time.clock_gettime(time.CLOCK_BOOTTIME))
"""


def test_stamps_and_time_of_day_move_by_the_offset_of_their_moment(tmp_path: Path) -> None:
    before, after, clock = tmp_path / "before", tmp_path / "after", tmp_path / "clock"
    before.write_text("a")
    after.write_text("ab")
    os.utime(before, (1000.0, 1000.0))
    clock.write_bytes(struct.pack("6d", 1.0, 0.0, 2000.0, 3600.0, 0.0, 0.0))
    ran = subprocess.run(
        [sys.executable, "-c", PRINT_TIMES, str(before), str(after)],
        env={"PYTHONPATH": STEPPED, "SOAK_CLOCK": str(clock)},
        capture_output=True,
        text=True,
        check=True,
    )
    first, second, now = ([float(word) for word in line.split()] for line in ran.stdout.splitlines())
    assert first[0] == before.stat().st_mtime
    assert second == [
        after.stat().st_mtime + 3600,
        after.stat().st_mtime_ns + 3600e9,
        int(after.stat().st_mtime + 3600),
        2,
    ]
    assert abs(now[0] - time.time() - 3600) < 60
    assert abs(now[1] - time.clock_gettime(time.CLOCK_BOOTTIME)) < 60
