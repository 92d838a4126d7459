"""Remembers what a transcript or a database said, by its path and a stamp that changes when it does.
Can be deleted any time.

It holds what was read from a file, never a status: a session's status also depends on processes, which
no file knows. Where the state directory cannot be written, it remembers nothing and all is read anew.

One file, read at once and replaced at once: for thousands of sessions that takes half the time of a
database, and a reader sees the old one or the new one. Of two writers the last one wins; what the
other had learned is read again.
"""

from __future__ import annotations

import marshal
import os
import time
from typing import Any
from zlib import crc32

from agentctl.errors import SourceError
from agentctl.system import clock
from agentctl.system.private import make_private, present

# Raised whenever Facts, the meaning of one of its fields, or what an adapter remembers changes: what
# an older version remembered is forgotten.
FORMAT = 3
WRITING = 3600.0  # seconds: nobody writes one for that long

Entry = tuple[tuple[object, ...], Any]  # the stamp of a file, and what it said, as plain values


class Cache:
    """Use as a context manager: what is new is written when it closes."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._known = load(path)
        self._new: dict[str, Entry] = {}

    def __enter__(self) -> Cache:
        return self

    def __exit__(self, *_: object) -> None:
        if self._new:
            save(self._path, {**self._known, **self._new})

    def recall(self, path: str, stamp: tuple[object, ...]) -> Any:
        """None where nothing is known."""
        entry = self._known.get(path)
        if entry is None:
            return None
        try:
            then, said = entry
        except (TypeError, ValueError):  # not an entry that we made
            return None
        return said if then == stamp else None

    def remember(self, path: str, stamp: tuple[object, ...], changed: float, said: Any) -> None:
        if not clock.settled(changed):
            return
        try:
            marshal.dumps(said)
        except ValueError:  # an adapter's fact that is no plain value: not ours to keep
            return
        self._new[path] = (stamp, said)


def load(path: str) -> dict[str, Entry]:
    """Nothing where there is none yet, or something else than `save` wrote."""
    try:
        if not present(path):
            return {}
        with open(path, "rb") as file:
            seal, body = file.readline(64), file.read()
        known = marshal.loads(body) if seal == _seal(body) else {}  # noqa: S302 - our own, and sealed
    except (OSError, SourceError, ValueError, TypeError, EOFError):
        return {}
    return known if isinstance(known, dict) else {}


def save(path: str, entries: dict[str, Entry]) -> None:
    """Best effort: a read-only home or a full disk costs speed, not truth."""
    body = marshal.dumps(entries)
    fresh = f"{path}.{os.getpid()}"
    try:
        make_private(fresh)
        with open(fresh, "wb") as file:
            file.write(_seal(body) + body)
        os.replace(fresh, path)
    except (OSError, SourceError):
        try:
            os.unlink(fresh)
        except OSError:  # it was never made
            pass


def forget_absent(path: str, *, dry_run: bool = False) -> int:
    """Drops what files said that do not exist any more, and tells how many. A file that cannot be asked
    about may come back, with its volume."""
    known = load(path)
    gone = [name for name in known if _is_absent(name)]
    if gone and not dry_run:
        save(path, {name: known[name] for name in known.keys() - set(gone)})
    return len(gone)


def unfinished(path: str) -> list[str]:
    """What writers have left that were killed before their file was whole."""
    directory, name = os.path.split(path)
    try:
        with os.scandir(directory) as entries:
            mine = [
                e for e in entries if e.name.startswith(f"{name}.") and e.name[len(name) + 1 :].isdigit()
            ]
            return [
                e.path for e in mine if e.stat(follow_symlinks=False).st_mtime < time.time() - WRITING
            ]
    except OSError:  # no directory, or one that has just been tidied by another
        return []


def _is_absent(path: str) -> bool:
    try:
        os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return True
    except (OSError, ValueError, TypeError):
        return False
    return False


def _seal(body: bytes) -> bytes:
    """A first line that only this format, by this Python's rules, with not a bit changed, can have."""
    return b"agentctl %d %d %08x\n" % (FORMAT, marshal.version, crc32(body))
