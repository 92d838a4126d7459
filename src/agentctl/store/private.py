"""Our own files are for nobody else's eyes: they hold the beginnings of people's prompts."""

from __future__ import annotations

import os


def make_private(path: str) -> None:
    """The file, 0600, and its directory, 0700, where they do not exist yet. Raises OSError.

    Only that one directory: a home that does not exist (`/nonexistent`) is not ours to make.
    """
    try:
        os.mkdir(os.path.dirname(path), mode=0o700)
    except FileExistsError:
        pass
    os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK, 0o600))
