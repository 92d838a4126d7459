"""What an adapter is. docs/adapters/write-one.md tells how to write one; `demo.py` is the example.

An adapter translates. It starts nothing, signals nothing, sleeps never, reads only through
`system.files`, `system.jsonl` and `system.sqlite`, and says nothing about alive or dead except by
handing over what `bind` and `look.unowned` concluded.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, cast

from agentctl.system.proc import Process
from agentctl.truth.look import Look
from agentctl.truth.model import Message, Observation
from agentctl.truth.survey import Wanted

if TYPE_CHECKING:
    from agentctl.adapters.plans import Command, LaunchRequest, StopPlan

__all__ = ["Adapter", "Foreseeing", "Place", "Recognising", "Starting", "Wanted"]


class Place(NamedTuple):
    """Where an agent keeps files, for `doctor`."""

    what: str  # "transcripts", "registry", "database"
    path: str
    optional: bool = True  # absent is normal: the agent was never run


class Adapter(Protocol):
    """Reading may happen in another thread than the main one. What starts and stops is described, not
    done, and imported only when asked for: `list` pays for nothing it does not use."""

    name: str  # "claude-code"
    comms: frozenset[str]  # names its processes may have in /proc/PID/stat; more is better than fewer
    binary: str  # the command a person types
    permission_modes: tuple[str, ...]  # words that `launch --permission-mode` takes for it

    def owns(self, process: Process) -> bool:
        """Is this one of mine? Judge by exe and argv: names are shared by strangers."""
        ...

    def live(self, look: Look) -> Iterable[Observation]:
        """Sessions run by `look.owned`. A process left out is listed as running, activity unknown;
        `look.set_aside` keeps a helper process from being listed."""
        ...

    def history(self, look: Look, wanted: Wanted) -> Iterable[Observation]:
        """Sessions on disk that `wanted` asks for. Those already found live may come again."""
        ...

    def messages(self, seen: Observation, look: Look) -> Iterator[Message]:
        """What was said in it, newest first, read lazily from the end."""
        ...

    def places(self, look: Look) -> Iterable[Place]:
        """Where this agent's files are, by our environment and by each live process's own. Stale
        native files are told with `look.problem("stale", …)`; nothing is ever deleted."""
        ...

    def launch(self, request: LaunchRequest) -> Command:
        """How to start it, headless, on this prompt. Raises UsageError for what it cannot do."""
        ...

    def resume(self, seen: Observation, request: LaunchRequest) -> Command:
        """How to go on with an ended session: same id, its own directory."""
        ...

    def stop_plan(self, seen: Observation) -> StopPlan: ...


class Foreseeing(Protocol):
    """What an adapter may have besides, so that the daemon is woken by the first sign of a session and
    need not look for it now and then. Or `works_unseen = True`, if its idle sessions may begin to work
    without a change of any file: then the daemon looks when one has written to its terminal."""

    def signs(self, seen: Observation, look: Look) -> Iterable[str]:
        """Files that will change, or come, when this live process of ours begins a session or writes
        its first line: `directory/*` for whatever changes in a directory. Asked only of one that has
        no transcript yet, or of which no source tells what it does; `seen.owner` is its process."""
        ...


class Recognising(Protocol):
    """What an adapter may have besides, if the agent's files prove which processes are its own."""

    def recognised(self, look: Look) -> Iterable[Process]:
        """Live processes that a validated record or a lock names, under any name."""
        ...


class Starting:
    """The control side of an adapter that describes it in a module of its own (`launch`, `resume` and
    `stop_plan`), which is imported when it is asked for and not before."""

    start: str  # "agentctl.adapters.pi.start"

    def launch(self, request: LaunchRequest) -> Command:
        return cast("Command", self._described().launch(request))

    def resume(self, seen: Observation, request: LaunchRequest) -> Command:
        return cast("Command", self._described().resume(seen, request))

    def stop_plan(self, seen: Observation) -> StopPlan:
        return cast("StopPlan", self._described().stop_plan(seen))

    def _described(self) -> Any:
        return __import__(self.start, fromlist=["launch"])
