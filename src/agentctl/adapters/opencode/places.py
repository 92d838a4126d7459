"""Where OpenCode keeps its files, by environment and by the open files of its processes."""

from __future__ import annotations

import os

from agentctl.adapters.opencode import agent
from agentctl.adapters.roots import find_root, xdg_directory
from agentctl.errors import Gone, SourceError, Unsupported
from agentctl.system import clock, files, jsonl
from agentctl.system.proc import Process
from agentctl.truth.look import Environ, Look

DELETED = " (deleted)"
EMPTY_SIZES = (0, 4096)  # bytes: nothing, or a first page without a table


def data_directory(environ: Environ) -> str | None:
    return find_root(environ, agent.ROOT)


def state_directory(environ: Environ) -> str | None:
    base = xdg_directory(environ, "XDG_STATE_HOME", ".local/state")
    return f"{base}/opencode" if base else None


def configured_database(environ: Environ) -> str | None:
    """Return the database that OPENCODE_DB names."""
    value, data = environ.get("OPENCODE_DB", ""), data_directory(environ)
    if not value or value == ":memory:":
        return None
    return value if value.startswith("/") or data is None else f"{data}/{value}"


def usual_database(environ: Environ) -> str | None:
    """Return where the database is, or will be; None without a home."""
    data = data_directory(environ)
    return configured_database(environ) or (f"{data}/opencode.db" if data else None)


def find_database(process: Process, look: Look) -> str | None:
    """Return the database that a process holds open; None: none yet, or it was deleted. A process that
    has not opened the index (`-shm`) yet is still opening the database. A reader that creates the index
    first would lock the process out, and it would end with "database is locked"."""
    environ = look.read_environ(process)
    configured = configured_database(environ)
    try:
        open_files = process.list_open_files()
    except Gone:
        return None
    except SourceError as error:
        look.report_unreadable(error)
        usual = usual_database(environ)
        return look.resolve_path(process, usual) if usual else None
    for path in open_files:
        name = path.rpartition("/")[2]
        if path == configured or (name.startswith("opencode") and name.endswith(".db")):
            is_ready = any(other.startswith(f"{path}-shm") for other in open_files)
            return look.resolve_path(process, path) if is_ready else None
        if name.startswith("opencode") and name.endswith(".db" + DELETED):
            look.report_problem(
                "stale", f"deleted while pid {process.pid} uses it", path.removesuffix(DELETED)
            )
    return None


def writes_log(process: Process, root: str) -> bool:
    """Return True if the process writes a log of OpenCode, as no other program does."""
    folder = f"{os.path.realpath(root)}/log/"
    try:
        return any(
            path.startswith(folder) and process.has_open_to_write(path)
            for path in process.list_open_files()
        )
    except SourceError:  # the process has ended, or is withheld
        return False


def list_databases(look: Look) -> list[str]:
    """Return all databases: by name, by OPENCODE_DB, and those that live processes hold open."""
    paths = [path for path in look.find_roots(configured_database) if look.stat(path) is not None]
    for root in look.find_roots(data_directory):
        names = look.list_names(root)  # opencode-CHANNEL.db: builds that are not `latest`
        paths += [f"{root}/{n}" for n in names if n.startswith("opencode") and n.endswith(".db")]
    return list(
        dict.fromkeys([*paths, *(p for p in (find_database(o, look) for o in look.own_processes) if p)])
    )


def check_complete(path: str) -> str:
    """Return the path, if the database may be opened. Raises Unsupported while OpenCode creates it:
    before it has a write-ahead log, a reader's lock would make OpenCode fail. Raises SourceError."""
    status = files.read_status(path)
    is_new = status.st_size in EMPTY_SIZES and not clock.is_settled(status.st_mtime)
    if is_new and not files.is_present(f"{path}-wal"):
        raise Unsupported(path, "it is just being made")
    return path


def report_stale_locks(look: Look, folder: str) -> None:
    """Report locks of `npm install` whose process is gone."""
    for name in look.list_names(folder):
        path = f"{folder}/{name}/meta.json"
        try:
            record = jsonl.parse_record(files.read_file(path).data) or {}
        except SourceError:  # a lock that is being taken or released
            continue
        pid = record.get("pid")
        if isinstance(pid, int) and pid not in look.table:
            look.report_problem("stale", f"lock of pid {pid}, which is gone", path)
