"""Where Codex keeps its threads: finding rollouts and names without reading any thread."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator

from agentctl.adapters.base import Wanted
from agentctl.adapters.codex.rollout import created_at, thread_id
from agentctl.adapters.roots import codex_root
from agentctl.errors import Gone, SourceError
from agentctl.system import files, jsonl
from agentctl.system.proc import Process
from agentctl.truth.look import Look
from agentctl.truth.model import Observation

DAY = 86400.0
ID = b'"id":"'


def home_of(process: Process, look: Look) -> str:
    """Its CODEX_HOME, as seen from here and without links, so that two of them can be compared."""
    named = os.path.join(process.cwd or "/", codex_root(look.environ_of(process)) or "/nonexistent")
    root = look.through(process, named)
    # below /proc/PID/root the links are followed already, and that one must not be
    return root if root.startswith(f"/proc/{process.pid}/") else os.path.realpath(root)


def find(root: str, session_id: str, look: Look) -> str | None:
    """Its rollout when it is not held open. The folder is the thread's day of birth, in local time."""
    created = created_at(session_id)
    nearby = rollouts(root, session_id, look) if created is None else of_days(root, created, look)
    return next((path for found, path in nearby if found == session_id), None)


def of_days(root: str, moment: float, look: Look) -> Iterator[tuple[str, str]]:
    for directory in days(root, moment):
        yield from _in(directory, "", look)


def days(root: str, moment: float) -> Iterator[str]:
    """The folders of that day, whatever the time zone."""
    for day in (moment, moment - DAY, moment + DAY):
        t = time.gmtime(day)
        yield f"{root}/sessions/{t.tm_year:04d}/{t.tm_mon:02d}/{t.tm_mday:02d}"


def rollouts(root: str, prefix: str, look: Look) -> Iterator[tuple[str, str]]:
    """(thread, path), newest day first. From the files: the thread index in state_5.sqlite misses
    some and keeps others that are gone."""
    top = f"{root}/sessions"
    for year in sorted(look.names(top), reverse=True):
        for month in sorted(look.names(f"{top}/{year}"), reverse=True):
            for day in sorted(look.names(f"{top}/{year}/{month}"), reverse=True):
                yield from _in(f"{top}/{year}/{month}/{day}", prefix, look)
    yield from _in(f"{root}/archived_sessions", prefix, look)


def _in(directory: str, prefix: str, look: Look) -> Iterator[tuple[str, str]]:
    for name in sorted(look.names(directory)):  # `.jsonl` comes before `.jsonl.zst`
        session_id = thread_id(name)
        if session_id is not None and session_id.startswith(prefix):
            yield session_id, f"{directory}/{name}"


def packed(session_id: str, path: str, wanted: Wanted, look: Look) -> Iterator[Observation]:
    """A compressed rollout: that it is there is all we can tell."""
    status = look.status(path)
    if status is not None and status.st_mtime >= wanted.since:
        # one Problem for each folder, not for each of thousands of files
        look.problem(
            "unsupported", "compressed rollouts (.jsonl.zst) are not read", os.path.dirname(path)
        )
        owner = look.unowned(status.st_mtime, path=path, uid=status.st_uid)
        yield Observation(look.adapter, session_id, (owner,), transcript=path)


class Titles:
    """Names given to threads, by the last line for each in `session_index.jsonl`."""

    def __init__(self, look: Look) -> None:
        self._look = look
        self._lines: dict[str, dict[bytes, bytes]] = {}

    def of(self, root: str, session_id: str) -> str | None:
        lines = self._lines.get(root)
        if lines is None:
            lines = self._lines[root] = self._load(f"{root}/session_index.jsonl")
        line = lines.get(session_id.encode())
        record = jsonl.parse(line) or {} if line is not None else {}
        title = record.get("thread_name")
        return title if isinstance(title, str) and record.get("id") == session_id else None

    def _load(self, path: str) -> dict[bytes, bytes]:
        """The last line of each thread, not parsed yet: of hundreds, few are asked for."""
        try:
            data = files.tail(path).data
        except Gone:
            return {}
        except SourceError as error:
            self._look.unreadable(error)
            return {}
        found = {}
        for line in data.split(b"\n"):
            start = line.find(ID) + len(ID)
            if start >= len(ID):
                found[line[start : start + 36]] = line
        return found
