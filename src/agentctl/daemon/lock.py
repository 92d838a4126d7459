"""One daemon for one home: a lock of the kernel on a file, which ends with its process however that
ends. Nobody is looked for by name, and nobody is killed."""

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
from agentctl.system.files import translated
from agentctl.system.private import check_home, make_private


class Singleton:
    """The lock of a home, held until the process ends. Raises Refused, with who holds it; Untrusted for
    a home that others may write to."""

    def __init__(self, home: str) -> None:
        self.home = home
        self.path = lock_file.lock_file(home)
        check_home(home)
        self._fd = self._locked()
        boot = proc.boot_id()
        self.holder = Holder(
            proc.read_process(os.getpid(), boot).identity,
            proc.namespace(),
            __version__,
            f"{home}/{SOCKET}",
            time.time(),
        )
        self.problem = self._sign(self.holder.written())  # None: the file says who we are

    def _sign(self, name: bytes) -> str | None:
        """Over the last one's name, which takes no room on a full disk. The lock holds without it."""
        try:
            os.pwrite(self._fd, name, 0)
            os.ftruncate(self._fd, len(name))
        except OSError as error:
            return f"{self.path}: {error.strerror}"
        return None

    def still_ours(self) -> bool:
        """Whether the file that we hold is the one that the next daemon would lock: a home that is
        deleted, moved or restored from a backup is not ours any more."""
        try:
            return os.path.samestat(os.fstat(self._fd), os.lstat(self.path))
        except OSError:
            return False

    def release(self) -> None:
        """The file stays: one that is unlinked could be locked by two, each another of that name."""
        os.ftruncate(self._fd, 0)
        os.close(self._fd)

    def _locked(self) -> int:
        while True:
            fd = self._opened()
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if os.path.samestat(os.fstat(fd), os.lstat(self.path)):
                    return fd
            except FileNotFoundError:  # deleted since it was opened, with its directory
                pass
            except BlockingIOError as error:
                os.close(fd)
                raise self._held() from error
            except OSError as error:  # a file system without locks
                os.close(fd)
                raise translated(error, self.path) from error
            os.close(fd)

    def _opened(self) -> int:
        try:
            make_private(self.path)
            flags = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
            fd = os.open(self.path, flags)
        except OSError as error:
            raise translated(error, self.path) from error
        status = os.fstat(fd)
        if not modes.S_ISREG(status.st_mode) or status.st_uid != os.geteuid():
            os.close(fd)
            raise Refused(f"{self.path} is not a file of ours", "remove it, or set AGENTCTL_HOME")
        return fd

    def _held(self) -> AgentctlError:
        """By whom. What the file says of another process than that is worth nothing."""
        named = lock_file.likely(self.home)
        if named is not None:
            return Refused(
                f"a daemon runs already for {self.home}: {named.named}", "agentctl daemon status"
            )
        return Refused(
            f"the lock of {self.home} is held by a process that has not said who it is",
            f"fuser {self.path}",
        )
