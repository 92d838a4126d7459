"""The protocol of an adapter. docs/adapters/write-one.md describes how to write one; `demo/` is the
example, and `api` the import for authors.

An adapter translates. It starts nothing, signals nothing, never sleeps, and reads only through
`system.files`, `system.jsonl` and `system.sqlite`. Whether a process lives is decided by `bind` and
`look.find_evidence_without_owner`; an adapter passes their evidence on.
"""

from __future__ import annotations

from agentctl.light_typing import TYPE_CHECKING, Any, Iterable, Iterator, NamedTuple, Protocol, cast
from agentctl.system.proc import Process
from agentctl.truth.look import Look
from agentctl.truth.model import Message, Observation
from agentctl.truth.survey import HistoryQuery

if TYPE_CHECKING:
    from agentctl.adapters.plans import Command, LaunchRequest, StopPlan

__all__ = ["Adapter", "FirstFiles", "HistoryQuery", "Place", "Recognizer", "StartModule"]


class Place(NamedTuple):
    """Where an agent keeps files, for `doctor`."""

    what: str  # "transcripts", "registry", "database"
    path: str
    optional: bool = True  # absent is normal: the agent was never run


class Adapter(Protocol):
    """An adapter may be called in another thread than the main one. `launch`, `resume` and `stop_plan`
    only describe; import what they need inside them, so that `list` does not pay for it."""

    api: int  # 1: the number of the protocol that the adapter is written for
    name: str  # "claude-code"
    comms: frozenset[str]  # names its processes may have in /proc/PID/stat; more is better than fewer
    binary: str  # the command that the user types
    permission_modes: tuple[str, ...]  # values of `launch --permission-mode`

    def owns(self, process: Process) -> bool:
        """Return True for a process of this agent. Decide by exe and argv: other programs share names.
        May raise SourceError."""

    def live(self, look: Look) -> Iterable[Observation]:
        """Yield the sessions that `look.own_processes` run. A process without an observation is listed
        as running, activity unknown; `look.exclude_process` keeps a helper process out of the list."""

    def history(self, look: Look, query: HistoryQuery) -> Iterable[Observation]:
        """Yield the sessions on disk that match the query. Live sessions may be among them."""

    def messages(self, observation: Observation, look: Look) -> Iterator[Message]:
        """Yield the messages of a session, newest first. Read lazily, from the end."""

    def places(self, look: Look) -> Iterable[Place]:
        """Yield where this agent's files are, by our environment and by that of each live process.
        Report stale files with `look.report_problem("stale", …)`; never delete one."""

    def launch(self, request: LaunchRequest) -> Command:
        """Return how to start the agent, headless, with a prompt. Raises UsageError for an option that
        the agent does not have."""

    def resume(self, observation: Observation, request: LaunchRequest) -> Command:
        """Return how to continue an ended session under the same id, in its own directory. Raises
        Refused if that is impossible, and UsageError."""

    def stop_plan(self, observation: Observation) -> StopPlan:
        """Return how to stop the session's process."""


class FirstFiles(Protocol):
    """An optional part of an adapter: the daemon then wakes at the first trace of a session, instead of
    looking at intervals. Set `works_unseen = True` if an idle session may begin to work without changing
    a file: the daemon then looks when the session's terminal is written to."""

    def signs(self, observation: Observation, look: Look) -> Iterable[str]:
        """Yield the files that change, or appear, when a live process begins a session or writes its
        first line: `directory/*` for any change in a directory. Asked only for an observation without a
        transcript or without an activity; `observation.owner` is the process."""


class Recognizer(Protocol):
    """An optional part of an adapter, if the agent's files prove which processes are its own."""

    def recognize(self, look: Look) -> Iterable[Process]:
        """Yield live processes, under any name, that a validated record or a lock names."""


class StartModule:
    """An adapter whose `launch`, `resume` and `stop_plan` are functions of another module, which is
    imported only when one of them is called."""

    start: str  # "agentctl.adapters.pi.start"

    def launch(self, request: LaunchRequest) -> Command:
        return cast("Command", self._module().launch(request))

    def resume(self, observation: Observation, request: LaunchRequest) -> Command:
        return cast("Command", self._module().resume(observation, request))

    def stop_plan(self, observation: Observation) -> StopPlan:
        return cast("StopPlan", self._module().stop_plan(observation))

    def _module(self) -> Any:
        return __import__(self.start, fromlist=["launch"])
