"""What cannot be seen from here, as a fact of the look.

"No process could be running this session" is a proof only where every process that could run it shows
in our process table. It does not where the files are shared with another machine or with another pid
namespace, or where the kernel hides other users' processes. Each limit has its reason, for `why`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from agentctl.errors import SourceError
from agentctl.system.mountinfo import Mount, mount_of, read_own
from agentctl.system.proc import Process

INITIAL_PID_NAMESPACE = "pid:[4026531836]"  # a constant of the kernel
ALONE = "AGENTCTL_ALONE"  # a person's word that nobody out of sight uses these files
# File systems that another machine may have mounted too. FUSE is one of them where a network is behind.
NETWORK = frozenset({
    "nfs", "nfs4", "cifs", "smb3", "smbfs", "ceph", "glusterfs", "fuse.glusterfs", "lustre", "afs", "9p",
    "virtiofs", "beegfs", "gpfs", "ocfs2", "gfs2", "orangefs", "fuse.sshfs", "fuse.s3fs", "fuse.rclone",
    "fuse.juicefs", "davfs", "fuse.gcsfuse", "vboxsf", "fuse.vmhgfs-fuse", "prl_fs", "drvfs",
})  # fmt: skip
# What a container is made of: these live and die with it, and nobody outside works in them.
LAYERED = frozenset({"overlay", "aufs", "fuse.fuse-overlayfs", "fuse-overlayfs"})
IN_MEMORY = frozenset({"tmpfs", "ramfs"})


class Sight:
    """The limits of one look. `table` is what the kernel shows of the processes."""

    def __init__(
        self,
        table: Mapping[int, Process],
        boot_time: float,
        environ: Mapping[str, str],
        *,
        namespace: str,
        mounts: Sequence[Mount],
    ) -> None:
        self._boot_time = boot_time
        self._mounts = mounts
        self._inside = namespace != INITIAL_PID_NAMESPACE
        first = table.get(1)
        self._others_hidden = first is None
        self._began = first.began(boot_time) if first is not None else None
        self.alone = environ.get(ALONE) == "1"
        shared = any(mount.kind in NETWORK for mount in mounts)
        self.clear = self.alone or not (self._inside or self._others_hidden or shared)

    def obstacle(self, path: str, began: float | None, written: float | None) -> str:
        """Why a process that we do not see may be at work in this file; empty: none can be. `began` is
        when the session did, `written` when its last record was."""
        if self.clear:
            return ""
        mount = self._mount_of(path)
        if mount.kind in NETWORK:
            return (
                f"its files are on a network file system ({mount.kind} at {mount.point}), "
                "where an agent on another machine may run it"
            )
        if written is not None and written + 1 < self._boot_time:
            return ""  # nobody on this machine has lived since
        if self._inside and not self._is_own(mount, began):
            return (
                f"its files at {mount.point} are shared with another pid namespace (a container), "
                "where an agent may run it out of our sight"
            )
        if self._others_hidden:
            return "/proc hides other users' processes (hidepid), and one of them may run it"
        return ""

    def is_on_network(self, path: str) -> bool:
        """Whether another machine may have this file too."""
        return not self.alone and self._mount_of(path).kind in NETWORK

    def _is_own(self, mount: Mount, began: float | None) -> bool:
        """Whether only processes of our own pid namespace work there. Nothing tells that of a plain
        directory: then what began before our namespace did was begun by somebody else. (At the same
        second counts as before: processes are dated by ticks, and clocks are set.)"""
        if mount.kind in LAYERED:
            return True
        plain = mount.point == "/" or (mount.kind in IN_MEMORY and mount.root == "/")
        since = began is not None and self._began is not None and began > self._began + 1
        return plain and since

    def _mount_of(self, path: str) -> Mount:
        return mount_of(os.path.realpath(path), self._mounts) or Mount(b"", b"", "/", "/")


def namespace_of_pids() -> str:
    try:
        return os.readlink("/proc/self/ns/pid")
    except OSError:  # a kernel without pid namespaces has the one
        return INITIAL_PID_NAMESPACE


def take(table: Mapping[int, Process], boot_time: float, environ: Mapping[str, str]) -> Sight:
    try:
        mounts = read_own()
    except SourceError:
        mounts = []
    return Sight(table, boot_time, environ, namespace=namespace_of_pids(), mounts=mounts)
