"""What cannot be seen from here.

"No process can be running this session" is a proof only if every process that could run it is in our
process table. Some may be missing if the files are shared with another machine or another pid namespace,
or if the kernel hides other users' processes. Each limit has a reason, which `why` shows.
"""

from __future__ import annotations

import os

from agentctl.errors import Gone, SourceError
from agentctl.light_typing import Mapping, Sequence
from agentctl.system import proc
from agentctl.system.mountinfo import Mount, find_mount, read_own_mounts
from agentctl.system.proc import Process

ALONE = "AGENTCTL_ALONE"  # set by the user: no process out of sight uses these files
MOUNTS_HIDDEN = "our mounts cannot be read, so its files may be shared with another machine or container"
# File systems that another machine may have mounted too.
NETWORK = frozenset({
    "nfs", "nfs4", "cifs", "smb3", "smbfs", "ceph", "glusterfs", "fuse.glusterfs", "lustre", "afs", "9p",
    "virtiofs", "beegfs", "gpfs", "ocfs2", "gfs2", "orangefs", "fuse.sshfs", "fuse.s3fs", "fuse.rclone",
    "fuse.juicefs", "davfs", "fuse.gcsfuse", "vboxsf", "fuse.vmhgfs-fuse", "prl_fs", "drvfs",
})  # fmt: skip
# The file systems of a container: no process outside works in them, and they end with it.
LAYERED = frozenset({"overlay", "aufs", "fuse.fuse-overlayfs", "fuse-overlayfs"})
# Behind any other FUSE there may be a network. (`fuseblk` has a disk behind it.)
LOCAL_FUSE = LAYERED | {
    "fuse.ntfs-3g", "fuse.mergerfs", "fuse.bindfs", "fuse.gocryptfs", "fuse.encfs",
}  # fmt: skip
IN_MEMORY = frozenset({"tmpfs", "ramfs"})


class Visibility:
    """The limits of one look. `mounts` are our own; if there are none, they could not be read."""

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
        self._points = {mount.point for mount in mounts}
        self._directories: dict[str, tuple[str, Mount]] = {}  # path without links, and its mount
        self._is_bare: bool | None = None  # None: not read yet
        self._is_contained = namespace != proc.INITIAL_PID_NAMESPACE
        first = table.get(1)
        self._hides_others = first is None
        self._namespace_start = first.find_start_time(boot_time) if first is not None else None
        self.is_alone = environ.get(ALONE) == "1"
        is_shared = not mounts or any(_may_be_network(mount.kind) for mount in mounts)
        self.is_clear = self.is_alone or not (self._is_contained or self._hides_others or is_shared)

    def find_obstacle(self, path: str, began: float | None, written_at: float | None) -> str:
        """Return why a process that we do not see may use this file; empty: none can. `began` is when
        the session began, `written_at` when its last record was written."""
        if self.is_clear:
            return ""
        if not self._mounts:
            return MOUNTS_HIDDEN
        mount = self._find_mount(path)
        if _may_be_network(mount.kind):
            what = "a" if mount.kind in NETWORK else "what may be a"
            return (
                f"its files are on {what} network file system ({mount.kind} at {mount.point}), "
                "where an agent on another machine may run it"
            )
        if written_at is not None and written_at + 1 < self._boot_time:
            return ""  # no process of this machine is that old
        if self._is_contained and not self._is_own(mount, began):
            return (
                f"its files at {mount.point} are shared with another pid namespace (a container), "
                "where an agent may run it out of our sight"
            )
        if self._hides_others:
            return "/proc hides other users' processes (hidepid), and one of them may run it"
        return ""

    def is_on_network(self, path: str) -> bool:
        """Return whether another machine may use this file too."""
        if self.is_alone:
            return False
        return not self._mounts or _may_be_network(self._find_mount(path).kind)

    def _is_own(self, mount: Mount, began: float | None) -> bool:
        """Return whether only processes of our own pid namespace use this mount. For a plain directory
        the kernel does not say. We assume so only if the session began more than a second after our
        namespace did (ADR 15)."""
        if mount.kind in LAYERED and not self._is_bare_sandbox():
            return True
        is_plain = mount.point == "/" or (mount.kind in IN_MEMORY and mount.root == "/")
        start = self._namespace_start
        return is_plain and began is not None and start is not None and began > start + 1

    def _is_bare_sandbox(self) -> bool:
        """Return whether our user namespace has a single user, as `unshare` and bwrap make it. Such a
        sandbox has no layers of its own: those that we see may belong to a container around it."""
        if self._is_bare is None:
            self._is_bare = _maps_one_id()
        return self._is_bare

    def _find_mount(self, path: str) -> Mount:
        """Return the mount of a file. One lookup per directory: few directories have most sessions."""
        if os.path.islink(path):
            return self._find_mount_at(os.path.realpath(path))
        directory, name = os.path.split(path)
        if directory not in self._directories:
            real = os.path.realpath(directory)
            self._directories[directory] = (real, self._find_mount_at(real))
        real, mount = self._directories[directory]
        inner = os.path.join(real, name)
        return self._find_mount_at(inner) if inner in self._points else mount

    def _find_mount_at(self, real: str) -> Mount:
        return find_mount(real, self._mounts) or Mount(b"", b"", "/", "/")


def _may_be_network(kind: str) -> bool:
    return kind in NETWORK or (kind.partition(".")[0] == "fuse" and kind not in LOCAL_FUSE)


def _maps_one_id() -> bool:
    try:
        lines = proc.read_uid_map().split(b"\n")
    except Gone:  # a kernel without user namespaces
        return False
    except SourceError:  # not readable: assume the worse
        return True
    return sum(int(line.split()[2]) for line in lines if line) == 1


def read_visibility(
    table: Mapping[int, Process], boot_time: float, environ: Mapping[str, str]
) -> Visibility:
    try:
        mounts = read_own_mounts()
    except SourceError:
        mounts = []
    return Visibility(table, boot_time, environ, namespace=proc.pid_namespace(), mounts=mounts)
