"""How many descriptors this process may still open."""

from __future__ import annotations

import os
import resource

PLENTY = 1 << 20
LOOK = 32  # that a look may need at once: adapters look side by side, and a database takes three


def left() -> int:
    """0 where not even that can be asked."""
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if limit == resource.RLIM_INFINITY:
        return PLENTY
    try:
        used = len(os.listdir("/proc/self/fd")) - 1  # without the one that lists them
    except OSError:
        return 0
    return max(0, limit - used)


def shortage() -> str | None:
    """What is wrong where a whole look may not be possible."""
    free = left()
    if free >= LOOK:
        return None
    return f"{free} file descriptors left, too few for a whole look; raise the limit (ulimit -n)"
