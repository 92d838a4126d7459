"""Start the daemon if a command needs it, unless the settings forbid it.

Several processes may start it at once: one daemon runs, and each gets a connection to it. A process
that finds the lock held waits for the daemon that holds it.
"""

from __future__ import annotations

import os
import select
import time

from agentctl import paths
from agentctl.adapters.environment import scrub
from agentctl.config import settings
from agentctl.daemon_client import client, lock_file
from agentctl.daemon_client.client import Client
from agentctl.errors import NoDaemon, SourceError, StartFailed
from agentctl.light_typing import Mapping, NoReturn
from agentctl.process import ours as programs
from agentctl.system import files
from agentctl.system.files import translate_error
from agentctl.system.permissions import check_home, make_private

OFF = "AGENTCTL_NO_DAEMON"
LOG = "daemon.log"
DEADLINE = 15.0  # seconds, until the daemon answers
BEAT = 0.02  # seconds between two tries to reach a daemon that another process has started
# Variables that a supervisor sets for the process that it has started; the daemon is not that process.
_SUPERVISOR = ("NOTIFY_SOCKET", "LISTEN_FDS", "LISTEN_PID", "LISTEN_FDNAMES", "WATCHDOG_PID",
               "WATCHDOG_USEC", "INVOCATION_ID", "JOURNAL_STREAM")  # fmt: skip


def find_home(environ: Mapping[str, str]) -> str:
    """Return the state directory. Raises Unreachable if there is none."""
    return paths.require_state_directory(environ)


def may_start(environ: Mapping[str, str]) -> bool:
    return environ.get(OFF, "") in ("", "0")


def ensure_daemon(environ: Mapping[str, str], *, no_daemon: bool = False) -> Client:
    """Connect to the daemon of this home; start it if need be. Raises NoDaemon if none runs and none may
    be started, Unreachable if it does not answer, StartFailed."""
    home = find_home(environ)
    try:
        return client.connect(home)
    except NoDaemon as error:
        setting = "--no-daemon" if no_daemon else _forbidding_setting(environ)
        if setting is not None:
            raise NoDaemon(
                f"this needs the daemon; none runs for {home}, and {setting} says not to start one",
                "agentctl daemon start",
            ) from error
    return start_daemon(environ)


def _forbidding_setting(environ: Mapping[str, str]) -> str | None:
    """Return the setting that forbids a start. Raises UsageError for invalid settings."""
    if not may_start(environ):
        return f"{OFF}={environ.get(OFF)}"
    auto = settings.load(environ).daemon.auto
    return None if auto.value else f"daemon.auto ({auto.where})"


def start_daemon(environ: Mapping[str, str], deadline: float = DEADLINE) -> Client:
    """Start the daemon and connect to it, also if AGENTCTL_NO_DAEMON is set. Raises StartFailed."""
    home, end = find_home(environ), time.monotonic() + deadline
    check_home(home)
    while True:
        word, _, why = _run_daemon(home, environ, end).partition(" ")
        if word == "failed":
            raise StartFailed(f"the daemon did not start: {why}", "agentctl daemon logs")
        if word not in ("ok", "held"):
            raise StartFailed("the daemon ended at once", "agentctl daemon logs", _last_lines(home))
        try:
            return _connect(home, end)
        except NoDaemon as error:  # the daemon that held the lock was about to end
            if time.monotonic() > end:
                raise StartFailed(
                    f"the daemon does not answer within {deadline:g} s" + (f": {why}" if why else ""),
                    "agentctl daemon logs",
                ) from error


def become_daemon(environ: Mapping[str, str]) -> NoReturn:
    """Replace this process by the daemon. Raises StartFailed."""
    argv = programs.daemon_command()
    try:
        os.execve(argv[0], argv, daemon_environment(environ, supervised=True))
    except OSError as error:
        raise StartFailed(f"{argv[0]}: {error.strerror}") from error


def daemon_environment(environ: Mapping[str, str], *, supervised: bool = False) -> dict[str, str]:
    """Return the daemon's environment: without the variables of an agent that has called us.
    `supervised`: it replaces this process under the same supervisor."""
    variables, _ = scrub(environ)
    if variables.get("AGENTCTL_HOME"):
        variables["AGENTCTL_HOME"] = find_home(environ)  # absolute: the daemon has another directory
    return {name: variables[name] for name in variables if supervised or name not in _SUPERVISOR}


def _connect(home: str, end: float) -> Client:
    """Wait for a daemon that has just taken the lock. Raises NoDaemon if it has released the lock."""
    while True:
        try:
            return client.connect(home, max(0.1, end - time.monotonic()))
        except NoDaemon:
            time.sleep(BEAT)
            if time.monotonic() > end or lock_file.find_likely(home) is None:
                raise


def _run_daemon(home: str, environ: Mapping[str, str], end: float) -> str:
    """Return the daemon's report: `ok`, `held WHO`, `failed WHY`; empty: it ended without one."""
    reading, writing = os.pipe()
    try:
        try:
            _spawn(home, environ, writing)
        finally:
            os.close(writing)
        report = b""
        while not report.endswith(b"\n"):
            ready, _, _ = select.select([reading], [], [], max(0.0, end - time.monotonic()))
            if not ready:
                raise StartFailed("the daemon did not start in time", "agentctl daemon logs")
            data = os.read(reading, 4096)
            if not data:
                break
            report += data
        return report.decode("utf-8", "replace").strip()
    finally:
        os.close(reading)


def _spawn(home: str, environ: Mapping[str, str], ready: int) -> None:
    """Spawn the daemon from a child that ends at once, so that it is not our child: a command that runs
    for hours would keep a dead daemon as a zombie."""
    log = f"{home}/{LOG}"
    try:
        make_private(log)
    except OSError as error:
        raise translate_error(error, log) from error
    ready_fd = max(ready, 2) + 1  # in the daemon
    append = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    actions = [
        (os.POSIX_SPAWN_DUP2, ready, ready_fd),
        (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
        (os.POSIX_SPAWN_OPEN, 1, log, append, 0o600),
        (os.POSIX_SPAWN_DUP2, 1, 2),
    ]
    argv, variables = programs.daemon_command("--ready", str(ready_fd)), daemon_environment(environ)
    middle = os.fork()
    if middle == 0:
        try:
            os.posix_spawn(
                argv[0],
                argv,
                variables,
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


def _last_lines(home: str) -> tuple[str, ...]:
    try:
        text = files.read_tail(f"{home}/{LOG}").data.decode("utf-8", "replace")
    except SourceError:
        return ()
    return tuple(text.splitlines()[-3:])
