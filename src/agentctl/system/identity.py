"""The identity of a process: what tells it from every other one, for ever."""

from typing import NamedTuple


class ProcessIdentity(NamedTuple):
    """One process, for ever: a pid alone is reused, a pid with its start tick and boot is not."""

    boot: str
    pid: int
    start: int  # clock ticks after boot, field 22 of /proc/PID/stat

    @property
    def address(self) -> str:
        return f"proc:{self.pid}@{self.start}"
