"""What an adapter says of starting, resuming and stopping its agent. Described here, done in
`launch/` and `stop/`: an adapter starts nothing itself. Never imported on the hot path.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from signal import SIGINT, SIGTERM, Signals
from typing import NamedTuple

from agentctl.errors import UsageError

# Reads the session's id from one line that the agent wrote to its output or error stream; None: this
# line does not tell.
Announced = Callable[[bytes], str | None]


class LaunchRequest(NamedTuple):
    """What a person asks for, whatever the agent."""

    prompt: str
    cwd: str  # absolute, and it exists
    environ: Mapping[str, str]  # what the agent is going to get
    model: str | None = None
    name: str | None = None
    system_prompt: str | None = None  # to be appended to the agent's own
    permission_mode: str | None = None  # one of the adapter's; None: the agent's own default
    native: tuple[str, ...] = ()  # words for the agent itself, passed through
    folder: str = ""  # where `Command.files` are going to be

    def passed_on(self, ours: frozenset[str]) -> Iterator[str]:
        """The native words. Raises UsageError for an option that is `ours` to give, or to leave out."""
        for word in self.native:
            option = word.partition("=")[0]
            if option in ours:
                raise UsageError(
                    f"{option} is not for you to give",
                    "agentctl tells the agent where to work, and on what",
                )
            yield word


class Command(NamedTuple):
    """One start, described and not started."""

    argv: tuple[str, ...]  # argv[0] is a name to be looked up, or a path
    cwd: str
    stdin: bytes = b""  # all that the agent reads there; then comes its end
    set: tuple[tuple[str, str], ...] = ()  # environment variables beyond those of the request
    unset: tuple[str, ...] = ()
    session_id: str | None = None  # known before it starts: chosen by us, or resumed
    announced: Announced | None = None  # else: how it tells
    files: tuple[tuple[str, bytes], ...] = ()  # to be written into the request's folder, by name
    # Seconds within which a start that cannot work shows: no login, no such model. Known from watching
    # the agent; `launch` stays that long after the id is told.
    settles: float = 0.0
    # A resumed session's id, if the agent could open another one instead (an unknown name): the
    # announcement must say the same.
    expected: str | None = None
    # Environment variables made of what the request has there, and so to stand in its place, whoever
    # set that.
    extended: tuple[tuple[str, str], ...] = ()
    # A file that the agent makes on its first start, if a second one that starts meanwhile would fail:
    # the launches wait for each other until it is there.
    creates: str | None = None


class StopPlan(NamedTuple):
    """How this agent is ended: signals to its own process, each with the seconds it may take. KILL
    comes last by itself, and then the processes it has left behind."""

    signals: tuple[tuple[Signals, float], ...] = ((SIGINT, 5.0), (SIGTERM, 5.0))
    # Names and values in the environment of its tools' processes. They find those that outlived it
    # and have another parent by now. No two sessions may have the same: a pid is not such a value.
    markers: tuple[tuple[str, str], ...] = ()
    refusal: str = ""  # why it must not be ended by signals, if so (a supervisor starts it again)
    instead: str = ""  # and what to do instead
    # Names of variables in which its tools find its pid. The number is compared only with tools in its
    # own pid namespace: in each container the pids begin at 1 again.
    pid_markers: tuple[str, ...] = ()
