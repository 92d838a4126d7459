"""Remembers what a transcript said, keyed by (path, inode, size, mtime). Can be deleted any time.

It holds facts read from a file, never a status: a session's status also depends on processes, which
no file knows. Where the state directory cannot be written, it remembers nothing and all is read anew.
"""

from __future__ import annotations

import marshal
import os
import sqlite3
import stat
import time
from typing import Any

from agentctl.store.private import make_private
from agentctl.truth.model import Facts, Tokens, Turn

# Raised whenever Facts or the meaning of one of its fields changes: what an older version
# remembered is forgotten.
FORMAT = 1
PATIENCE = 0.2  # seconds for another writer to finish
# Seconds. A file as young as that may change again within the grain of its time stamp, and keep its
# size: it is not remembered yet.
GRAIN = 1.0
SIGNED = (1 << 63) - 1

_SCHEMA = """
create table if not exists facts (
    path text primary key, inode integer, size integer, mtime_ns integer, said blob
) without rowid, strict
"""


class Cache:
    """Use as a context manager: what is new is written when it closes."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._known: dict[str, tuple[int, int, int, bytes]] = {}
        self._new: dict[str, tuple[int, int, int, bytes]] = {}
        self._rotten = False
        self._load()

    def __enter__(self) -> Cache:
        return self

    def __exit__(self, *_: object) -> None:
        if self._new:
            self._save()

    def recall(self, path: str, status: os.stat_result) -> Facts | None:
        row = self._known.get(path)
        if row is None or row[:3] != _version(status):
            return None
        return unpack(row[3])

    def remember(self, path: str, status: os.stat_result, facts: Facts) -> None:
        if status.st_mtime > time.time() - GRAIN:
            return
        try:
            path.encode()
        except UnicodeEncodeError:  # a name that is no UTF-8: not worth a second way to write it
            return
        self._new[path] = (*_version(status), pack(facts))

    def _load(self) -> None:
        quoted = self._path.replace("%", "%25").replace("?", "%3f").replace("#", "%23")
        try:
            if not stat.S_ISREG(os.stat(self._path).st_mode):
                return
            connection = sqlite3.connect(f"file:{quoted}?mode=ro", uri=True, timeout=PATIENCE)
        except (OSError, sqlite3.Error):  # there is none yet
            return
        try:
            if connection.execute("pragma user_version").fetchone() == (FORMAT,):
                rows = connection.execute("select path, inode, size, mtime_ns, said from facts")
                self._known = {row[0]: row[1:] for row in rows}
        except sqlite3.Error as error:  # a broken cache remembers nothing
            self._known = {}
            self._rotten = _rotten(error)
        finally:
            connection.close()

    def _save(self) -> None:
        """Best effort: a read-only home or a full disk costs speed, not truth."""
        try:
            if self._rotten:
                self._discard()
            make_private(self._path)
            connection = sqlite3.connect(self._path, timeout=PATIENCE)
        except (OSError, sqlite3.Error):
            return
        try:
            self._write(connection)
        except sqlite3.Error as error:
            connection.close()
            if _rotten(error):  # and not merely busy, full or read-only
                self._discard()
        finally:
            connection.close()

    def _write(self, connection: sqlite3.Connection) -> None:
        if connection.execute("pragma user_version").fetchone() != (FORMAT,):
            connection.execute("drop table if exists facts")
            connection.execute(_SCHEMA)
            connection.execute(f"pragma user_version = {FORMAT}")
        rows = [(path, *row) for path, row in self._new.items()]
        with connection:
            connection.executemany("insert or replace into facts values (?, ?, ?, ?, ?)", rows)

    def _discard(self) -> None:
        """A file that is no database, or not ours: a new one is made. Its journal goes first, lest it
        be played back into the new one."""
        for path in (f"{self._path}-journal", f"{self._path}-wal", self._path):
            try:
                os.unlink(path)
            except OSError:
                continue


def _version(status: os.stat_result) -> tuple[int, int, int]:
    """Of a file's content. Inodes are unsigned, SQLite's integers are not."""
    return status.st_ino & SIGNED, status.st_size, status.st_mtime_ns


def _rotten(error: sqlite3.Error) -> bool:
    return error.sqlite_errorcode & 0xFF in (
        sqlite3.SQLITE_NOTADB,
        sqlite3.SQLITE_CORRUPT,
        sqlite3.SQLITE_ERROR,  # no such table: somebody else's, or half made
    )


def pack(facts: Facts) -> bytes:
    plain: list[Any] = list(facts)
    plain[_TOKENS] = tuple(facts.tokens) if facts.tokens is not None else None
    plain[_TURN] = tuple(facts.turn) if facts.turn is not None else None
    return marshal.dumps(tuple(plain))


def unpack(said: bytes) -> Facts | None:
    """None: it is not what `pack` made."""
    try:
        plain = list(marshal.loads(said))  # noqa: S302 - our own file, 0600, in our own directory
        if plain[_TOKENS] is not None:
            plain[_TOKENS] = Tokens._make(plain[_TOKENS])
        if plain[_TURN] is not None:
            plain[_TURN] = Turn._make(plain[_TURN])
        return Facts._make(plain)
    except (ValueError, TypeError, EOFError, IndexError):
        return None


_TOKENS = Facts._fields.index("tokens")
_TURN = Facts._fields.index("turn")
