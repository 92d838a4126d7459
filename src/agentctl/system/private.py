"""Our own files are for nobody else's eyes: they hold the beginnings of people's prompts. And nobody
else may write them: they hold commands that we run (hooks, fuses, settings). Root that ran those of
another user would run them with root's rights."""

from __future__ import annotations

import errno
import os
import stat

from agentctl.errors import Gone, Malformed, Untrusted
from agentctl.system import files

OWN_DIRECTORY = "set AGENTCTL_HOME to a directory of your own (with sudo: sudo -H)"
WORLD, GROUP = 0o002, 0o020


def make_private(path: str) -> None:
    """The file, 0600, and its directory, 0700, where they do not exist yet. Raises OSError; and
    SourceError where the file is a directory or a FIFO, or another user may write to either.

    Only that one directory: a home that does not exist (`/nonexistent`) is not ours to make. The file is
    never opened: it may be our database, in which another thread has locks already, and these end when
    any descriptor of it is closed.
    """
    try:
        os.mkdir(os.path.dirname(path), mode=0o700)
    except FileExistsError:
        check_directory(os.path.dirname(path))
    try:
        os.mknod(path, stat.S_IFREG | 0o600)
    except FileExistsError:
        present(path)
        if not os.access(path, os.R_OK | os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path) from None


def present(path: str) -> bool:
    """Whether this file of ours is there, and only we can have written it. Raises SourceError."""
    try:
        above = check_directory(os.path.dirname(path))
        found = files.status(path)
    except Gone:
        return False
    if not stat.S_ISREG(found.st_mode):
        raise Malformed(path, "not a regular file", f"move it away: {path}")
    # Where the group cannot enter the directory, it does not matter what it could do in there: with the
    # umask of many systems, an editor leaves a file that the group may write.
    _check(path, found, WORLD | (GROUP if above.st_mode & stat.S_IXGRP else 0))
    return True


def check_directory(path: str) -> os.stat_result:
    """Raises Untrusted where another user owns it or may write to it."""
    found = files.status(path)
    _check(path, found, WORLD | GROUP)
    return found


def check_home(state: str) -> None:
    """All that we believe and run: for whoever writes or runs, and for `doctor`. Raises SourceError."""
    for name in ("state.db", "config.toml"):
        present(f"{state}/{name}")
    try:
        check_directory(f"{state}/launches")
    except Gone:
        pass


def _check(path: str, found: os.stat_result, writers: int) -> None:
    # what is root's is no danger to anybody else: root needs no file of ours to do harm
    if found.st_uid not in (os.geteuid(), 0):
        raise Untrusted(path, f"it belongs to {_name(found.st_uid)}, not to you", OWN_DIRECTORY)
    if found.st_mode & writers:
        who = "anybody" if found.st_mode & WORLD else "its group"
        raise Untrusted(path, f"{who} may write to it", f"if you trust what it holds: chmod go-w {path}")


def _name(uid: int) -> str:
    import pwd

    try:
        return f"{pwd.getpwuid(uid).pw_name} (uid {uid})"
    except KeyError:
        return f"uid {uid}"
