"""What cannot be seen from here, as a fact of the look.

"No process could be running this session" is a proof only where every process that could run it shows
in our process table. It does not where the files are shared with another machine or with another pid
namespace, or where the kernel hides other users' processes. Each limit has its reason, for `why`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from agentctl.errors import Gone, SourceError
from agentctl.system import proc
from agentctl.system.mountinfo import Mount, mount_of, read_own
from agentctl.system.proc import Process
from agentctl.system.proc_entry import read_system_file

ALONE = "AGENTCTL_ALONE"  # a person's word that nobody out of sight uses these files
UID_MAP = "/proc/self/uid_map"
MOUNTS_HIDDEN = "our mounts cannot be read, so its files may be shared with another machine or container"
# File systems that another machine may have mounted too.
NETWORK = frozenset({
    "nfs", "nfs4", "cifs", "smb3", "smbfs", "ceph", "glusterfs", "fuse.glusterfs", "lustre", "afs", "9p",
    "virtiofs", "beegfs", "gpfs", "ocfs2", "gfs2", "orangefs", "fuse.sshfs", "fuse.s3fs", "fuse.rclone",
    "fuse.juicefs", "davfs", "fuse.gcsfuse", "vboxsf", "fuse.vmhgfs-fuse", "prl_fs", "drvfs",
})  # fmt: skip
# What a container is made of: these live and die with it, and nobody outside works in them.
LAYERED = frozenset({"overlay", "aufs", "fuse.fuse-overlayfs", "fuse-overlayfs"})
# Behind any other FUSE there may be a network. (`fuseblk` has a disk behind it.)
LOCAL_FUSE = LAYERED | {
    "fuse.ntfs-3g", "fuse.mergerfs", "fuse.bindfs", "fuse.gocryptfs", "fuse.encfs",
}  # fmt: skip
IN_MEMORY = frozenset({"tmpfs", "ramfs"})


class Sight:
    """The limits of one look. `table` is what the kernel shows of the processes, and `mounts` are ours.
    No mounts: they cannot be read, since there is always one."""

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
        self._folders: dict[str, tuple[str, Mount]] = {}  # each without links, and what it is on
        self._bare: bool | None = None  # None: not asked yet
        self._inside = namespace != proc.INITIAL_PID_NAMESPACE
        first = table.get(1)
        self._others_hidden = first is None
        self._began = first.began(boot_time) if first is not None else None
        self.alone = environ.get(ALONE) == "1"
        shared = not mounts or any(_may_be_network(mount.kind) for mount in mounts)
        self.clear = self.alone or not (self._inside or self._others_hidden or shared)

    def obstacle(self, path: str, began: float | None, written: float | None) -> str:
        """Why a process that we do not see may be at work in this file; empty: none can be. `began` is
        when the session did, `written` when its last record was."""
        if self.clear:
            return ""
        if not self._mounts:
            return MOUNTS_HIDDEN
        mount = self._mount_of(path)
        if _may_be_network(mount.kind):
            what = "a" if mount.kind in NETWORK else "what may be a"
            return (
                f"its files are on {what} network file system ({mount.kind} at {mount.point}), "
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
        if self.alone:
            return False
        return not self._mounts or _may_be_network(self._mount_of(path).kind)

    def _is_own(self, mount: Mount, began: float | None) -> bool:
        """Whether only processes of our own pid namespace use this mount. For a plain directory the
        kernel does not say. We assume so only if the session began more than a second after our
        namespace did (ADR 15)."""
        if mount.kind in LAYERED and not self._is_in_a_bare_sandbox():
            return True
        plain = mount.point == "/" or (mount.kind in IN_MEMORY and mount.root == "/")
        since = began is not None and self._began is not None and began > self._began + 1
        return plain and since

    def _is_in_a_bare_sandbox(self) -> bool:
        """Whether our user namespace has a single user, as `unshare` and bwrap make it for anybody. That
        is no container with layers of its own: these may be the ones of a container around it."""
        if self._bare is None:
            self._bare = _maps_one_id()
        return self._bare

    def _mount_of(self, path: str) -> Mount:
        """Looked up once for each directory: thousands of sessions are in a few."""
        if os.path.islink(path):
            return self._mount_at(os.path.realpath(path))
        folder, name = os.path.split(path)
        if folder not in self._folders:
            real = os.path.realpath(folder)
            self._folders[folder] = (real, self._mount_at(real))
        real, mount = self._folders[folder]
        inner = os.path.join(real, name)
        return self._mount_at(inner) if inner in self._points else mount

    def _mount_at(self, real: str) -> Mount:
        return mount_of(real, self._mounts) or Mount(b"", b"", "/", "/")


def _may_be_network(kind: str) -> bool:
    return kind in NETWORK or (kind.partition(".")[0] == "fuse" and kind not in LOCAL_FUSE)


def _maps_one_id() -> bool:
    try:
        lines = read_system_file(UID_MAP).split(b"\n")
    except Gone:  # a kernel without user namespaces
        return False
    except SourceError:  # for all we know, it does
        return True
    return sum(int(line.split()[2]) for line in lines if line) == 1


def take(table: Mapping[int, Process], boot_time: float, environ: Mapping[str, str]) -> Sight:
    try:
        mounts = read_own()
    except SourceError:
        mounts = []
    return Sight(table, boot_time, environ, namespace=proc.namespace(), mounts=mounts)
