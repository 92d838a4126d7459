"""What an adapter says about starting, resuming and stopping its agent.

An adapter only describes; `launch/` and `stop/` do the work. `list` never imports this module.
"""

from __future__ import annotations

import os
from signal import SIGINT, SIGTERM, Signals

from agentctl.adapters.roots import find_root
from agentctl.errors import Refused, UsageError
from agentctl.light_typing import TYPE_CHECKING, Callable, Iterator, Mapping, NamedTuple

if TYPE_CHECKING:
    from agentctl.truth.model import Observation

# Return the session's id if this line of the agent's output or error stream names it.
ReadId = Callable[[bytes], str | None]
SYSTEM_PROMPT = "system-prompt"  # the usual name of the file with the text to append


class LaunchRequest(NamedTuple):
    """What the user asks for, the same for every agent."""

    prompt: str
    cwd: str  # absolute, and it exists
    environ: Mapping[str, str]  # what the agent will get
    model: str | None = None
    name: str | None = None
    system_prompt: str | None = None  # text to append to the agent's own
    permission_mode: str | None = None  # one of the adapter's; None: the agent's default
    native: tuple[str, ...] = ()  # words to pass through to the agent
    folder: str = ""  # the launch folder, where `Command.files` will be

    def native_words(self, reserved: frozenset[str]) -> Iterator[str]:
        """Yield the native words. Raises UsageError for a reserved option: agentctl sets or omits it."""
        for word in self.native:
            option = word.partition("=")[0]
            if option in reserved:
                raise UsageError(
                    f"{option} cannot be passed through: agentctl decides it",
                    "remove it from the words after --",
                )
            yield word

    def prompt_bytes(self) -> bytes:
        return _encode(self.prompt)

    def system_prompt_path(self, name: str = SYSTEM_PROMPT) -> str:
        return f"{self.folder}/{name}"

    def system_prompt_files(self, name: str = SYSTEM_PROMPT) -> tuple[tuple[str, bytes], ...]:
        """Return the `Command.files` for a system prompt. A file has no length limit, and only the
        user can read it; arguments show in `ps`."""
        return () if self.system_prompt is None else ((name, _encode(self.system_prompt)),)


class Command(NamedTuple):
    """How to start the agent once."""

    argv: tuple[str, ...]  # argv[0] is a path, or a name to look up
    cwd: str
    stdin: bytes = b""  # the agent's whole standard input
    set: tuple[tuple[str, str], ...] = ()  # environment variables beyond those of the request
    unset: tuple[str, ...] = ()
    session_id: str | None = None  # if known before the start: chosen by us, or resumed
    read_id: ReadId | None = None  # else: how to read it from the output
    files: tuple[tuple[str, bytes], ...] = ()  # name and content, to write into `request.folder`
    # Seconds within which a start that cannot work fails: no login, unknown model. Measured with the
    # agent. `launch` watches for that long after the id is known.
    settle_time: float = 0.0
    # The id of the resumed session, if the agent may open another one instead (an unknown name). The
    # launch fails unless `read_id` returns the same.
    expected_id: str | None = None
    # Environment variables that extend values of the request's environment. They win over values that
    # the user sets with --env.
    override: tuple[tuple[str, str], ...] = ()
    # A file that the agent creates on its first start, if two first starts at once would fail. Launches
    # wait for each other until the file exists.
    creates: str | None = None


class StopPlan(NamedTuple):
    """How to stop the agent: signals to its process, each with the seconds that it may take. After the
    last one, `stop` sends KILL by itself and ends the processes that the agent left behind."""

    signals: tuple[tuple[Signals, float], ...] = ((SIGINT, 5.0), (SIGTERM, 5.0))
    # Variables and values in the environment of the agent's tools. They find tools that outlived the
    # agent. The value must be unique to the session: a pid is not.
    markers: tuple[tuple[str, str], ...] = ()
    refusal: str = ""  # why signals must not stop it, if so (a supervisor starts it again)
    instead: str = ""  # what to do instead
    # Variables in which the agent's tools find its pid. Compared only within the agent's pid namespace:
    # each container counts its pids from 1.
    pid_markers: tuple[str, ...] = ()


def resume_directory(observation: Observation, request: LaunchRequest) -> str:
    """Return the directory of the session to resume. Raises Refused if it does not exist."""
    cwd = observation.facts.cwd or request.cwd
    if not os.path.isdir(cwd):
        raise Refused(f"the session's directory is gone: {cwd}", "create it, or start a new session")
    return cwd


def resume_root(
    observation: Observation, request: LaunchRequest, root: tuple[str, ...], folder: str
) -> tuple[tuple[str, str], ...]:
    """Return the `Command.set` for a session below another root than that of the request's environment.
    `root` is the agent's ROOT, `folder` the directory of its transcripts: "/sessions/"."""
    directory, below, _ = (observation.transcript or "").partition(folder)
    is_elsewhere = bool(below) and directory != find_root(request.environ, root)
    return ((root[0], directory),) if is_elsewhere else ()


def _encode(text: str) -> bytes:
    return text.encode(errors="surrogateescape")
