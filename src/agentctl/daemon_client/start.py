"""Starts the daemon where a verb needs it, unless it is told not to.

Several that summon at once end with one daemon, and each with a connection to it: who finds the lock
taken waits for the one that has it.
"""

from __future__ import annotations

import os
import select
import time
from collections.abc import Mapping

from agentctl import paths
from agentctl.adapters.environment import scrubbed
from agentctl.config import settings
from agentctl.daemon_client import client, lock_file
from agentctl.daemon_client.client import Client
from agentctl.errors import NoDaemon, SourceError, StartFailed, Unreachable
from agentctl.process import ours as programs
from agentctl.system import files
from agentctl.system.files import translated
from agentctl.system.private import check_home, make_private

OFF = "AGENTCTL_NO_DAEMON"
LOG = "daemon.log"
DEADLINE = 15.0  # seconds, until it answers
BEAT = 0.02  # seconds between two tries to reach a daemon that another has started: nobody tells us
# What a supervisor tells the process that it has started; the daemon is not that process.
_OF_A_SUPERVISOR = ("NOTIFY_SOCKET", "LISTEN_FDS", "LISTEN_PID", "LISTEN_FDNAMES", "WATCHDOG_PID",
                    "WATCHDOG_USEC", "INVOCATION_ID", "JOURNAL_STREAM")  # fmt: skip


def home_of(environ: Mapping[str, str]) -> str:
    """Raises Unreachable where there is no place for a daemon's files."""
    found = paths.state_directory(environ)
    if found is None:
        raise Unreachable("no home directory is known", "set AGENTCTL_HOME")
    return found


def allowed(environ: Mapping[str, str]) -> bool:
    return environ.get(OFF, "") in ("", "0")


def ensure(environ: Mapping[str, str], *, no_daemon: bool = False) -> Client:
    """A connection to the daemon of this home, started if need be. Raises NoDaemon where none runs and
    none may be started, Unreachable for one that cannot be spoken with, StartFailed."""
    home = home_of(environ)
    try:
        return client.connect(home)
    except NoDaemon as error:
        told = "--no-daemon" if no_daemon else _forbidden(environ)
        if told is not None:
            raise NoDaemon(
                f"this needs the daemon; none runs for {home}, and {told} says not to start one",
                "agentctl daemon start",
            ) from error
    return start(environ)


def _forbidden(environ: Mapping[str, str]) -> str | None:
    """What says that none is to be started. Raises UsageError for settings that make no sense."""
    if not allowed(environ):
        return f"{OFF}={environ.get(OFF)}"
    auto = settings.load(environ).daemon_auto
    return None if auto.value else f"daemon.auto ({auto.where})"


def start(environ: Mapping[str, str], deadline: float = DEADLINE) -> Client:
    """The same, whatever AGENTCTL_NO_DAEMON says."""
    home, end = home_of(environ), time.monotonic() + deadline
    check_home(home)
    while True:
        word, _, why = _started(home, environ, end).partition(" ")
        if word == "failed":
            raise StartFailed(f"the daemon did not start: {why}", "agentctl daemon logs")
        if word not in ("ok", "held"):
            raise StartFailed("the daemon ended at once", "agentctl daemon logs", _last_words(home))
        try:
            return _reached(home, end)
        except NoDaemon as error:  # who held the lock was about to end when we came
            if time.monotonic() > end:
                raise StartFailed(
                    f"the daemon does not answer within {deadline:g} s" + (f": {why}" if why else ""),
                    "agentctl daemon logs",
                ) from error


def surroundings(environ: Mapping[str, str], *, supervised: bool = False) -> dict[str, str]:
    """The daemon's environment: a person's, not that of the agent whose tool has called us. Supervised:
    it takes our place in front of whoever has started us."""
    kept, _ = scrubbed(environ)
    if kept.get("AGENTCTL_HOME"):
        kept["AGENTCTL_HOME"] = home_of(environ)  # its working directory is another one than ours
    return {name: kept[name] for name in kept if supervised or name not in _OF_A_SUPERVISOR}


def _reached(home: str, end: float) -> Client:
    """A daemon that has just taken the lock soon answers; one that has let go of it never will."""
    while True:
        try:
            return client.connect(home, max(0.1, end - time.monotonic()))
        except NoDaemon:
            time.sleep(BEAT)
            if time.monotonic() > end or lock_file.likely(home) is None:
                raise


def _started(home: str, environ: Mapping[str, str], end: float) -> str:
    """What it said: `ok`, `held WHO`, `failed WHY`; empty: it ended without a word."""
    ours, its = os.pipe()
    try:
        try:
            _spawn(home, environ, its)
        finally:
            os.close(its)
        said = b""
        while not said.endswith(b"\n"):
            ready, _, _ = select.select([ours], [], [], max(0.0, end - time.monotonic()))
            if not ready:
                raise StartFailed("the daemon did not start in time", "agentctl daemon logs")
            got = os.read(ours, 4096)
            if not got:
                break
            said += got
        return said.decode("utf-8", "replace").strip()
    finally:
        os.close(ours)


def _spawn(home: str, environ: Mapping[str, str], ready: int) -> None:
    """By way of a child that ends at once, so that the daemon is nobody's child: a verb that stays for
    hours would keep its remains."""
    log = f"{home}/{LOG}"
    try:
        make_private(log)
    except OSError as error:
        raise translated(error, log) from error
    its = max(ready, 2) + 1
    append = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    actions = [
        (os.POSIX_SPAWN_DUP2, ready, its),
        (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
        (os.POSIX_SPAWN_OPEN, 1, log, append, 0o600),
        (os.POSIX_SPAWN_DUP2, 1, 2),
    ]
    argv, given = programs.daemon("--ready", str(its)), surroundings(environ)
    middle = os.fork()
    if middle == 0:
        try:
            os.posix_spawn(
                argv[0],
                argv,
                given,
                file_actions=actions,
                setsid=True,  # closing the terminal ends nothing
                setsigmask=(),
                setsigdef=programs.ALL_SIGNALS,
            )
        except OSError as error:
            os._exit(error.errno or 1)
        finally:
            os._exit(0)
    _, status = os.waitpid(middle, 0)
    code = os.waitstatus_to_exitcode(status)
    if code > 0:
        raise StartFailed(f"the daemon could not be started: {argv[0]}: {os.strerror(code)}")


def _last_words(home: str) -> tuple[str, ...]:
    try:
        said = files.tail(f"{home}/{LOG}").data.decode("utf-8", "replace")
    except SourceError:
        return ()
    return tuple(said.splitlines()[-3:])
