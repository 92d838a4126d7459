"""How OpenCode is started, gone on with and ended.

`opencode run` with the prompt on standard input, where it is taken as it is: as an argument it would
get quotes. Its log, on standard error, names the session when it is made; its output names it only
with the model's first word. It believes PWD rather than its working directory.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from signal import SIGTERM

from agentctl.adapters.opencode.argv import kind_of
from agentctl.adapters.opencode.places import usual_database
from agentctl.adapters.plans import Command, LaunchRequest, StopPlan
from agentctl.errors import Refused, UsageError
from agentctl.system import jsonl
from agentctl.truth.look import Environ
from agentctl.truth.model import Observation

# The log at its usual level, whatever the person's settings say: else the lines we need are missing.
QUIETLY = ("--format", "json", "--print-logs", "--log-level", "INFO")
ID = r"(?P<id>ses_\w+)"
# A session that a sub-agent gets has a parent.
MADE = re.compile(
    rf"timestamp=\S+ level=INFO run=\w+ message=created id={ID} .*parentID=undefined".encode()
)
GOES_ON = re.compile(rf"timestamp=\S+ level=INFO run=\w+ message=loop session\.id={ID} ".encode())
INSTRUCTIONS = "instructions.md"
SETTINGS = "OPENCODE_CONFIG_CONTENT"
# A model or a provider that there is not: the error came 0.9 to 2.0 s after the session.
SETTLES = 2.5
# They would make it go on with another session, in another directory, or in a process that is not ours.
OURS = frozenset({
    "--session", "-s", "--continue", "-c", "--fork", "--attach", "--dir", "--format",
    "--interactive", "-i",
})  # fmt: skip
MODES = {"plan": ("--agent", "plan"), "auto": ("--auto",)}


def launch(request: LaunchRequest) -> Command:
    title = (
        (f"--title={request.name}",) if request.name else ()
    )  # one word: a name may begin with a dash
    return Command(
        ("opencode", "run", *_options(request), *title),
        request.cwd,
        _prompt(request),
        (("PWD", os.path.realpath(request.cwd)),),
        extended=tuple(_instructed(request)),
        announced=made,
        files=_instructions(request),
        settles=SETTLES,
        creates=usual_database(request.environ),
    )


def resume(seen: Observation, request: LaunchRequest) -> Command:
    """In the session's directory as it is written down: started with any other PWD it does the work,
    prints nothing and never ends. That an id is in its arguments proves nothing: it says so itself
    when it has found the session and begins."""
    session_id, cwd = seen.session_id or "", seen.facts.cwd or request.cwd
    if (seen.transcript or "").endswith(".json"):
        raise Refused(
            f"{session_id} is from before OpenCode 1.2, which kept no database",
            "start OpenCode 1.2 once by hand: it takes the old sessions over",
        )
    if not os.path.isdir(cwd):
        raise Refused(
            f"its directory is gone: {cwd}", "OpenCode goes on with it nowhere else: make it again"
        )
    return Command(
        ("opencode", "run", *_options(request), "--session", session_id),
        cwd,
        _prompt(request),
        (("PWD", cwd), *_database(seen, request.environ)),
        extended=tuple(_instructed(request)),
        announced=goes_on,
        files=_instructions(request),
        settles=SETTLES,
        expected=session_id,
    )


def stop_plan(seen: Observation) -> StopPlan:
    """`run` dies of any signal and writes nothing; the interactive one closes its turn at SIGTERM. The
    commands that either has started live on, and name it in their environment."""
    plan = StopPlan(((SIGTERM, 5.0),), pid_markers=("OPENCODE_PID",))
    if seen.owner is None or kind_of(seen.owner.argv) != "server":
        return plan
    # for who asks for the whole server: nothing tells the commands of one session from another's
    return plan._replace(
        refusal=f"it runs in an OpenCode server, pid {seen.owner.pid}, which serves other sessions too",
        instead=f"abort it there: POST /session/{seen.session_id}/abort, or Esc twice in "
        "`opencode attach`",
    )


def made(line: bytes) -> str | None:
    """The session that `run` makes, by its log; else by its output, which tells of failures too."""
    return _told(MADE, line)


def goes_on(line: bytes) -> str | None:
    """The session that `run --session` goes on with, once it does."""
    return _told(GOES_ON, line)


def _told(log: re.Pattern[bytes], line: bytes) -> str | None:
    if (found := log.match(line)) is not None:
        return found["id"].decode()
    told = (jsonl.parse(line) or {}) if line.startswith(b"{") and b'"sessionID"' in line else {}
    session = told.get("sessionID")
    return session if isinstance(session, str) else None


def _options(request: LaunchRequest) -> Iterator[str]:
    yield from QUIETLY
    if request.model is not None:
        if "/" not in request.model:
            raise UsageError(
                f"OpenCode's models have a provider: not {request.model!r}, but PROVIDER/MODEL",
                "opencode models lists them",
            )
        yield from ("--model", request.model)
    yield from MODES.get(request.permission_mode or "", ())
    yield from request.passed_on(OURS)


def _instructions(request: LaunchRequest) -> tuple[tuple[str, bytes], ...]:
    text = request.system_prompt
    return ((INSTRUCTIONS, text.encode(errors="surrogateescape")),) if text is not None else ()


def _instructed(request: LaunchRequest) -> Iterator[tuple[str, str]]:
    """No flag takes a system prompt. A file that the settings of this one run name is read beside the
    person's own instructions."""
    if request.system_prompt is None:
        return
    given = request.environ.get(SETTINGS) or "{}"
    settings = jsonl.parse_text(given)
    if settings is None:
        raise UsageError(f"{SETTINGS} is not a JSON object", "--append-system-prompt has to add to it")
    named = settings.get("instructions")
    theirs = named if isinstance(named, list) else []
    own = f"{request.folder}/{INSTRUCTIONS}"
    yield SETTINGS, json.dumps({**settings, "instructions": [*theirs, own]})


def _database(seen: Observation, environ: Environ) -> Iterator[tuple[str, str]]:
    """The session may be in another database than ours."""
    if seen.transcript is not None and seen.transcript != usual_database(environ):
        yield "OPENCODE_DB", seen.transcript


def _prompt(request: LaunchRequest) -> bytes:
    return request.prompt.encode(errors="surrogateescape")
