"""What `doctor` finds: kernel, our own files, each agent's binary and files, and all problems."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from typing import NamedTuple

from agentctl import __version__, paths
from agentctl.adapters.base import Adapter
from agentctl.errors import AgentctlError, Gone, NoDaemon, SourceError
from agentctl.system import files, pidfd, proc
from agentctl.system.private import check_directory, check_home
from agentctl.truth import rehearsals
from agentctl.truth.look import Look
from agentctl.truth.model import Problem, Session

# Harmless by themselves: told, and no reason to call anything wrong.
NOTES = frozenset({"stale"})
LEVELS = {"failed": "wrong", "failing": "wrong", "degraded": "note"}  # of daemon parts, by state
PATIENCE = 3.0  # seconds for the daemon to answer


class Finding(NamedTuple):
    subject: str
    level: str  # ok, note, wrong
    text: str


def of_machine() -> Iterator[Finding]:
    yield Finding("agentctl", "ok", f"{__version__} on Python {sys.version.split()[0]}")
    system = os.uname()
    yield Finding("kernel", "ok", f"{system.sysname} {system.release}")
    if not hasattr(os, "pidfd_open"):
        yield Finding("kernel", "wrong", "no pidfd: processes can be seen but not signalled")
        return
    try:
        told = pidfd.exit_info_supported()
    except SourceError as error:
        yield Finding("kernel", "wrong", f"pidfd: {error}")
        return
    yield Finding("kernel", "ok", "pidfd: processes are signalled by identity")
    if told:
        yield Finding("kernel", "ok", "exit info: the exit code of a reaped process can be known")
    else:
        yield Finding(
            "kernel", "note", "no exit info (Linux 6.15): exit codes of others' children are lost"
        )
    if proc.namespace() != proc.INITIAL_PID_NAMESPACE:
        yield Finding(
            "kernel",
            "note",
            "a container: agents outside are not seen, and sessions in shared files are unknown",
        )
    if 1 not in proc.read_table():
        yield Finding(
            "kernel",
            "note",
            "pid 1 is invisible (hidepid?): other users' agents are not seen, sessions may be unknown",
        )


def of_rehearsals() -> Iterator[Finding]:
    """Rooms of `doctor --live`, which no list shows. One should end with whoever made it."""
    table = proc.read_table()
    at_work = {p.identity.address for p in table.values() if p.alive}
    for room in rehearsals.rooms(table):
        held = ", ".join(f"pid {p.pid} ({p.comm})" for p in room.inside if p.alive)
        if not held or not room.maker:  # it is ending
            continue
        if room.maker in at_work:
            yield Finding("rehearsal", "note", f"`doctor --live` ({room.maker}) is at work with {held}")
        else:
            pid = room.keeper.pid
            left = f"left over by a `doctor --live` that is gone ({room.maker}): {held}; not in any list"
            yield Finding("rehearsal", "wrong", f"{left}. End it with: kill -9 {pid}")


def of_state(environ: os._Environ[str]) -> Iterator[Finding]:
    state = paths.state_directory(environ)
    if state is None:
        yield Finding("state", "note", "no home directory: nothing is kept between runs")
        return
    try:
        mode = files.status(state).st_mode & 0o077
    except Gone:
        yield Finding("state", "ok", f"{state} (not there yet)")
        return
    except SourceError as error:
        yield Finding("state", "wrong", str(error))
        return
    try:
        check_directory(state)
        check_home(state)
    except SourceError as error:
        yield Finding("state", "wrong", f"{error.source}: {error.advice}")
        return
    if mode:
        yield Finding("state", "wrong", f"{state} can be read by others: chmod 700 {state}")
    elif not os.access(state, os.W_OK):
        yield Finding("state", "note", f"{state} is read-only: nothing new is kept")
    else:
        yield Finding("state", "ok", state)


def of_daemon(environ: os._Environ[str]) -> Iterator[Finding]:
    """How its parts are, by its own word. None has to run."""
    from agentctl.daemon_client import client as rpc

    state = paths.state_directory(environ)
    if state is None:
        return
    try:
        with rpc.connect(state, PATIENCE) as client:
            told = client.call("daemon.status")
    except NoDaemon:
        yield Finding("daemon", "ok", "none runs")
        return
    except AgentctlError as error:
        yield Finding("daemon", "wrong", f"{error} ({error.hint})" if error.hint else str(error))
        return
    yield Finding("daemon", "ok", f"pid {told['pid']}")
    for part in told["parts"]:
        name, how = part["name"], part["state"]
        if how in LEVELS:
            yield Finding("daemon", LEVELS[how], f"{name} {how}: {part.get('problem')}")
        for place in part.get("unwatched") or ():
            yield Finding("daemon", "note", f"{name}: looked at once a second, not watched: {place}")


def of_settings(environ: os._Environ[str]) -> Iterator[Finding]:
    from agentctl.config import settings as config

    try:
        settings = config.load(environ)
    except AgentctlError as error:  # what is launched would fail with the same words
        yield Finding("settings", "wrong", f"{error} ({error.hint})" if error.hint else str(error))
        return
    there = settings.file is not None and os.path.exists(settings.file)
    yield Finding("settings", "ok", str(settings.file) if there else "none made: all is as built in")


def of_agent(adapter: Adapter, look: Look, sessions: list[Session]) -> Iterator[Finding]:
    """Its binary, what is live, where its files are. `look` collects the problems."""
    yield installed(adapter)
    live = [s for s in sessions if s.seen.adapter == adapter.name]
    versions = sorted({s.seen.facts.agent_version for s in live if s.seen.facts.agent_version})
    told = f", versions {', '.join(versions)}" if versions else ""
    yield Finding(adapter.name, "ok", f"{len(live)} live{told}")
    for place in adapter.places(look):
        yield _readable(adapter.name, place.what, place.path)


def installed(adapter: Adapter) -> Finding:
    path = _which(adapter.binary)
    if path is None:
        return Finding(adapter.name, "note", f"no {adapter.binary!r} on PATH")
    return Finding(adapter.name, "ok", f"{path} {version_of(path) or '(version unknown)'}")


def version_of(binary: str) -> str | None:
    """From the package.json above it, or from a path that names it; nothing is run."""
    directory = os.path.realpath(binary)
    name = os.path.basename(directory)
    if name[:1].isdigit():
        return name
    for _ in range(4):
        directory = os.path.dirname(directory)
        try:
            return str(json.loads(files.whole(f"{directory}/package.json").data)["version"])
        except (SourceError, ValueError, KeyError, TypeError):
            continue
    return None


def of_extras() -> Iterator[Finding]:
    from importlib.metadata import PackageNotFoundError, metadata
    from importlib.util import find_spec

    try:
        known = metadata("agentctl").get_all("Provides-Extra") or []
    except PackageNotFoundError:  # run from a source tree that is not installed
        known = []
    needs = {"matrix": "yaml", "testing": "pytest"}
    for extra in known:
        there = find_spec(needs.get(extra, extra)) is not None
        yield Finding("extras", "ok", f"{extra}: {'installed' if there else 'not installed'}")


def of_problem(problem: Problem) -> Finding:
    level = "note" if problem.kind in NOTES else "wrong"
    where = f" ({problem.source})" if problem.source else ""
    return Finding(problem.adapter or "agentctl", level, f"{problem.kind}: {problem.message}{where}")


def _readable(subject: str, what: str, path: str) -> Finding:
    try:
        status = files.status(path)
        if os.path.isdir(path):
            files.names(path)
        else:
            files.head(path, 1)
    except Gone:
        return Finding(subject, "ok", f"{what}: {path} (not there)")
    except SourceError as error:
        return Finding(subject, "wrong", f"{what}: {error}")
    whose = "" if status.st_uid == os.geteuid() else f" (of uid {status.st_uid})"
    return Finding(subject, "ok", f"{what}: {path}{whose}")


def _which(binary: str) -> str | None:
    for directory in os.environ.get("PATH", os.defpath).split(os.pathsep):
        path = os.path.join(directory, binary)
        if os.access(path, os.X_OK) and os.path.isfile(path):
            return path
    return None
