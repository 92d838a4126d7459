"""Where OpenCode keeps its files, by environment and by what its processes hold open."""

from __future__ import annotations

import os

from agentctl.adapters.roots import opencode_data, xdg_directory
from agentctl.errors import Gone, SourceError, Unsupported
from agentctl.system import clock, files, jsonl
from agentctl.system.proc import Process
from agentctl.truth.look import Environ, Look

DELETED = " (deleted)"
BLANK = (0, 4096)  # bytes: nothing, or a first page and no table


def state_home(environ: Environ) -> str | None:
    base = xdg_directory(environ, "XDG_STATE_HOME", ".local/state")
    return f"{base}/opencode" if base else None


def chosen(environ: Environ) -> str | None:
    """The database that OPENCODE_DB names."""
    given, data = environ.get("OPENCODE_DB", ""), opencode_data(environ)
    if not given or given == ":memory:":
        return None
    return given if given.startswith("/") or data is None else f"{data}/{given}"


def usual_database(environ: Environ) -> str | None:
    """Where the database is, or will be; None if no home is known."""
    data = opencode_data(environ)
    return chosen(environ) or (f"{data}/opencode.db" if data else None)


def database_of(process: Process, look: Look) -> str | None:
    """The database that it holds open; None: none yet, or one that was deleted under it. As long as it
    has not opened the log's index it is just opening it, and waits for nobody: who reads then may make
    the index first, for which SQLite locks it out, and it ends with "database is locked"."""
    environ = look.environ_of(process)
    named = chosen(environ)
    try:
        held = process.open_files()
    except Gone:
        return None
    except SourceError as error:
        look.unreadable(error)
        usual = usual_database(environ)
        return look.through(process, usual) if usual else None
    for path in held:
        name = path.rpartition("/")[2]
        if path == named or (name.startswith("opencode") and name.endswith(".db")):
            opened = any(other.startswith(f"{path}-shm") for other in held)
            return look.through(process, path) if opened else None
        if name.startswith("opencode") and name.endswith(".db" + DELETED):
            look.problem("stale", f"deleted while pid {process.pid} uses it", path.removesuffix(DELETED))
    return None


def writes_log(process: Process, root: str) -> bool:
    """Whether it has a log of OpenCode's open, which nobody else writes."""
    folder = f"{os.path.realpath(root)}/log/"
    try:
        return any(path.startswith(folder) and process.writes(path) for path in process.open_files())
    except SourceError:  # it has ended, or may not be looked into
        return False


def databases(look: Look) -> list[str]:
    """All there are: by name, by OPENCODE_DB, and those that live processes hold."""
    found = [path for path in look.roots(chosen) if look.status(path) is not None]
    for root in look.roots(opencode_data):
        names = look.names(root)  # opencode-CHANNEL.db: builds that are not `latest`
        found += [f"{root}/{n}" for n in names if n.startswith("opencode") and n.endswith(".db")]
    return list(dict.fromkeys([*found, *(p for p in (database_of(o, look) for o in look.owned) if p)]))


def made(path: str) -> str:
    """That database, to be opened. Raises Unsupported while it is just being made: without a log yet,
    whoever reads it takes a lock that its maker may not wait for. Raises SourceError."""
    status = files.status(path)
    young = status.st_size in BLANK and not clock.settled(status.st_mtime)
    if young and not files.exists(f"{path}-wal"):
        raise Unsupported(path, "it is just being made")
    return path


def stale_locks(look: Look, folder: str) -> None:
    """Locks of `npm install` that outlived their process."""
    for name in look.names(folder):
        path = f"{folder}/{name}/meta.json"
        try:
            record = jsonl.parse(files.whole(path).data) or {}
        except SourceError:  # told by nobody: a lock being taken or given back
            continue
        pid = record.get("pid")
        if isinstance(pid, int) and pid not in look.table:
            look.problem("stale", f"lock of pid {pid}, which is gone", path)
