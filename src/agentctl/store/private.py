"""Our own files are for nobody else's eyes: they hold the beginnings of people's prompts."""

from __future__ import annotations

import errno
import os
import stat


def make_private(path: str) -> None:
    """The file, 0600, and its directory, 0700, where they do not exist yet. Raises OSError.

    Only that one directory: a home that does not exist (`/nonexistent`) is not ours to make. The file is
    never opened: it may be our database, in which another thread has locks already, and these end when
    any descriptor of it is closed.
    """
    try:
        os.mkdir(os.path.dirname(path), mode=0o700)
    except FileExistsError:
        pass
    try:
        os.mknod(path, stat.S_IFREG | 0o600)
    except FileExistsError:
        if os.path.isdir(path):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path) from None
        if not os.access(path, os.R_OK | os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path) from None
