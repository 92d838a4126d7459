"""Remembers what a transcript said, keyed by (path, inode, size, mtime). Can be deleted any time.

It holds facts read from a file, never a status: a session's status also depends on processes, which
no file knows. Where the state directory cannot be written, it remembers nothing and all is read anew.
"""

from __future__ import annotations

import marshal
import os
import sqlite3
from typing import Any

from agentctl.truth.model import Facts, Tokens, Turn

# Raised whenever Facts or the meaning of one of its fields changes: what an older version
# remembered is forgotten.
FORMAT = 1

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
        self._load()

    def __enter__(self) -> Cache:
        return self

    def __exit__(self, *_: object) -> None:
        if self._new:
            self._save()

    def recall(self, path: str, status: os.stat_result) -> Facts | None:
        row = self._known.get(path)
        if row is None or row[:3] != (status.st_ino, status.st_size, status.st_mtime_ns):
            return None
        return unpack(row[3])

    def remember(self, path: str, status: os.stat_result, facts: Facts) -> None:
        self._new[path] = (status.st_ino, status.st_size, status.st_mtime_ns, pack(facts))

    def _load(self) -> None:
        try:
            connection = sqlite3.connect(f"file:{self._path}?mode=ro", uri=True, timeout=0.2)
        except sqlite3.Error:  # there is none yet
            return
        try:
            if connection.execute("pragma user_version").fetchone() == (FORMAT,):
                rows = connection.execute("select path, inode, size, mtime_ns, said from facts")
                self._known = {row[0]: row[1:] for row in rows}
        except sqlite3.Error:  # a broken cache remembers nothing; it is written anew below
            self._known = {}
        finally:
            connection.close()

    def _save(self) -> None:
        """Best effort: a read-only home or a full disk costs speed, not truth."""
        try:
            os.makedirs(os.path.dirname(self._path), mode=0o700, exist_ok=True)
            connection = sqlite3.connect(self._path, timeout=0.2)
        except (OSError, sqlite3.Error):
            return
        try:
            self._write(connection)
        except sqlite3.DatabaseError:
            connection.close()
            self._discard()
        finally:
            connection.close()

    def _write(self, connection: sqlite3.Connection) -> None:
        os.chmod(self._path, 0o600)  # it holds the beginnings of people's prompts
        if connection.execute("pragma user_version").fetchone() != (FORMAT,):
            connection.execute("drop table if exists facts")
            connection.execute(_SCHEMA)
            connection.execute(f"pragma user_version = {FORMAT}")
        rows = [(path, *row) for path, row in self._new.items()]
        with connection:
            connection.executemany("insert or replace into facts values (?, ?, ?, ?, ?)", rows)

    def _discard(self) -> None:
        """A file that is no database, or not ours: the next run starts a new one."""
        try:
            os.unlink(self._path)
        except OSError:
            return


def pack(facts: Facts) -> bytes:
    plain: list[Any] = list(facts)
    plain[_TOKENS] = tuple(facts.tokens) if facts.tokens is not None else None
    plain[_TURN] = tuple(facts.turn) if facts.turn is not None else None
    return marshal.dumps(tuple(plain))


def unpack(said: bytes) -> Facts:
    plain = list(marshal.loads(said))  # noqa: S302 - our own file, 0600, in our own directory
    if plain[_TOKENS] is not None:
        plain[_TOKENS] = Tokens._make(plain[_TOKENS])
    if plain[_TURN] is not None:
        plain[_TURN] = Turn._make(plain[_TURN])
    return Facts._make(plain)


_TOKENS = Facts._fields.index("tokens")
_TURN = Facts._fields.index("turn")
