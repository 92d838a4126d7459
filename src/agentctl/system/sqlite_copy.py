"""A database in another mount namespace, read from a copy in memory.

SQLite resolves a path as text: `/proc/PID/root/home/x.db` becomes `/home/x.db`, which is our file of
that name, not the container's. SQLite takes no descriptor either. So the file is read here, through the
path that the kernel resolves, and SQLite gets the bytes. Nothing is written to any disk.

No lock is taken, and the agent may write meanwhile. The copy is still exact. The database file is read
first, then its write-ahead log up to the last commit that the log's index names. Until the log is
restarted (the salts in the index change), it only grows: a page that a checkpoint moves into the
database file while we read that file is still in the log, and the log overrides it. If the log was
restarted, or anything else does not match, the copy is thrown away and made again.
"""

from __future__ import annotations

import os
import struct

from agentctl.errors import Gone, Malformed, Temporary, Unsupported
from agentctl.light_typing import TYPE_CHECKING, NamedTuple
from agentctl.system import files

if TYPE_CHECKING:
    import _sqlite3 as sqlite3

MOST = 256 << 20  # bytes of database and log together
ATTEMPTS = 5
WHERE = "in another mount namespace"
# From SQLite's file format: sizes in bytes, and offsets.
LOG_HEADER, FRAME_HEADER, INDEX_HEADER, DATABASE_HEADER = 32, 24, 48, 100
JOURNAL_MODE = slice(18, 20)  # of the database's header: 2 2 means a write-ahead log


class Index(NamedTuple):
    """The header of the log's index, in shared memory."""

    page: int  # bytes
    frames: int  # of the log that are committed
    pages: int  # of the database after the last commit
    checksum: tuple[int, int]  # of the last frame
    salts: bytes  # change each time that the log is restarted


class _Torn(Exception):
    """Another process wrote while we read."""


def connect_copy(path: str) -> sqlite3.Connection:
    """Return a read-only connection to a copy of the database. Raises SourceError."""
    import _sqlite3 as sqlite3

    connection = sqlite3.connect(":memory:", check_same_thread=False)
    try:
        image = copy_database(path)
        if not hasattr(connection, "deserialize"):
            raise Unsupported(path, f"{WHERE}, and this Python cannot read a copy of a database")
        if image:  # else the database is still empty
            connection.deserialize(image)
        connection.execute("pragma query_only = 1")
    except sqlite3.Error as error:
        connection.close()
        raise Malformed(path, str(error)) from error
    except BaseException:
        connection.close()
        raise
    return connection


def copy_database(path: str) -> bytearray:
    """Return everything committed, as one database without a log. Raises SourceError."""
    for _ in range(ATTEMPTS):
        try:
            return _copy_once(path)
        except _Torn:
            continue
    raise Temporary(path, f"{WHERE}, and written all the time while it was copied")


def _copy_once(path: str) -> bytearray:
    log = f"{path}-wal"
    size, log_size = files.read_status(path).st_size, _read_size(log)
    if size + log_size > MOST:
        raise Unsupported(path, f"{WHERE}, too large to copy ({(size + log_size) >> 20} MB)")
    if not log_size:
        return _copy_without_log(path)
    before = _read_index(path)
    image = bytearray(files.read_head(path, size).data)
    index = _read_index(path)
    frames = files.read_head(log, LOG_HEADER + index.frames * (FRAME_HEADER + index.page)).data
    if not before.salts == index.salts == _read_index(path).salts:
        raise _Torn
    if index.frames:
        _apply(frames, index, image)
    image[JOURNAL_MODE] = b"\1\1"[: len(image[JOURNAL_MODE])]
    return image


def _copy_without_log(path: str) -> bytearray:
    """Copy a database whose log is absent or empty. It changes only under a journal, or if a log is
    written and moved into it."""
    before = _read_marks(path)
    image = bytearray(files.read_head(path, before[0].st_size).data)
    after = _read_marks(path)
    is_same = os.path.samestat(before[0], after[0]) and before[0].st_mtime_ns == after[0].st_mtime_ns
    if (
        not is_same
        or before[1] != after[1]
        or _read_size(f"{path}-wal")
        or len(image) != before[0].st_size
    ):
        raise _Torn
    if len(image) >= DATABASE_HEADER:
        image[JOURNAL_MODE] = b"\1\1"
    return image


def _read_marks(path: str) -> tuple[os.stat_result, bytes]:
    """Return the stat and the header, which counts the commits under a journal."""
    if _read_size(f"{path}-journal"):
        raise _Torn  # a writer is at work
    return files.read_status(path), files.read_head(path, DATABASE_HEADER).data


def _read_index(path: str) -> Index:
    """Read the index header. SQLite writes it twice: if both are equal, it is complete."""
    try:
        raw = files.read_head(f"{path}-shm", 2 * INDEX_HEADER).data
    except Gone:
        raw = b""
    if not raw:
        raise Unsupported(path, f"{WHERE}, and its write-ahead log has no index")
    first, second = raw[:INDEX_HEADER], raw[INDEX_HEADER:]
    if first != second or len(second) < INDEX_HEADER:
        raise _Torn
    is_ready, page, frames, pages, one, two = struct.unpack("=12xBxHIIII16x", first)
    if not is_ready:
        raise _Torn
    return Index((page & 0xFE00) | (page & 1) << 16, frames, pages, (one, two), first[32:40])


def _apply(log: bytes, index: Index, image: bytearray) -> None:
    """Put the pages of the log into the image."""
    step = FRAME_HEADER + index.page
    last = log[LOG_HEADER + (index.frames - 1) * step :][:FRAME_HEADER]
    is_whole = len(log) == LOG_HEADER + index.frames * step and log[16:24] == index.salts
    if not is_whole or struct.unpack(">16xII", last) != index.checksum:
        raise _Torn
    end = index.pages * index.page
    del image[end:]
    image.extend(bytes(end - len(image)))
    view = memoryview(log)
    for start in range(LOG_HEADER, len(log), step):
        number = int.from_bytes(view[start : start + 4], "big")
        if view[start + 8 : start + 16] != index.salts or not number:
            raise _Torn
        if number <= index.pages:  # else a later commit has cut the page off
            at = (number - 1) * index.page
            image[at : at + index.page] = view[start + FRAME_HEADER : start + step]


def _read_size(path: str) -> int:
    try:
        return files.read_status(path).st_size
    except Gone:
        return 0
