"""End the daemon of a home: ask it, and if it does not answer, signal the process that, by the kernel's
word, holds the lock. The kernel also says whether it has ended."""

from __future__ import annotations

import signal
import time

from agentctl.daemon_client import lock_file
from agentctl.daemon_client.client import Client
from agentctl.daemon_client.lock_file import Holder
from agentctl.errors import Fault, Gone, NotFound, Refused, TimedOut, Unreachable
from agentctl.light_typing import NamedTuple
from agentctl.system import proc
from agentctl.system.pidfd import Handle
from agentctl.system.proc import ProcessIdentity

PATIENCE = 3.0  # seconds for an answer
GRACE = 5.0  # seconds to end in; it takes two
BEAT = 0.05  # seconds between two looks at the file that a daemon in another container empties


class StoppedDaemon(NamedTuple):
    pid: int
    version: str
    how: str  # asked, SIGTERM, SIGKILL


def stop_daemon(
    home: str, *, force: bool = False, patience: float = PATIENCE, grace: float = GRACE
) -> StoppedDaemon:
    """Raise NotFound if no daemon runs, Refused if none can be proven to be it, TimedOut."""
    try:
        return _ask(home, patience, grace)
    except (Unreachable, Fault) as error:  # no connection, or no answer
        holder = lock_file.find_proven(home)
        if holder is None:
            raise _explain(home, error) from error
        return _signal(holder, grace, force=force)
    except TimedOut:
        holder = lock_file.find_proven(home)
        if holder is None or not force:
            raise
        return _signal(holder, grace, force=True)


def _ask(home: str, patience: float, grace: float) -> StoppedDaemon:
    """Open a handle before asking: right after, the pid may be another process's."""
    with Client(home, patience) as client:
        hello = client.hello()
        daemon = StoppedDaemon(hello.pid, hello.version, "asked")
        try:
            handle = Handle(ProcessIdentity(proc.read_boot_id(), hello.pid, hello.start))
        except Gone:  # the daemon runs in another container
            client.call("shutdown")
            _wait_until_empty(home, hello.pid, grace)
            return daemon
        with handle:
            client.call("shutdown")
            if not handle.wait(grace):
                raise _timed_out(daemon.pid, grace)
    return daemon


def _wait_until_empty(home: str, pid: int, grace: float) -> None:
    deadline = time.monotonic() + grace
    while lock_file.read_holder(home) is not None:
        if time.monotonic() > deadline:
            raise _timed_out(pid, grace)
        time.sleep(BEAT)


def _signal(holder: Holder, grace: float, *, force: bool) -> StoppedDaemon:
    pid = holder.identity.pid
    try:
        with Handle(holder.identity) as handle:
            for number in (signal.SIGTERM, signal.SIGKILL) if force else (signal.SIGTERM,):
                handle.signal(number)
                process = proc.find_process(holder.identity)
                if process is not None and process.state in "Tt":  # suspended: only SIGKILL acts
                    handle.signal(signal.SIGCONT)
                if handle.wait(grace):
                    return StoppedDaemon(pid, holder.version, number.name)
    except Gone:  # ended by itself, just now
        return StoppedDaemon(pid, holder.version, "asked")
    raise _timed_out(pid, grace)


def _timed_out(pid: int, grace: float) -> TimedOut:
    return TimedOut(
        f"the daemon, pid {pid}, has not ended within {grace:g} s", "agentctl daemon stop --force"
    )


def _explain(home: str, error: Exception) -> NotFound | Refused:
    holder = lock_file.read_holder(home)
    if holder is not None and holder.is_foreign:
        return Refused(f"the daemon of {home} does not answer: {holder.label}", "stop it from there")
    if isinstance(error, Fault):
        return Refused(f"the daemon refuses: {error}")
    return NotFound(f"no daemon runs for {home}")
