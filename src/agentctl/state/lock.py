"""A lock on a directory, and whether it is held: asked of the kernel or the clock at the moment of
asking, never stored. A dead owner is a free directory, and nobody has to clean up."""

from __future__ import annotations

import time
from typing import NamedTuple

from agentctl.system import proc
from agentctl.system.identity import ProcessIdentity


class Lock(NamedTuple):
    directory: str  # its real path
    launch_id: str  # empty: a person's own
    identity: ProcessIdentity | None  # whose life it ends with; None: a person's own
    namespace: str | None  # of pids, that the identity belongs to
    by: str | None
    reason: str | None
    created_at: float
    expires_at: float | None
    session_id: str | None = None  # of the launch, where that is known
    name: str | None = None
    noted: bool = True  # False: our note of the launch was deleted, and its shim tells of it

    @property
    def held(self) -> bool:
        if self.identity is None:
            return self.expires_at is None or self.expires_at > time.time()
        if self.foreign:  # absent is not dead: for all we know, it lives
            return True
        process = proc.current(self.identity)
        return process is not None and process.alive

    @property
    def foreign(self) -> bool:
        """Whether its owner is where we cannot look."""
        return self.identity is not None and proc.elsewhere(self.identity, self.namespace)

    @property
    def holder(self) -> str:
        """Who it is, for people."""
        if self.identity is None:
            return (self.by or "a person") + (f" ({self.reason})" if self.reason else "")
        who = f"session {self.session_id}" if self.session_id else f"launch {self.launch_id}"
        named = f" ({self.name})" if self.name else ""
        place = " in another container" if self.foreign else ""
        return f"{who}{named}, pid {self.identity.pid}{place}"
