"""What is true of each actor, and since when: the driver's word, because it wrote the script.

A scenario *declares* what is true (`Told`); who listens decides what that means. A test waits until
agentctl says the same (`asserting.py`), the benchmark samples it meanwhile (`accuracy/`).
"""

from typing import NamedTuple, Protocol

from agentctl.system.identity import ProcessIdentity


class Told(NamedTuple):
    """One thing that is true from now on."""

    status: str  # running, waiting, idle, stopped
    waiting_for: str | None = None  # permission, question, startup; None: not looked at
    outcome: str | None = None  # of a stopped one; None: not looked at
    blind: str = ""  # why nothing outside the agent can tell; it is then reported apart


class Who(NamedTuple):
    """Whom it is true of. A row is theirs by session id if that is known, else by process."""

    name: str  # of the actor, within its scenario
    adapter: str
    process: ProcessIdentity | None
    session_id: str | None


class Watcher(Protocol):
    def unsettled(self, who: Who, at: float) -> None:
        """Something was just done to it: until the next word, the old and the new may both be said."""

    def told(self, who: Who, now: Told, since: float) -> None:
        """True since then, until told otherwise."""

    def ended(self, who: Who, at: float) -> None:
        """The kernel ended its process at that time. Heard at once, before any word on its session."""
