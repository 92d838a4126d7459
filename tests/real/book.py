"""What is true of each actor, and since when: the driver's word, because it wrote the script.

A scenario *declares* what is true (`State`); each watcher decides what that means. A test waits until
agentctl says the same (`asserting.py`), the benchmark samples it meanwhile (`accuracy/`).
"""

from typing import NamedTuple, Protocol

from agentctl.system.proc import ProcessIdentity


class State(NamedTuple):
    """One thing that is true from now on."""

    status: str  # running, waiting, idle, stopped
    waiting_for: str | None = None  # permission, question, startup; None: not compared
    outcome: str | None = None  # of a stopped session; None: not compared
    blind: str = ""  # why nothing outside the agent can tell; it is then reported apart


class Who(NamedTuple):
    """The actor that it is true of. A row is its own by session id if that is known, else by process."""

    name: str  # of the actor, within its scenario
    adapter: str
    process: ProcessIdentity | None
    session_id: str | None


class Watcher(Protocol):
    def unsettled(self, who: Who, at: float) -> None:
        """Something was just done to the actor: until the next state, the old and the new are right."""

    def declare(self, who: Who, now: State, since: float) -> None:
        """This state is true from `since` until the next one."""

    def record_end(self, who: Who, at: float) -> None:
        """The kernel ended its process at that time. Called at once, before any state of its session."""
