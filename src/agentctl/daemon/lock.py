"""One daemon for each home: a kernel lock on a file, which ends with its process. No process is looked
for by name, and none is killed."""

from __future__ import annotations

import fcntl
import os
import stat as modes
import time

from agentctl import __version__
from agentctl.daemon_client import lock_file
from agentctl.daemon_client.client import SOCKET
from agentctl.daemon_client.lock_file import Holder
from agentctl.errors import AgentctlError, Refused
from agentctl.system import proc
from agentctl.system.files import translate_error
from agentctl.system.permissions import check_home, make_private


class Singleton:
    """The lock of a home, held until the process ends. Raises Refused, which names the process that
    holds it, and Untrusted for a home that other users may write to."""

    def __init__(self, home: str) -> None:
        self.home = home
        self.path = lock_file.lock_file(home)
        check_home(home)
        self._fd = self._lock_file()
        self.holder = Holder(
            identity=proc.read_process(os.getpid(), proc.read_boot_id()).identity,
            namespace=proc.pid_namespace(),
            version=__version__,
            socket=f"{home}/{SOCKET}",
            since=time.time(),
        )
        self.problem = self._write(self.holder.to_bytes())  # None: the file names this process

    def _write(self, holder: bytes) -> str | None:
        """Overwrite the last holder, which takes no room on a full disk. Return why that failed: the
        lock holds all the same."""
        try:
            os.pwrite(self._fd, holder, 0)
            os.ftruncate(self._fd, len(holder))
        except OSError as error:
            return f"{self.path}: {error.strerror}"
        return None

    def is_ours(self) -> bool:
        """Return False if the next daemon would lock another file: the home was deleted, moved or
        restored from a backup."""
        try:
            return os.path.samestat(os.fstat(self._fd), os.lstat(self.path))
        except OSError:
            return False

    def release(self) -> None:
        """Empty and unlock the file. It stays: two daemons could each lock a file of that name if it
        were unlinked."""
        os.ftruncate(self._fd, 0)
        os.close(self._fd)

    def _lock_file(self) -> int:
        while True:
            fd = self._open()
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if os.path.samestat(os.fstat(fd), os.lstat(self.path)):
                    return fd
            except FileNotFoundError:  # deleted since it was opened, with its directory
                pass
            except BlockingIOError as error:
                os.close(fd)
                raise self._describe_holder() from error
            except OSError as error:  # a file system without locks
                os.close(fd)
                raise translate_error(error, self.path) from error
            os.close(fd)

    def _open(self) -> int:
        try:
            make_private(self.path)
            flags = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
            fd = os.open(self.path, flags)
        except OSError as error:
            raise translate_error(error, self.path) from error
        status = os.fstat(fd)
        if not modes.S_ISREG(status.st_mode) or status.st_uid != os.geteuid():
            os.close(fd)
            raise Refused(f"{self.path} is not a file of ours", "remove it, or set AGENTCTL_HOME")
        return fd

    def _describe_holder(self) -> AgentctlError:
        """Name the holder only if the kernel agrees: the text of the file alone proves nothing."""
        holder = lock_file.find_likely(self.home)
        if holder is not None:
            return Refused(
                f"a daemon runs already for {self.home}: {holder.label}", "agentctl daemon status"
            )
        return Refused(
            f"the lock of {self.home} is held by a process that has not written its name there",
            f"fuser {self.path}",
        )
