"""How to start, resume and stop Pi.

`pi --mode json -p` reads the prompt from standard input and changes only the white space around it.
An argument that begins with "@" would name a file, one that begins with "-" an option, and the kernel
limits it to 128 KiB. In JSON mode every version prints the session's id first; 0.73 has no file before
its first answer is complete, and takes no id from us. The exit code is 0 even if the model refused: the
session file records how a turn ended.
"""

from __future__ import annotations

from signal import SIGTERM

from agentctl.adapters.plans import Command, LaunchRequest, StopPlan, resume_directory
from agentctl.errors import Refused
from agentctl.light_typing import Iterator
from agentctl.system import jsonl
from agentctl.system.jsonl import as_text
from agentctl.truth.model import Observation

# These options would make Pi run another session than the expected one, or hide which one it runs.
RESERVED = frozenset({
    "--mode", "--session", "--session-id", "--continue", "-c", "--resume", "-r", "--fork",
    "--no-session",
})  # fmt: skip


def launch(request: LaunchRequest) -> Command:
    return _command((), request)


def resume(observation: Observation, request: LaunchRequest) -> Command:
    """Return the command that continues the session's file. With an id, in another directory, Pi would
    ask whether to copy the session, get no answer and exit with 0. For a file that is gone, Pi would
    begin a new session."""
    session_id = observation.session_id or ""
    if observation.transcript is None:
        raise Refused(f"{session_id} has no transcript to resume from", "start a new session")
    request = request._replace(cwd=resume_directory(observation, request))
    command = _command(("--session", observation.transcript), request)
    return command._replace(expected_id=session_id)


def _command(session_option: tuple[str, ...], request: LaunchRequest) -> Command:
    return Command(
        argv=("pi", "--mode", "json", "-p", *session_option, *_options(request)),
        cwd=request.cwd,
        stdin=request.prompt_bytes(),
        read_id=Announcement(),
        files=request.system_prompt_files(),
    )


def stop_plan(observation: Observation) -> StopPlan:
    """At SIGTERM Pi ends its tools and exits with 143. SIGINT kills Pi and leaves its tools running. Pi
    records neither."""
    session_id = observation.session_id
    markers = (("PI_SESSION_ID", session_id),) if session_id else ()  # since 0.82
    return StopPlan(((SIGTERM, 5.0),), markers)


class Announcement:
    """Reads the id from `{"type":"session","id":"…"}`, and returns it at the next event. Without a key
    for its model Pi prints the id, too, and exits before the next event."""

    def __init__(self) -> None:
        self._id: str | None = None

    def __call__(self, line: bytes) -> str | None:
        if not line.startswith(b'{"type":"'):  # a warning, or output of an extension
            return None
        if self._id is not None:
            return self._id
        event = jsonl.parse_record(line) or {}
        self._id = as_text(event.get("id")) if event.get("type") == "session" else None
        return None


def _options(request: LaunchRequest) -> Iterator[str]:
    # Not --name: 0.73 refuses to start with it.
    if request.model is not None:
        yield from ("--model", request.model)
    if request.system_prompt is not None:
        yield from ("--append-system-prompt", request.system_prompt_path())  # takes a text or a file
    yield from request.native_words(RESERVED)
