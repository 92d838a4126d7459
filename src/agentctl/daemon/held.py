"""Keeps our database open, and sees when it is another one, or gone.

Who closes a database as the last one copies its log and removes it, and who opens it makes a new one:
each write would cost that, and wake whoever watches the log. So one connection stays open, for as long
as it is the same file. What is deleted under us is not made again: the home may be going, and a file
that comes back keeps its directory from being removed.
"""

from __future__ import annotations

import sqlite3

from agentctl.state import db


class Held:
    """`take` and `drop` belong to one thread; `there` may be asked in any."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._connection: sqlite3.Connection | None = None
        self._place: db.Place | None = None
        self._begun = False

    @property
    def there(self) -> bool:
        """It is the one that was taken."""
        return self._place is not None and db.place(self._path) == self._place

    @property
    def connection(self) -> sqlite3.Connection | None:
        """To read from in the thread that took it; None: there is none."""
        return self._connection if self.there else None

    def take(self) -> bool:
        """Whether it is one that was not there before. The first is made if need be. Raises
        SourceError."""
        if self.there:
            return False
        self.drop()
        if self._begun and db.place(self._path) is None:
            return False
        connection = db.open_writable(self._path)
        try:
            connection.execute("select 1 from outbox limit 1").fetchone()  # opens the log, too
        except sqlite3.Error:
            connection.close()
            raise
        self._connection, self._place, self._begun = connection, db.place(self._path), True
        return True

    def drop(self) -> None:
        if self._connection is not None:
            self._connection.close()
        self._connection = self._place = None
