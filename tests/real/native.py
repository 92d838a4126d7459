"""The id that an agent gave to a session, found by the words of its prompts.

Read without agentctl's own code, on purpose: the driver's truth must not rest on what it measures.
"""

import re
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")


def session_with(adapter: str, home: Path, mark: str) -> str | None:
    """The newest session whose record holds this text; None: none is written yet."""
    return next(_READERS[adapter](home, mark), None)


def _files(pattern: str) -> Callable[[Path, str], Iterator[str]]:
    def find_sessions(home: Path, mark: str) -> Iterator[str]:
        paths = [path for path in home.glob(pattern) if mark in path.read_text("utf-8", "replace")]
        for path in sorted(paths, key=lambda path: path.stat().st_mtime, reverse=True):
            yield UUID.findall(path.name)[-1]

    return find_sessions


def _rows(home: Path, mark: str) -> Iterator[str]:
    database = home / ".local/share/opencode/opencode.db"
    if not database.exists():
        return
    with closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True)) as connection:
        if not connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'part'").fetchone():
            return  # OpenCode has made no tables yet
        query = "SELECT session_id FROM part WHERE instr(data, ?) ORDER BY time_created DESC"
        yield from (row[0] for row in connection.execute(query, (mark,)))


_READERS: dict[str, Callable[[Path, str], Iterator[str]]] = {
    "claude-code": _files(".claude/projects/*/*.jsonl"),
    "codex": _files(".codex/sessions/*/*/*/rollout-*.jsonl"),
    "opencode": _rows,
    "pi": _files(".pi/agent/sessions/*/*.jsonl"),
}
