"""How to start, resume and stop OpenCode.

`opencode run` takes the prompt from standard input as it is; as an argument the prompt would get quotes.
The log, on standard error, names the session as soon as it exists; the output names it only with the
model's first word. OpenCode believes PWD rather than its working directory.
"""

from __future__ import annotations

import os
from signal import SIGTERM

from agentctl.adapters.opencode.argv import read_kind
from agentctl.adapters.opencode.places import usual_database
from agentctl.adapters.plans import Command, LaunchRequest, ReadId, StopPlan, resume_directory
from agentctl.errors import Refused, UsageError
from agentctl.json_text import encode
from agentctl.light_typing import Iterator
from agentctl.system import jsonl
from agentctl.truth.look import Environ
from agentctl.truth.model import Observation

# The log at its usual level in spite of the user's settings: else lines that we read are missing.
OUTPUT = ("--format", "json", "--print-logs", "--log-level", "INFO")
ID = rb"(?P<id>ses_\w+)"
# The session of a sub-agent has a parent.
CREATED = rb"timestamp=\S+ level=INFO run=\w+ message=created id=" + ID + rb" .*parentID=undefined"
RESUMED = rb"timestamp=\S+ level=INFO run=\w+ message=loop session\.id=" + ID + rb" "
INSTRUCTIONS = "instructions.md"
SETTINGS = "OPENCODE_CONFIG_CONTENT"
# With an unknown model or provider the error came 0.9 to 2.0 s after the session.
SETTLE_TIME = 2.5
# These options would make OpenCode continue another session, work in another directory, or in a process
# that is not ours.
RESERVED = frozenset({
    "--session", "-s", "--continue", "-c", "--fork", "--attach", "--dir", "--format",
    "--interactive", "-i",
})  # fmt: skip
MODES = {"plan": ("--agent", "plan"), "auto": ("--auto",)}


def launch(request: LaunchRequest) -> Command:
    title = (f"--title={request.name}",) if request.name else ()  # one word: it may begin with a dash
    command = _command(request, read_created, *title)
    return command._replace(
        set=(("PWD", os.path.realpath(request.cwd)),), creates=usual_database(request.environ)
    )


def resume(observation: Observation, request: LaunchRequest) -> Command:
    """Return the command that continues the session in its recorded directory. With any other PWD
    OpenCode does the work, prints nothing and never ends. An id among the arguments proves nothing, so
    `launch` waits for the log line of the found session."""
    session_id, transcript = observation.session_id or "", observation.transcript
    if (transcript or "").endswith(".json"):
        raise Refused(
            f"{session_id} is from before OpenCode 1.2, which kept no database",
            "start OpenCode 1.2 once by hand: it takes the old sessions over",
        )
    cwd = resume_directory(observation, request)
    command = _command(request._replace(cwd=cwd), read_resumed, "--session", session_id)
    return command._replace(
        set=(("PWD", cwd), *_database_setting(transcript, request.environ)), expected_id=session_id
    )


def _command(request: LaunchRequest, read_id: ReadId, *words: str) -> Command:
    return Command(
        argv=("opencode", "run", *_options(request), *words),
        cwd=request.cwd,
        stdin=request.prompt_bytes(),
        override=tuple(_instructions_setting(request)),
        read_id=read_id,
        files=request.system_prompt_files(INSTRUCTIONS),
        settle_time=SETTLE_TIME,
    )


def stop_plan(observation: Observation) -> StopPlan:
    """`run` dies of any signal and records nothing; the interactive OpenCode closes its turn at SIGTERM.
    The commands that either has started live on, and have its pid in their environment."""
    plan = StopPlan(((SIGTERM, 5.0),), pid_markers=("OPENCODE_PID",))
    owner = observation.owner
    if owner is None or read_kind(owner.argv) != "server":
        return plan
    # The signals stay, for those who stop the whole server: a command does not show its session.
    return plan._replace(
        refusal=f"it runs in an OpenCode server, pid {owner.pid}, which serves other sessions too",
        instead=f"abort it there: POST /session/{observation.session_id}/abort, or Esc twice in "
        "`opencode attach`",
    )


def read_created(line: bytes) -> str | None:
    """Return the session that `run` creates, from its log or its output, which also shows failures."""
    return _read_id(CREATED, line)


def read_resumed(line: bytes) -> str | None:
    """Return the session that `run --session` has found and continues."""
    return _read_id(RESUMED, line)


def _read_id(log: bytes, line: bytes) -> str | None:
    import re  # a stop does without

    if (match := re.match(log, line)) is not None:
        return match["id"].decode()
    event = (jsonl.parse_record(line) or {}) if line.startswith(b"{") and b'"sessionID"' in line else {}
    session = event.get("sessionID")
    return session if isinstance(session, str) else None


def _options(request: LaunchRequest) -> Iterator[str]:
    yield from OUTPUT
    if request.model is not None:
        if "/" not in request.model:
            raise UsageError(
                f"OpenCode's models are named PROVIDER/MODEL, not {request.model!r}",
                "list them with: opencode models",
            )
        yield from ("--model", request.model)
    yield from MODES.get(request.permission_mode or "", ())
    yield from request.native_words(RESERVED)


def _instructions_setting(request: LaunchRequest) -> Iterator[tuple[str, str]]:
    """Yield the setting that names the file with the system prompt. OpenCode has no option for one, but
    reads the files that the settings of this run name, beside the user's own instructions."""
    if request.system_prompt is None:
        return
    settings = jsonl.parse_record_text(request.environ.get(SETTINGS) or "{}")
    if settings is None:
        raise UsageError(
            f"{SETTINGS} is not a JSON object", "--append-system-prompt adds to it: correct or unset it"
        )
    configured = settings.get("instructions")
    paths = configured if isinstance(configured, list) else []
    added = request.system_prompt_path(INSTRUCTIONS)
    yield SETTINGS, encode({**settings, "instructions": [*paths, added]})


def _database_setting(transcript: str | None, environ: Environ) -> Iterator[tuple[str, str]]:
    """Yield the setting for a session in another database than ours."""
    if transcript is not None and transcript != usual_database(environ):
        yield "OPENCODE_DB", transcript
