"""Handles on processes: open and verify, signal, wait, read the exit code.

Invariant: a signal goes through a descriptor that was opened and then checked against the identity.
Between the check and the signal the pid may be reused, but not the descriptor.
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
from agentctl.system.proc import ProcessIdentity

# struct pidfd_info, 64 bytes: mask u64, cgroupid u64, pid tgid ppid ruid rgid euid egid suid sgid
# fsuid fsgid u32 each, exit_code s32 at offset 60.
_INFO = struct.Struct("=QQ11Ii")
_INFO_EXIT = 1 << 3  # set only if exit_code is valid
# _IOWR(0xFF, 11, struct pidfd_info): direction 3, size 64, type 0xFF, number 11
_GET_INFO = (3 << 30) | (_INFO.size << 16) | (0xFF << 8) | 11

LONGEST = 0x7FFFFFFF  # milliseconds: 24 days, the most that poll takes


class Handle:
    """A pidfd, verified to be the process with this identity. Use as a context manager."""

    __slots__ = ("_fd", "identity")

    def __init__(self, identity: ProcessIdentity) -> None:
        """Raise Gone, Forbidden, Exhausted or Unsupported."""
        self.identity = identity
        if identity.boot != proc.read_boot_id():
            raise Gone(identity.address, "the machine has booted since")
        try:
            self._fd = os.pidfd_open(identity.pid)
        except AttributeError as error:  # a Python built without it, or no Linux
            raise Unsupported("pidfd_open", "not available here") from error
        except OSError as error:
            raise _translate_error(error, identity.address) from error
        try:
            is_same = proc.find_process(identity) is not None
        except BaseException:
            self.close()
            raise
        if not is_same:
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
        """Send a signal. Raises Gone if the process has ended, Forbidden if it is not ours."""
        try:
            signals.pidfd_send_signal(self._fd, number)
        except OSError as error:
            raise _translate_error(error, self.identity.address) from error

    def wait(self, timeout: float | None) -> bool:
        """Wait for the end of the process and return whether it has ended. None waits for ever."""
        poller = select.poll()
        poller.register(self._fd, select.POLLIN)
        return bool(poller.poll(None if timeout is None else min(timeout * 1000, LONGEST)))

    def exit_code(self) -> int | None:
        """Return the exit code, or minus the signal that ended the process. None: alive, or not known.

        Two sources: a zombie's status in /proc, then the kernel's exit info for a process that was
        reaped while this handle was open. For a process that is not reaped yet, the exit info is 0 with
        the mask bit clear: without the bit we would report a success that did not happen.
        """
        process = proc.find_process(self.identity)
        if process is not None:
            return None if process.is_alive else read_zombie_exit_code(process)
        import fcntl  # not on the hot path

        buffer = bytearray(_INFO.pack(_INFO_EXIT, *[0] * 13))
        try:
            fcntl.ioctl(self._fd, _GET_INFO, buffer)
        except OSError:  # a kernel before 6.13 has no such ioctl
            return None
        mask, *_, status = _INFO.unpack(buffer)
        return decode_wait_status(status) if mask & _INFO_EXIT else None


def is_taken(pid: int) -> bool:
    """Return whether a process has this pid, also one that /proc hides from us."""
    try:
        os.close(os.pidfd_open(pid))
    except OverflowError:  # not a possible pid
        return False
    except OSError as error:
        # EINVAL and ENOENT: the number is the id of a thread, not of a process
        return error.errno not in (errno.ESRCH, errno.EINVAL, errno.ENOENT)
    except AttributeError:  # a Python built without it: not known, so assume yes
        return True
    return True


def has_ended(identity: ProcessIdentity, within: float) -> bool:
    """Return whether the process has ended, or ends within so many seconds."""
    try:
        with Handle(identity) as handle:
            return handle.wait(within)
    except Gone:
        return True
    except SourceError:
        return False


def read_zombie_exit_code(process: proc.Process) -> int | None:
    """Return how a zombie ended; None for another user's zombie, or if its user is no longer known: the
    kernel shows 0 to a process that may not read the status."""
    try:
        may_read = os.geteuid() in (0, process.uid)
    except Gone:  # its parent has reaped it since the look
        return None
    return decode_wait_status(process.exit_status) if may_read else None


def decode_wait_status(status: int) -> int:
    """Return a wait status as exit code, or minus the signal."""
    return os.waitstatus_to_exitcode(status & 0xFFFF)


def is_supported() -> bool:
    """Return True if this Python and kernel have handles on processes."""
    return hasattr(os, "pidfd_open")


def has_exit_info() -> bool:
    """Return whether this kernel keeps the exit code of a reaped process; tried with a child of ours."""
    child = os.fork()
    if child == 0:
        os._exit(7)
    with Handle(proc.read_process(child, proc.read_boot_id()).identity) as handle:
        os.waitpid(child, 0)
        return handle.exit_code() == 7


def _translate_error(error: OSError, source: str) -> SourceError:
    if isinstance(error, ProcessLookupError):
        return Gone(source, "no such process")
    if isinstance(error, PermissionError):
        return Forbidden(source, "not ours to touch")
    if error.errno in (errno.EMFILE, errno.ENFILE):
        return Exhausted(source, NO_DESCRIPTOR)
    return Unsupported(source, error.strerror or str(error))
