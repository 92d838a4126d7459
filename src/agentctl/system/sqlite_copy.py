"""A database in another mount namespace, read from a copy in memory.

SQLite resolves a path as text: `/proc/PID/root/home/x.db` becomes `/home/x.db`, which is our file of
that name, not the container's. Nor can it be handed a descriptor. So the file is read here, through the
path that the kernel resolves, and SQLite gets the bytes. Nothing is written anywhere.

No lock is taken, and the agent may write meanwhile. The copy is exact all the same. The database file is
read first, then its write-ahead log up to the last commit that the log's index names. As long as the log
is not begun anew (the salts in the index tell), it only grows: whatever a checkpoint moves into the
database file while we read that is still in the log, which overrides it. If the log was begun anew, or
anything else does not fit, the copy is thrown away and made again.
"""

from __future__ import annotations

import os
import struct
from typing import TYPE_CHECKING, NamedTuple

from agentctl.errors import Gone, Malformed, Passing, Unsupported
from agentctl.system import files

if TYPE_CHECKING:
    import sqlite3

MOST = 256 << 20  # bytes of database and log together
ATTEMPTS = 5
WHERE = "in another mount namespace"
# What SQLite's file format documents: sizes in bytes, and where things are.
LOG_HEADER, FRAME_HEADER, INDEX_HEADER, DATABASE_HEADER = 32, 24, 48, 100
JOURNAL_MODE = slice(18, 20)  # of the database's header: 2 2 means a write-ahead log


class Index(NamedTuple):
    """The header of the log's index, in shared memory."""

    page: int  # bytes
    frames: int  # of the log that are committed
    pages: int  # of the database after the last commit
    checksum: tuple[int, int]  # of the last frame
    salts: bytes  # others each time that the log is begun anew


class _Torn(Exception):
    """Somebody wrote while we read."""


def connect(path: str) -> sqlite3.Connection:
    """The database as it is now, to be read only. Raises SourceError."""
    import sqlite3

    connection = sqlite3.connect(":memory:", check_same_thread=False)
    try:
        image = snapshot(path)
        if not hasattr(connection, "deserialize"):
            raise Unsupported(path, f"{WHERE}, and this Python cannot read a copy of a database")
        if image:  # else nothing is in it yet
            connection.deserialize(image)
        connection.execute("pragma query_only = 1")
    except sqlite3.Error as error:
        connection.close()
        raise Malformed(path, str(error)) from error
    except BaseException:
        connection.close()
        raise
    return connection


def snapshot(path: str) -> bytearray:
    """All that is committed, as one database without a log. Raises SourceError."""
    for _ in range(ATTEMPTS):
        try:
            return _copied(path)
        except _Torn:
            continue
    raise Passing(path, f"{WHERE}, and written all the time while it was copied")


def _copied(path: str) -> bytearray:
    log = f"{path}-wal"
    size, logged = files.status(path).st_size, _size(log)
    if size + logged > MOST:
        raise Unsupported(path, f"{WHERE}, too large to copy ({(size + logged) >> 20} MB)")
    if not logged:
        return _without_log(path)
    before = _index(path)
    image = bytearray(files.head(path, size).data)
    index = _index(path)
    frames = files.head(log, LOG_HEADER + index.frames * (FRAME_HEADER + index.page)).data
    if not before.salts == index.salts == _index(path).salts:
        raise _Torn
    if index.frames:
        _apply(frames, index, image)
    image[JOURNAL_MODE] = b"\1\1"[: len(image[JOURNAL_MODE])]
    return image


def _without_log(path: str) -> bytearray:
    """A database whose log is absent or empty: then it changes only under a journal, or when a log has
    been written and moved into it."""
    before = _marks(path)
    image = bytearray(files.head(path, before[0].st_size).data)
    after = _marks(path)
    same = os.path.samestat(before[0], after[0]) and before[0].st_mtime_ns == after[0].st_mtime_ns
    if not same or before[1] != after[1] or _size(f"{path}-wal") or len(image) != before[0].st_size:
        raise _Torn
    if len(image) >= DATABASE_HEADER:
        image[JOURNAL_MODE] = b"\1\1"
    return image


def _marks(path: str) -> tuple[os.stat_result, bytes]:
    """Its stat, and its header, which counts what is committed under a journal."""
    if _size(f"{path}-journal"):
        raise _Torn  # somebody is at it
    return files.status(path), files.head(path, DATABASE_HEADER).data


def _index(path: str) -> Index:
    """It is written twice, one after the other: equal ones are whole."""
    try:
        raw = files.head(f"{path}-shm", 2 * INDEX_HEADER).data
    except Gone:
        raw = b""
    if not raw:
        raise Unsupported(path, f"{WHERE}, and its write-ahead log has no index")
    first, second = raw[:INDEX_HEADER], raw[INDEX_HEADER:]
    if first != second or len(second) < INDEX_HEADER:
        raise _Torn
    ready, page, frames, pages, one, two = struct.unpack("=12xBxHIIII16x", first)
    if not ready:
        raise _Torn
    return Index((page & 0xFE00) | (page & 1) << 16, frames, pages, (one, two), first[32:40])


def _apply(log: bytes, index: Index, image: bytearray) -> None:
    """Puts the pages of the log where they belong."""
    step = FRAME_HEADER + index.page
    last = log[LOG_HEADER + (index.frames - 1) * step :][:FRAME_HEADER]
    whole = len(log) == LOG_HEADER + index.frames * step and log[16:24] == index.salts
    if not whole or struct.unpack(">16xII", last) != index.checksum:
        raise _Torn
    end = index.pages * index.page
    del image[end:]
    image.extend(bytes(end - len(image)))
    view = memoryview(log)
    for start in range(LOG_HEADER, len(log), step):
        number = int.from_bytes(view[start : start + 4], "big")
        if view[start + 8 : start + 16] != index.salts or not number:
            raise _Torn
        if number <= index.pages:  # else it was cut off again by a later commit
            at = (number - 1) * index.page
            image[at : at + index.page] = view[start + FRAME_HEADER : start + step]


def _size(path: str) -> int:
    try:
        return files.status(path).st_size
    except Gone:
        return 0
