"""Where Codex keeps its threads: find rollouts and names without reading a thread."""

from __future__ import annotations

import os
import time

from agentctl.adapters.base import HistoryQuery
from agentctl.adapters.codex import agent
from agentctl.adapters.codex.rollout import read_creation_time, read_thread_id
from agentctl.adapters.roots import find_root
from agentctl.errors import Gone, SourceError
from agentctl.light_typing import Iterator
from agentctl.system import files, jsonl
from agentctl.system.proc import Process, is_in_proc
from agentctl.truth.look import Environ, Look
from agentctl.truth.model import Observation

DAY = 86400.0
ID = b'"id":"'


def codex_root(environ: Environ) -> str | None:
    return find_root(environ, agent.ROOT)


def find_home(process: Process, look: Look) -> str:
    """Return the CODEX_HOME of a process, as seen from here and without links, for comparison."""
    path = os.path.join(process.cwd or "/", codex_root(look.read_environ(process)) or "/nonexistent")
    root = look.resolve_path(process, path)
    # Below /proc/PID/root links are resolved already, and /proc/PID/root itself must stay.
    return root if is_in_proc(root) else os.path.realpath(root)


def find_rollout(root: str, session_id: str, look: Look) -> str | None:
    """Return the rollout of a thread. Its folder is the day of its creation, in local time."""
    created_at = read_creation_time(session_id)
    rollouts = (
        list_rollouts(root, session_id, look)
        if created_at is None
        else list_rollouts_near(root, created_at, look)
    )
    return next((path for id_, path in rollouts if id_ == session_id), None)


def list_rollouts_near(root: str, moment: float, look: Look) -> Iterator[tuple[str, str]]:
    for directory in list_day_folders(root, moment):
        yield from _list_folder(directory, "", look)


def list_day_folders(root: str, moment: float) -> Iterator[str]:
    """Yield the folders of that day in any time zone."""
    for day in (moment, moment - DAY, moment + DAY):
        t = time.gmtime(day)
        yield f"{root}/sessions/{t.tm_year:04d}/{t.tm_mon:02d}/{t.tm_mday:02d}"


def list_rollouts(root: str, prefix: str, look: Look) -> Iterator[tuple[str, str]]:
    """Yield thread and path, newest day first. Not by the thread index in state_5.sqlite, which lacks
    some threads and keeps deleted ones."""
    top = f"{root}/sessions"
    for year in sorted(look.list_names(top), reverse=True):
        for month in sorted(look.list_names(f"{top}/{year}"), reverse=True):
            for day in sorted(look.list_names(f"{top}/{year}/{month}"), reverse=True):
                yield from _list_folder(f"{top}/{year}/{month}/{day}", prefix, look)
    yield from _list_folder(f"{root}/archived_sessions", prefix, look)


def _list_folder(directory: str, prefix: str, look: Look) -> Iterator[tuple[str, str]]:
    for name in sorted(look.list_names(directory)):  # `.jsonl` comes before `.jsonl.zst`
        session_id = read_thread_id(name)
        if session_id is not None and session_id.startswith(prefix):
            yield session_id, f"{directory}/{name}"


def observe_packed(session_id: str, path: str, query: HistoryQuery, look: Look) -> Iterator[Observation]:
    """Observe a compressed rollout: only its existence is known."""
    status = look.stat(path)
    if status is not None and status.st_mtime >= query.since:
        # One Problem for each folder, not for each of thousands of files.
        look.report_problem(
            "unsupported", "compressed rollouts (.jsonl.zst) are not read", os.path.dirname(path)
        )
        owner = look.find_evidence_without_owner(status.st_mtime, path=path, uid=status.st_uid)
        yield Observation(look.adapter, session_id, (owner,), transcript=path)


class Titles:
    """Names of threads, by the last line for each in `session_index.jsonl`."""

    def __init__(self, look: Look) -> None:
        self._look = look
        self._lines: dict[str, dict[bytes, bytes]] = {}

    def find(self, root: str, session_id: str) -> str | None:
        lines = self._lines.get(root)
        if lines is None:
            lines = self._lines[root] = self._load(f"{root}/session_index.jsonl")
        line = lines.get(session_id.encode())
        record = jsonl.parse_record(line) or {} if line is not None else {}
        title = record.get("thread_name")
        return title if isinstance(title, str) and record.get("id") == session_id else None

    def _load(self, path: str) -> dict[bytes, bytes]:
        """Return the last line of each thread, not parsed yet: few of hundreds are needed."""
        try:
            data = files.read_tail(path).data
        except Gone:
            return {}
        except SourceError as error:
            self._look.report_unreadable(error)
            return {}
        lines_by_id = {}
        for line in data.split(b"\n"):
            start = line.find(ID) + len(ID)
            if start >= len(ID):
                lines_by_id[line[start : start + 36]] = line
        return lines_by_id
