"""The cache: what we read from transcripts and databases, by path and by a stamp that changes when the
file does. It can be deleted at any time.

It holds facts from files, never a status: a status also depends on processes. If the state directory is
not writable, nothing is cached and every file is read again.

It is one file, read whole and replaced whole: for thousands of sessions this takes half the time of a
database, and a reader sees the old file or the new one. Of two writers the last one wins; the next look
reads again what the other one had cached.
"""

from __future__ import annotations

import marshal
import os
import time
from zlib import crc32

from agentctl.errors import SourceError
from agentctl.light_typing import Any
from agentctl.system import clock
from agentctl.system.permissions import is_trusted_file, write_private

# Add one if Facts, the meaning of one of its fields, or what an adapter caches changes. A cache with
# another number is not used.
FORMAT = 3
WRITING = 3600.0  # seconds: no write takes that long

Entry = tuple[tuple[object, ...], Any]  # the stamp of a file, and its facts as plain values


class Cache:
    """Use it as a context manager: leaving it writes the new entries."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._entries = load_entries(path)
        self._new: dict[str, Entry] = {}

    def __enter__(self) -> Cache:
        return self

    def __exit__(self, *_: object) -> None:
        if self._new:
            save_entries(self._path, {**self._entries, **self._new})

    def recall(self, path: str, stamp: tuple[object, ...]) -> Any:
        """Return the facts of this file; None if there are none with this stamp."""
        entry = self._entries.get(path)
        if entry is None:
            return None
        try:
            cached_stamp, facts = entry
        except (TypeError, ValueError):  # not an entry that we wrote
            return None
        return facts if cached_stamp == stamp else None

    def remember(self, path: str, stamp: tuple[object, ...], changed: float, facts: Any) -> None:
        """Cache the facts of this file, unless it changed so recently that its stamp may stay the
        same."""
        if not clock.is_settled(changed):
            return
        try:
            marshal.dumps(facts)
        except ValueError:  # an adapter's fact that is not a plain value
            return
        self._new[path] = (stamp, facts)


def load_entries(path: str) -> dict[str, Entry]:
    """Return the entries of the cache file; none if `save_entries` did not write it, or there is
    none."""
    try:
        if not is_trusted_file(path):
            return {}
        with open(path, "rb") as file:
            seal, body = file.readline(64), file.read()
        entries = marshal.loads(body) if seal == _seal(body) else {}  # noqa: S302 - ours, and sealed
    except (OSError, SourceError, ValueError, TypeError, EOFError):
        return {}
    return entries if isinstance(entries, dict) else {}


def save_entries(path: str, entries: dict[str, Entry]) -> None:
    """Replace the cache file. A failure (a read-only home, a full disk) is ignored: it costs time
    only."""
    body = marshal.dumps(entries)
    try:
        write_private(path, _seal(body) + body)
    except (OSError, SourceError):
        pass


def forget_absent(path: str, *, dry_run: bool = False) -> int:
    """Drop the entries of files that do not exist any more. Return how many. An entry stays if we cannot
    tell: its volume may not be mounted."""
    entries = load_entries(path)
    absent = [name for name in entries if _is_absent(name)]
    if absent and not dry_run:
        save_entries(path, {name: entries[name] for name in entries.keys() - set(absent)})
    return len(absent)


def find_unfinished(path: str) -> list[str]:
    """Return the temporary files of writers that were killed."""
    directory, name = os.path.split(path)
    try:
        with os.scandir(directory) as files:
            temporary = [
                f for f in files if f.name.startswith(f"{name}.") and f.name[len(name) + 1 :].isdigit()
            ]
            return [
                f.path
                for f in temporary
                if f.stat(follow_symlinks=False).st_mtime < time.time() - WRITING
            ]
    except OSError:  # there is no directory, or another process is removing these files
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
    """Return the first line of the file. It matches only this format, this Python's marshal version and
    an undamaged body."""
    return b"agentctl %d %d %08x\n" % (FORMAT, marshal.version, crc32(body))
