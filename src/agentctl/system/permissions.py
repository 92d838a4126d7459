"""Our own files are private. No other user may read them: they hold the beginnings of prompts. And no
other user may write them: they hold commands that we run (hooks, fuses, settings). If root used the
files of another user, it would run that user's commands as root."""

from __future__ import annotations

import errno
import os
import stat

from agentctl.errors import Gone, Malformed, Untrusted
from agentctl.system import files

OWN_DIRECTORY = "set AGENTCTL_HOME to a directory of your own (with sudo: sudo -H)"
WORLD, GROUP = 0o002, 0o020


def make_private(path: str) -> None:
    """Make the file with mode 0600 and its directory with mode 0700, if they do not exist yet. Raises
    OSError; and SourceError if the file is a directory or a FIFO, or another user may write to either.

    Only this one directory: a home that does not exist (`/nonexistent`) is not ours to make. The file is
    never opened: it may be our database, and closing any of its descriptors would drop the locks that
    another thread has on it.
    """
    try:
        os.mkdir(os.path.dirname(path), mode=0o700)
    except FileExistsError:
        check_directory(os.path.dirname(path))
    try:
        os.mknod(path, stat.S_IFREG | 0o600)
    except FileExistsError:
        is_trusted_file(path)
        if not os.access(path, os.R_OK | os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path) from None


def write_private(path: str, data: bytes) -> None:
    """Replace our file in one step, 0600: a reader sees the old file or the new one. Raises OSError and
    SourceError; then the old file is unchanged, and no other is left."""
    fresh = f"{path}.{os.getpid()}"
    try:
        make_private(fresh)
        with open(fresh, "wb") as file:
            file.write(data)
        os.replace(fresh, path)
    except BaseException:
        try:
            os.unlink(fresh)
        except OSError:  # it was never created
            pass
        raise


def is_trusted_file(path: str) -> bool:
    """Return whether the file exists. Raises Untrusted if another user may have written it, else
    SourceError."""
    try:
        above = check_directory(os.path.dirname(path))
        status = files.read_status(path)
    except Gone:
        return False
    if not stat.S_ISREG(status.st_mode):
        raise Malformed(path, "not a regular file", f"move it away: {path}")
    # If the group cannot enter the directory, the mode of the file does not matter for the group: with
    # the umask of many systems, an editor leaves a file that the group may write.
    _check(path, status, WORLD | (GROUP if above.st_mode & stat.S_IXGRP else 0))
    return True


def check_directory(path: str) -> os.stat_result:
    """Return the stat of a directory. Raises Untrusted if another user owns it or may write to it."""
    status = files.read_status(path)
    _check(path, status, WORLD | GROUP)
    return status


def check_home(state: str) -> None:
    """Check the files that hold what we believe and run. Raises SourceError."""
    for name in ("state.db", "config.toml"):
        is_trusted_file(f"{state}/{name}")
    try:
        check_directory(f"{state}/launches")
    except Gone:
        pass


def _check(path: str, status: os.stat_result, writers: int) -> None:
    # A file of root is no danger: root needs no file of ours to do harm.
    if status.st_uid not in (os.geteuid(), 0):
        raise Untrusted(path, f"it belongs to {_name(status.st_uid)}, not to you", OWN_DIRECTORY)
    if status.st_mode & writers:
        who = "every user" if status.st_mode & WORLD else "its group"
        raise Untrusted(path, f"{who} may write to it", f"if you trust what it holds: chmod go-w {path}")


def _name(uid: int) -> str:
    import pwd

    try:
        return f"{pwd.getpwuid(uid).pw_name} (uid {uid})"
    except KeyError:
        return f"uid {uid}"
