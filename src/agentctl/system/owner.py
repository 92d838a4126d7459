"""A process that owns something we have stored, and whether it may still live.

A stored pid means nothing without its boot and start tick, and nothing outside its pid namespace.
Absence proves death only in our own namespace.
"""

from __future__ import annotations

from agentctl.light_typing import NamedTuple
from agentctl.system import proc
from agentctl.system.proc import ProcessIdentity


class Owner(NamedTuple):
    identity: ProcessIdentity
    # the pid namespace of the identity; "": it could not be read; None: ours, by an older agentctl
    namespace: str | None

    @property
    def is_foreign(self) -> bool:
        """Return True if the process may live where we cannot look, as in another container."""
        return proc.may_be_elsewhere(self.identity, self.namespace)

    @property
    def may_live(self) -> bool:
        """Return False only if the process is proven gone."""
        if self.is_foreign:
            return True
        process = proc.find_process(self.identity)
        return process is not None and process.is_alive
