"""Other programs' SQLite databases, opened `mode=ro`.

Never `immutable=1`: it ignores the write-ahead log, in which all the latest rows are. `mode=ro`
takes only a shared lock, writes no page and does not checkpoint; a busy writer makes us wait at most
`PATIENCE`. `sqlite3` is imported here and only when an agent with a database is alive or asked for.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import Any

from agentctl.errors import Forbidden, Malformed, SourceError, Unsupported
from agentctl.truth import files

PATIENCE = 0.25  # seconds for a writer to finish


class Database:
    """One read-only connection; use as a context manager."""

    def __init__(self, path: str) -> None:
        self.path = path
        files.head(path, 16)  # the errors of files.py for: absent, forbidden, not a regular file
        quoted = path.replace("%", "%25").replace("?", "%3f").replace("#", "%23")
        try:
            self._connection = sqlite3.connect(
                f"file:{quoted}?mode=ro", uri=True, timeout=PATIENCE, check_same_thread=False
            )
        except sqlite3.Error as error:
            raise self._translated(error) from error

    def __enter__(self) -> Database:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def rows(self, query: str, parameters: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        try:
            return self._connection.execute(query, parameters).fetchall()
        except sqlite3.Error as error:
            raise self._translated(error) from error

    def columns(self, table: str) -> frozenset[str]:
        """Names of a table's columns; empty when there is no such table."""
        return frozenset(row[1] for row in self.rows(f'pragma table_info("{table}")'))

    def _translated(self, error: sqlite3.Error) -> SourceError:
        text = str(error)
        if "no such table" in text or "no such column" in text:
            return Unsupported(self.path, f"{text}: a schema we do not know")
        if "unable to open" in text or "readonly database" in text or "authorization" in text:
            return Forbidden(self.path, text)
        return Malformed(self.path, text)
