"""How Claude Code is started, gone on with and ended.

`claude -p` under an id that we choose, so that its session is known before it has written a byte. The
prompt goes to standard input: an argument ends at 128 KiB and shows in `ps`. Its output stays plain
text: what it prints when it cannot go on ("Not logged in · Please run /login") is for people to read,
and how it ended stands in its transcript. All that a person chose is written as `--option=value`: a
value may begin with a dash.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from signal import SIGINT, SIGTERM
from uuid import uuid4

from agentctl.adapters.plans import Command, LaunchRequest, StopPlan
from agentctl.adapters.roots import claude_root
from agentctl.errors import Refused, SourceError, UsageError
from agentctl.system import files, jsonl
from agentctl.system.jsonl import as_text
from agentctl.truth.look import Environ
from agentctl.truth.model import Observation

INSTRUCTIONS = "system-prompt"  # the file that holds what is appended to its own
# It ends 0.5 s after its start where nobody is logged in, a second on a loaded machine, and for want of
# such a model once the server has said so. Its arguments, by which it is listed, it reads before that.
SETTLES = 2.0
# They would make it run another session than the one that we wait for, or in a process that is not
# ours, or keep no transcript.
OURS = frozenset({
    "--session-id", "--resume", "-r", "--continue", "-c", "--fork-session", "--from-pr", "--bg",
    "--background", "--no-session-persistence",
})  # fmt: skip


def launch(request: LaunchRequest) -> Command:
    session_id = str(uuid4())
    return _command(("--session-id", session_id), session_id, request)


def resume(seen: Observation, request: LaunchRequest) -> Command:
    """Same id, same file. It would go on from any directory, and then work in that one."""
    session_id, cwd = seen.session_id or "", seen.facts.cwd or request.cwd
    if seen.transcript is None:
        raise Refused(f"{session_id} has written nothing to go on from", "start a new session")
    if not os.path.isdir(cwd):
        raise Refused(f"its directory is gone: {cwd}", "make it again, or start a new session")
    command = _command(("--resume", session_id), session_id, request._replace(cwd=cwd))
    return command._replace(set=tuple(_config(seen.transcript, request.environ)))


def _command(which: tuple[str, str], session_id: str, request: LaunchRequest) -> Command:
    words = ("claude", "-p", *which, *_options(request))
    return Command(
        words,
        request.cwd,
        _encoded(request.prompt),
        session_id=session_id,
        files=tuple(_files(request)),
        settles=SETTLES,
    )


def stop_plan(seen: Observation) -> StopPlan:
    """At SIGINT it ends its tools and writes down that it was interrupted, within two seconds; at
    SIGTERM it only ends. The code after SIGINT is 0: the marker tells, not the code."""
    session_id = seen.session_id or ""
    plan = StopPlan(
        ((SIGINT, 5.0), (SIGTERM, 5.0)),
        (("CLAUDE_CODE_SESSION_ID", session_id),) if session_id else (),
        pid_markers=("CLAUDE_PID",),  # what it ran before a /clear was told another session id
    )
    if seen.facts.entry_point != "background":
        return plan
    why = "it is a background job of Claude Code, whose supervisor would start it again"
    return plan._replace(signals=(), refusal=why, instead=f"claude stop {_job(seen)}")


def _options(request: LaunchRequest) -> Iterator[str]:
    if request.model is not None:
        yield f"--model={request.model}"
    if request.name is not None:
        yield f"--name={request.name}"
    if request.permission_mode is not None:
        yield from ("--permission-mode", _mode(request.permission_mode, request.environ))
    if request.system_prompt is not None:
        yield f"--append-system-prompt-file={request.folder}/{INSTRUCTIONS}"
    # last: behind a "--" of theirs our own words would be part of the prompt
    yield from request.passed_on(OURS)


def _mode(mode: str, environ: Environ) -> str:
    """We say beforehand what Claude Code would say in the end, and never what it asks for: that this
    is a sandbox is a person's claim."""
    if mode == "bypassPermissions" and os.geteuid() == 0 and "IS_SANDBOX" not in environ:
        raise UsageError(
            "Claude Code refuses bypassPermissions to root",
            "if this is a sandbox, say so with --env IS_SANDBOX=1",
        )
    return mode


def _files(request: LaunchRequest) -> Iterator[tuple[str, bytes]]:
    if request.system_prompt is not None:  # of any length, and nobody else's to read
        yield INSTRUCTIONS, _encoded(request.system_prompt)


def _config(transcript: str, environ: Environ) -> Iterator[tuple[str, str]]:
    """The session may be below another CLAUDE_CONFIG_DIR than ours."""
    root, below, _ = transcript.partition("/projects/")
    if below and root != claude_root(environ):
        yield "CLAUDE_CONFIG_DIR", root


def _job(seen: Observation) -> str:
    """The job's short id. It begins as that of its session, and stays when /clear begins another."""
    for piece in seen.evidence:
        if piece.authority == "record" and "/sessions/" in piece.address:
            try:
                record = jsonl.parse(files.whole(piece.address).data) or {}
            except SourceError:  # it has ended meanwhile
                continue
            if job := as_text(record.get("jobId")):
                return job
    return (seen.session_id or "")[:8]


def _encoded(text: str) -> bytes:
    return text.encode(errors="surrogateescape")
