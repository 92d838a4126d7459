"""How Pi is started, gone on with and ended.

`pi --mode json -p`, with the prompt on standard input: there it is taken as it stands (less white space
around it), while an argument that begins with "@" names a file, one that begins with "-" an option,
and all end at 128 KiB. In json mode every version tells its session's id first of all; 0.73 has no
file before its first answer is complete, and takes no id from us. Its exit code is 0 even when the
model refused: how a turn ended stands in the session file.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from signal import SIGTERM

from agentctl.adapters.plans import Command, LaunchRequest, StopPlan
from agentctl.errors import Refused
from agentctl.system import jsonl
from agentctl.system.jsonl import as_text
from agentctl.truth.model import Observation

INSTRUCTIONS = "system-prompt"  # the file that holds what is appended to its own
# They would make it run another session than the one that we wait for, or hide which one.
OURS = frozenset({
    "--mode", "--session", "--session-id", "--continue", "-c", "--resume", "-r", "--fork",
    "--no-session",
})  # fmt: skip


def launch(request: LaunchRequest) -> Command:
    return _command((), request)


def resume(seen: Observation, request: LaunchRequest) -> Command:
    """By its file. By its id, from another directory, Pi would ask whether to copy it, get no answer,
    and do nothing with success; and a file that is gone it would begin anew, under a new id."""
    session_id, cwd = seen.session_id or "", seen.facts.cwd or request.cwd
    if seen.transcript is None:
        raise Refused(f"{session_id} has written nothing to go on from", "start a new session")
    if not os.path.isdir(cwd):
        raise Refused(f"its directory is gone: {cwd}", "make it again, or start a new session")
    command = _command(("--session", seen.transcript), request._replace(cwd=cwd))
    return command._replace(expected=session_id)


def _command(which: tuple[str, ...], request: LaunchRequest) -> Command:
    words = ("pi", "--mode", "json", "-p", *which, *_options(request))
    prompt, files = _encoded(request.prompt), tuple(_files(request))
    return Command(words, request.cwd, prompt, announced=Announcement(), files=files)


def stop_plan(seen: Observation) -> StopPlan:
    """At SIGTERM it ends its tools and exits with 143. SIGINT kills it and leaves them running.
    Neither is written down."""
    markers = (("PI_SESSION_ID", seen.session_id),) if seen.session_id else ()  # since 0.82
    return StopPlan(((SIGTERM, 5.0),), markers)


class Announcement:
    """`{"type":"session","id":"…"}`, and then any other event. Without a key for its model Pi tells
    the id, too, and dies before the next."""

    def __init__(self) -> None:
        self._id: str | None = None

    def __call__(self, line: bytes) -> str | None:
        if not line.startswith(b'{"type":"'):  # a warning, or a word from an extension
            return None
        if self._id is not None:
            return self._id
        event = jsonl.parse(line) or {}
        self._id = as_text(event.get("id")) if event.get("type") == "session" else None
        return None


def _options(request: LaunchRequest) -> Iterator[str]:
    # --name is unknown to 0.73, which then refuses to start
    if request.model is not None:
        yield from ("--model", request.model)
    if request.system_prompt is not None:
        # a text or the name of a file that holds one
        yield from ("--append-system-prompt", f"{request.folder}/{INSTRUCTIONS}")
    yield from request.passed_on(OURS)


def _files(request: LaunchRequest) -> Iterator[tuple[str, bytes]]:
    if request.system_prompt is not None:
        yield INSTRUCTIONS, _encoded(request.system_prompt)


def _encoded(text: str) -> bytes:
    return text.encode(errors="surrogateescape")
