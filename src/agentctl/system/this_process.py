"""This process: its name, its descriptors, its memory."""

from __future__ import annotations

import os

DESCRIPTORS = "/proc/self/fd"
PLENTY = 1 << 20
LOOK = 32  # descriptors that a look may need at once: adapters look side by side; a database takes three


def set_name(name: str) -> None:
    """Set the name that ps shows. Raises OSError."""
    with open("/proc/self/comm", "wb", buffering=0) as file:
        file.write(name.encode("ascii"))


def list_descriptors() -> list[int]:
    """Return the open descriptors. One is that of the listing, closed by now. Raises OSError."""
    return [int(name) for name in os.listdir(DESCRIPTORS)]


def descriptor_path(descriptor: int) -> str:
    """Return a short path that leads to what this descriptor has open."""
    return f"/proc/self/fd/{descriptor}"


def make_memory_file(name: str) -> int:
    """Open a file that is in memory only and ends with its last descriptor. Raises OSError."""
    return os.memfd_create(name)


def count_free_descriptors() -> int:
    """Return how many descriptors this process may still open; 0 if that cannot be read."""
    import resource

    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if limit == resource.RLIM_INFINITY:
        return PLENTY
    try:
        # The size of the directory since Linux 6.2, else 0. To list a thousand takes a millisecond.
        used = os.stat(DESCRIPTORS).st_size or len(list_descriptors()) - 1
    except OSError:
        return 0
    return max(0, limit - used)


def describe_shortage() -> str | None:
    """Say what is wrong if too few descriptors are left for a whole look; else None."""
    free = count_free_descriptors()
    if free >= LOOK:
        return None
    return f"{free} file descriptors left, too few for a whole look; raise the limit (ulimit -n)"


def read_memory() -> dict[str, int]:
    """Return the bytes of this process by the kernel's names (Rss, Private_Clean, Private_Dirty, ...),
    summed over all mappings; empty if the kernel does not count them (before 4.14)."""
    try:
        with open("/proc/self/smaps_rollup", "rb") as file:
            lines = [line.split() for line in file.read().decode("ascii", "replace").splitlines()]
    except OSError:
        return {}
    return {words[0].rstrip(":"): int(words[1]) * 1024 for words in lines if words[2:] == ["kB"]}


def read_private_bytes() -> int | None:
    """Return the memory that this process shares with no other; None: the kernel does not count it."""
    sizes = read_memory()
    return sum(size for name, size in sizes.items() if name.startswith("Private_")) if sizes else None
