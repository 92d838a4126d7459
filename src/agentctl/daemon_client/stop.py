"""Ends the daemon of a home: asks it, and if it does not answer, signals the one process that the kernel
says holds the lock. Whether it has ended is the kernel's word, too."""

from __future__ import annotations

import signal
import time
from typing import NamedTuple

from agentctl.daemon_client import lock_file
from agentctl.daemon_client.client import Client
from agentctl.daemon_client.lock_file import Holder
from agentctl.errors import Fault, Gone, NotFound, Refused, TimedOut, Unreachable
from agentctl.system import proc
from agentctl.system.identity import ProcessIdentity
from agentctl.system.pidfd import Handle

PATIENCE = 3.0  # seconds for an answer
GRACE = 5.0  # seconds to end in; it takes two
BEAT = 0.05  # seconds between two looks at a file that a daemon in another container empties


class Ended(NamedTuple):
    pid: int
    version: str
    how: str  # asked, SIGTERM, SIGKILL


def end(home: str, *, force: bool = False, patience: float = PATIENCE, grace: float = GRACE) -> Ended:
    """Raises NotFound where none runs, Refused where nobody can be shown to be it, TimedOut."""
    try:
        return _asked(home, patience, grace)
    except (Unreachable, Fault) as error:  # nobody listens, or nobody answers
        found = lock_file.proven(home)
        if found is None:
            raise _nobody(home, error) from error
        return _signalled(found, grace, force=force)
    except TimedOut:
        found = lock_file.proven(home)
        if found is None or not force:
            raise
        return _signalled(found, grace, force=True)


def _asked(home: str, patience: float, grace: float) -> Ended:
    """Its handle is opened before it is asked: its pid may be another's right after."""
    with Client(home, patience) as client:
        told = client.hello()
        ended = Ended(told.pid, told.version, "asked")
        try:
            handle = Handle(ProcessIdentity(proc.boot_id(), told.pid, told.start))
        except Gone:  # it runs in another container
            client.call("shutdown")
            return _emptied(home, ended, grace)
        with handle:
            client.call("shutdown")
            if not handle.wait(grace):
                raise _late(ended.pid, grace)
    return ended


def _emptied(home: str, ended: Ended, grace: float) -> Ended:
    deadline = time.monotonic() + grace
    while lock_file.told(home) is not None:
        if time.monotonic() > deadline:
            raise _late(ended.pid, grace)
        time.sleep(BEAT)
    return ended


def _signalled(found: Holder, grace: float, *, force: bool) -> Ended:
    try:
        with Handle(found.identity) as handle:
            for number in (signal.SIGTERM, signal.SIGKILL) if force else (signal.SIGTERM,):
                handle.signal(number)
                process = proc.current(found.identity)
                if process is not None and process.state in "Tt":  # suspended: it acts on none but KILL
                    handle.signal(signal.SIGCONT)
                if handle.wait(grace):
                    return Ended(found.identity.pid, found.version, number.name)
    except Gone:  # by itself, just now
        return Ended(found.identity.pid, found.version, "asked")
    raise _late(found.identity.pid, grace)


def _late(pid: int, grace: float) -> TimedOut:
    return TimedOut(
        f"the daemon, pid {pid}, has not ended within {grace:g} s", "agentctl daemon stop --force"
    )


def _nobody(home: str, error: Exception) -> NotFound | Refused:
    named = lock_file.told(home)
    if named is not None and named.foreign:
        return Refused(f"the daemon of {home} does not answer: {named.named}", "stop it from there")
    if isinstance(error, Fault):
        return Refused(f"the daemon refuses: {error}")
    return NotFound(f"no daemon runs for {home}")
