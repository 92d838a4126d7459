"""Who the daemon of a home is: what its lock file says, and whether the kernel agrees.

Anybody who may write there can forge the file. So nothing is done to the process that it names before
the kernel has said that this very process holds the lock.
"""

from __future__ import annotations

import json
from typing import NamedTuple

from agentctl.errors import SourceError
from agentctl.system import files, proc
from agentctl.system.identity import ProcessIdentity
from agentctl.system.proc_entry import STAT_CAP, Entry

LOCK = "daemon.lock"
_CAP = 1 << 14


class Holder(NamedTuple):
    """What a daemon writes of itself into the lock that it holds."""

    identity: ProcessIdentity
    namespace: str | None  # of pids, that the identity belongs to
    version: str
    socket: str
    since: float

    def written(self) -> bytes:
        identity = self.identity
        return json.dumps({
            "boot": identity.boot, "pid": identity.pid, "start": identity.start,
            "namespace": self.namespace, "version": self.version, "socket": self.socket,
            "since": self.since,
        }).encode() + b"\n"  # fmt: skip

    @property
    def foreign(self) -> bool:
        """Whether it is where we cannot look."""
        return proc.elsewhere(self.identity, self.namespace)

    @property
    def named(self) -> str:
        """For people."""
        place = " in another container" if self.foreign else ""
        return f"agentctl {self.version}, pid {self.identity.pid}{place}"


def lock_file(home: str) -> str:
    return f"{home}/{LOCK}"


def told(home: str) -> Holder | None:
    """Whom the file names, true or not. None: nobody, or nobody yet."""
    try:
        said = json.loads(files.whole(lock_file(home), _CAP).data)
        identity = ProcessIdentity(str(said["boot"]), int(said["pid"]), int(said["start"]))
        namespace = said.get("namespace")
        return Holder(
            identity,
            namespace if isinstance(namespace, str) else None,
            str(said["version"]),
            str(said["socket"]),
            float(said["since"]),
        )
    except (SourceError, ValueError, TypeError, KeyError, RecursionError):
        return None


def proven(home: str) -> Holder | None:
    """The daemon of this home, alive, by the kernel's word. None: no such process can be shown."""
    holder = told(home)
    if holder is None or holder.foreign or not holds(holder.identity, home):
        return None
    return holder


def likely(home: str) -> Holder | None:
    """The same, or one in another container, of whom the kernel tells us nothing."""
    holder = told(home)
    return holder if holder is not None and holder.foreign else proven(home)


def holds(identity: ProcessIdentity, home: str) -> bool:
    """Whether this very process has the lock file of this home open, and locked."""
    process = proc.current(identity)
    if process is None or not process.alive:
        return False
    try:
        inode = files.status(lock_file(home)).st_ino
        with Entry(identity) as entry:
            wanted = [number for number, target in entry.links("fd") if target.endswith(f"/{LOCK}")]
            return any(_locked(entry.read(f"fdinfo/{number}", STAT_CAP), inode) for number in wanted)
    except SourceError:  # gone meanwhile, or another user's
        return False


def _locked(fdinfo: bytes, inode: int) -> bool:
    """`lock:\\t1: FLOCK  ADVISORY  WRITE 4711 00:2b:5678 0 EOF`"""
    for line in fdinfo.splitlines():
        words = line.split()
        if words[:1] == [b"lock:"] and b"FLOCK" in words and b"WRITE" in words:
            return any(word.endswith(b":%d" % inode) for word in words)
    return False
