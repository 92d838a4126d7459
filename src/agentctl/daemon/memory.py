"""How much memory this process has to itself."""

from __future__ import annotations


def private_bytes() -> int | None:
    """None: the kernel does not say (before 4.14, or no Linux)."""
    try:
        with open("/proc/self/smaps_rollup", "rb") as file:
            lines = file.read().splitlines()
    except OSError:
        return None
    return sum(int(line.split()[1]) for line in lines if line.startswith(b"Private_")) * 1024
