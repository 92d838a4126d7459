"""Handles on processes: open and verify, signal, wait, and learn how one ended.

Invariant: a signal goes through a descriptor that was opened and then checked against the identity.
Between the check and the signal the pid may be reused; the descriptor cannot.
"""

from __future__ import annotations

import errno
import os
import select
import signal as signals
import struct

from agentctl.errors import Exhausted, Forbidden, Gone, SourceError, Unsupported
from agentctl.system import proc
from agentctl.system.files import NO_DESCRIPTOR
from agentctl.system.identity import ProcessIdentity

# struct pidfd_info, 64 bytes: mask u64, cgroupid u64, pid tgid ppid ruid rgid euid egid suid sgid
# fsuid fsgid u32 each, exit_code s32 at offset 60.
_INFO = struct.Struct("=QQ11Ii")
_INFO_EXIT = 1 << 3  # set only when exit_code holds an answer
# _IOWR(0xFF, 11, struct pidfd_info): direction 3, size 64, type 0xFF, number 11
_GET_INFO = (3 << 30) | (_INFO.size << 16) | (0xFF << 8) | 11

LONGEST = 0x7FFFFFFF  # milliseconds: 24 days; poll takes no more


class Handle:
    """A pidfd proven to be the process that was meant. Use as a context manager."""

    __slots__ = ("_fd", "identity")

    def __init__(self, identity: ProcessIdentity) -> None:
        self.identity = identity
        if identity.boot != proc.boot_id():
            raise Gone(identity.address, "the machine has booted since")
        try:
            self._fd = os.pidfd_open(identity.pid)
        except AttributeError as error:  # a Python built without it, or no Linux
            raise Unsupported("pidfd_open", "not available here") from error
        except OSError as error:
            raise _translated(error, identity.address) from error
        try:
            there = proc.current(identity) is not None
        except BaseException:
            self.close()
            raise
        if not there:
            self.close()
            raise Gone(identity.address, "the pid now names another process")

    def __enter__(self) -> Handle:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def fileno(self) -> int:
        return self._fd

    def signal(self, number: signals.Signals) -> None:
        """Raises Gone when it has ended, Forbidden when it is not ours."""
        try:
            signals.pidfd_send_signal(self._fd, number)
        except OSError as error:
            raise _translated(error, self.identity.address) from error

    def wait(self, timeout: float | None) -> bool:
        """Whether it has ended; returns at once when it does. None waits for ever."""
        poller = select.poll()
        poller.register(self._fd, select.POLLIN)
        return bool(poller.poll(None if timeout is None else min(timeout * 1000, LONGEST)))

    def exit_code(self) -> int | None:
        """Its exit code, or minus the signal that ended it. None: alive, or nobody can tell any more.

        Two rungs: a zombie's status in /proc, then the kernel's exit info for a process that was
        reaped while this handle was open. Reading exit info of an unreaped one gives 0 with the mask
        bit clear: without looking at the bit we would report a success nobody saw.
        """
        process = proc.current(self.identity)
        if process is not None:
            return None if process.alive else zombie_exit_code(process)
        import fcntl  # not on the hot path

        buffer = bytearray(_INFO.pack(_INFO_EXIT, *[0] * 13))
        try:
            fcntl.ioctl(self._fd, _GET_INFO, buffer)
        except OSError:  # kernels before 6.13 have no such ioctl: nobody can tell
            return None
        mask, *_, status = _INFO.unpack(buffer)
        return decode(status) if mask & _INFO_EXIT else None


def is_taken(pid: int) -> bool:
    """Whether some process has this number, also one that /proc hides from us."""
    try:
        os.close(os.pidfd_open(pid))
    except OverflowError:  # no number of a process
        return False
    except OSError as error:
        # EINVAL and ENOENT: it is no process's number, but that of one of its threads
        return error.errno not in (errno.ESRCH, errno.EINVAL, errno.ENOENT)
    except AttributeError:  # a Python built without it: nobody can tell
        return True
    return True


def has_ended(identity: ProcessIdentity, within: float) -> bool:
    """Whether it ends within so many seconds, or has."""
    try:
        with Handle(identity) as handle:
            return handle.wait(within)
    except Gone:
        return True
    except SourceError:
        return False


def zombie_exit_code(process: proc.Process) -> int | None:
    """How a zombie ended. The kernel shows 0 instead of the truth to those it does not trust with
    the process, so another user's zombie is None, and so is one whose user cannot be told any more."""
    try:
        trusted = os.geteuid() in (0, process.uid)
    except Gone:  # its parent has asked for it since we looked
        return None
    return decode(process.exit_status) if trusted else None


def decode(status: int) -> int:
    """A wait status as exit code, or minus the signal."""
    return os.waitstatus_to_exitcode(status & 0xFFFF)


def exit_info_supported() -> bool:
    """Whether this kernel answers how a reaped process ended; asked of a child of our own."""
    child = os.fork()
    if child == 0:
        os._exit(7)
    with Handle(proc.read_process(child, proc.boot_id()).identity) as handle:
        os.waitpid(child, 0)
        return handle.exit_code() == 7


def _translated(error: OSError, source: str) -> SourceError:
    if isinstance(error, ProcessLookupError):
        return Gone(source, "no such process")
    if isinstance(error, PermissionError):
        return Forbidden(source, "not ours to touch")
    if error.errno in (errno.EMFILE, errno.ENFILE):
        return Exhausted(source, NO_DESCRIPTOR)
    return Unsupported(source, error.strerror or str(error))
