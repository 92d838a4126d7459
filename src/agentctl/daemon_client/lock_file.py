"""Which process is the daemon of a home: what its lock file says, and whether the kernel agrees.

The file can be forged. So nothing is done to the process that it names before the kernel has said that
this process holds the lock.
"""

from __future__ import annotations

import json

from agentctl.errors import SourceError
from agentctl.light_typing import NamedTuple
from agentctl.system import files, proc
from agentctl.system.proc import ProcessIdentity
from agentctl.system.procfs import STAT_CAP, Entry

LOCK = "daemon.lock"
_CAP = 1 << 14


class Holder(NamedTuple):
    """What a daemon writes into the lock file that it holds."""

    identity: ProcessIdentity
    namespace: str | None  # the pid namespace of the identity
    version: str
    socket: str
    since: float

    def to_bytes(self) -> bytes:
        identity = self.identity
        return json.dumps({
            "boot": identity.boot, "pid": identity.pid, "start": identity.start,
            "namespace": self.namespace, "version": self.version, "socket": self.socket,
            "since": self.since,
        }).encode() + b"\n"  # fmt: skip

    @property
    def is_foreign(self) -> bool:
        """The process is in another container, where we cannot look."""
        return proc.may_be_elsewhere(self.identity, self.namespace)

    @property
    def label(self) -> str:
        """Its version and pid, for messages."""
        place = " in another container" if self.is_foreign else ""
        return f"agentctl {self.version}, pid {self.identity.pid}{place}"


def lock_file(home: str) -> str:
    return f"{home}/{LOCK}"


def read_holder(home: str) -> Holder | None:
    """Return the holder that the file names, true or not. None: the file names no process, or not
    yet."""
    try:
        fields = json.loads(files.read_file(lock_file(home), _CAP).data)
        namespace = fields.get("namespace")
        return Holder(
            identity=ProcessIdentity(str(fields["boot"]), int(fields["pid"]), int(fields["start"])),
            namespace=namespace if isinstance(namespace, str) else None,
            version=str(fields["version"]),
            socket=str(fields["socket"]),
            since=float(fields["since"]),
        )
    except (SourceError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None


def find_proven(home: str) -> Holder | None:
    """Return the daemon of this home if the kernel says that it lives and holds the lock, else None."""
    holder = read_holder(home)
    if holder is None or holder.is_foreign or not is_holder(holder.identity, home):
        return None
    return holder


def find_likely(home: str) -> Holder | None:
    """Return the proven daemon, or one in another container, which the kernel does not show us."""
    holder = read_holder(home)
    return holder if holder is not None and holder.is_foreign else find_proven(home)


def is_holder(identity: ProcessIdentity, home: str) -> bool:
    """Return True if this process has the lock file of this home open and locked."""
    process = proc.find_process(identity)
    if process is None or not process.is_alive:
        return False
    try:
        inode = files.read_status(lock_file(home)).st_ino
        with Entry(identity) as entry:
            numbers = [number for number, target in entry.links("fd") if target.endswith(f"/{LOCK}")]
            return any(_is_locked(entry.read(f"fdinfo/{number}", STAT_CAP), inode) for number in numbers)
    except SourceError:  # the process is gone meanwhile, or another user's
        return False


def _is_locked(fdinfo: bytes, inode: int) -> bool:
    """Find a line such as `lock:\\t1: FLOCK  ADVISORY  WRITE 4711 00:2b:5678 0 EOF`"""
    for line in fdinfo.splitlines():
        words = line.split()
        if words[:1] == [b"lock:"] and b"FLOCK" in words and b"WRITE" in words:
            return any(word.endswith(b":%d" % inode) for word in words)
    return False
