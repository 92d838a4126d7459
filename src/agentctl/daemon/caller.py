"""The process that asks the daemon for sessions: what it sends, and whether it sees the same machine.

From other namespaces, another root, with other rights, by another version or with other adapters, the
caller would get another answer: `ELSEWHERE` sends it to look itself. So does a daemon that lacks the
descriptors for a whole look: a list of some sessions would be wrong.
"""

from __future__ import annotations

import os
import sys
import time

from agentctl import __version__
from agentctl.adapters.registry import EntryPoint, entry_points, is_stale
from agentctl.daemon_client import protocol
from agentctl.errors import Fault, SourceError
from agentctl.light_typing import Any, Mapping, NamedTuple, Sequence
from agentctl.system import clock, proc, this_process

MOST_DIRECTORIES = 256  # of modules, to remember
MOST_THREADS = 64  # an adapter that hangs keeps one; beyond that, callers look themselves


class Caller(NamedTuple):
    environ: Mapping[str, str]
    cwd: str
    path: list[str]  # its module path
    until: float  # when it stops waiting, by the monotonic clock


def parse_caller(params: Mapping[str, Any]) -> Caller:
    """Raise Fault if a parameter is missing or of another type."""
    if params.get("protocol") != protocol.PROTOCOL or params.get("version") != __version__:
        raise elsewhere(f"this daemon is agentctl {__version__}, protocol {protocol.PROTOCOL}")
    environ, cwd, until = (params.get(name) for name in ("environ", "cwd", "until"))
    path = parse_texts(params, "path")
    if not isinstance(environ, dict) or not all(isinstance(each, str) for each in environ.values()):
        raise Fault(protocol.BAD_PARAMS, "environ: not an object of strings")
    if not isinstance(cwd, str) or not cwd.startswith("/"):
        raise Fault(protocol.BAD_PARAMS, "cwd: not an absolute path")
    if type(until) is not float:
        raise Fault(protocol.BAD_PARAMS, "until: not a number with a fraction")
    return Caller(environ, cwd, path, until)


def parse_texts(params: Mapping[str, Any], name: str) -> list[str]:
    """Return a list of strings. Raises Fault."""
    value = params.get(name)
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise Fault(protocol.BAD_PARAMS, f"{name}: not a list of strings")
    return value


class CallerCheck:
    """Decides whether a caller sees the same machine as this process, through the same adapters."""

    def __init__(self) -> None:
        self._installed = InstalledAdapters()
        self._viewpoint = read_viewpoint(os.getpid())

    def check(self, caller: Caller, pid: int) -> None:
        """Raise Fault if the caller is to look itself."""
        if time.monotonic() > caller.until:
            raise elsewhere("the caller waits no longer")
        need_descriptors()
        if read_viewpoint(pid) != self._viewpoint:
            raise elsewhere("the caller is in another namespace or root, or has other rights")
        if len(sys._current_frames()) > MOST_THREADS:
            raise elsewhere("too many adapters hang")

    def shared_modules(self, caller: Caller) -> list[str]:
        """Return the directories of third parties' adapters. Raises Fault if the caller has others than
        this daemon, or if the daemon has imported another version of one."""
        ours = self._installed.on_path(sys.path, os.getcwd())
        if ours != self._installed.on_path(caller.path, caller.cwd):
            raise elsewhere("the caller has other adapters installed than the daemon")
        if any(map(is_stale, ours)):
            raise elsewhere("an adapter was installed again since the daemon imported it")
        return list(dict.fromkeys(os.path.dirname(entry.package) for entry in ours))


class InstalledAdapters:
    """Remembers which third parties' adapters are installed. Installers make a directory for each
    package, which changes the time of the directory that it is in."""

    def __init__(self) -> None:
        self._cached: dict[str, tuple[tuple[int, int, int], list[EntryPoint]]] = {}

    def on_path(self, path: Sequence[str], cwd: str) -> list[EntryPoint]:
        """Return the adapters on a module path whose relative entries are below `cwd`."""
        directories = dict.fromkeys(os.path.join(cwd, each).rstrip("/") for each in path)
        return [entry for directory in directories for entry in self.in_directory(directory)]

    def in_directory(self, directory: str) -> list[EntryPoint]:
        try:
            status = os.stat(directory)
        except OSError:  # an entry of sys.path that does not exist is normal
            return []
        mark = (status.st_ino, status.st_mtime_ns, status.st_ctime_ns)
        cached = self._cached.get(directory)
        if cached is not None and cached[0] == mark:
            return cached[1]
        entries = entry_points(directory)
        settled = clock.is_settled(status.st_mtime) and clock.is_settled(status.st_ctime)
        if settled and len(self._cached) < MOST_DIRECTORIES:
            self._cached[directory] = (mark, entries)
        return entries


def need_descriptors() -> None:
    """Raise Fault if too few are left for a whole look."""
    shortage = this_process.describe_shortage()
    if shortage is not None:
        raise elsewhere(shortage)


def read_viewpoint(pid: int) -> tuple[object, ...]:
    """Return all that decides what this process sees of the machine. Raises Fault if it is withheld."""
    try:
        return proc.read_viewpoint(pid)
    except SourceError as error:
        raise elsewhere(f"the caller cannot be looked at: {error.why}") from error


def elsewhere(why: str) -> Fault:
    return Fault(protocol.ELSEWHERE, why)
