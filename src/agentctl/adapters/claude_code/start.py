"""How to start, resume and stop Claude Code.

`claude -p` runs under an id that agentctl chooses, so the session is known before Claude Code has
written a byte. The prompt goes to standard input: an argument is limited to 128 KiB and shows in `ps`.
The output stays plain text: what Claude Code prints when it cannot continue ("Not logged in · Please run
/login") is for people to read, and the transcript records how the session ended. Values that the user
chose are written as `--option=value`: a value may begin with a dash.
"""

from __future__ import annotations

import os
from signal import SIGINT, SIGTERM

from agentctl.adapters.claude_code import agent
from agentctl.adapters.plans import Command, LaunchRequest, StopPlan, resume_directory, resume_root
from agentctl.errors import Refused, SourceError, UsageError
from agentctl.light_typing import Iterator
from agentctl.system import files, jsonl
from agentctl.system.jsonl import as_text
from agentctl.truth.look import Environ
from agentctl.truth.model import Observation

# Without a login Claude Code ends 0.5 s after its start, 1 s on a loaded machine. With an unknown model
# it ends when the server has answered. It reads its arguments, by which it is listed, before that.
SETTLE_TIME = 2.0
# These options would make Claude Code run another session than the expected one, run it in a process
# that is not ours, or keep no transcript.
RESERVED = frozenset({
    "--session-id", "--resume", "-r", "--continue", "-c", "--fork-session", "--from-pr", "--bg",
    "--background", "--no-session-persistence",
})  # fmt: skip


def launch(request: LaunchRequest) -> Command:
    from uuid import uuid4  # imports `platform`, which `stop` can do without

    session_id = str(uuid4())
    return _command(("--session-id", session_id), session_id, request)


def resume(observation: Observation, request: LaunchRequest) -> Command:
    """Return the command that continues with the same id and file. Claude Code would resume from any
    directory, and then work in that one."""
    session_id = observation.session_id or ""
    if observation.transcript is None:
        raise Refused(f"{session_id} has no transcript to resume from", "start a new session")
    request = request._replace(cwd=resume_directory(observation, request))
    command = _command(("--resume", session_id), session_id, request)
    return command._replace(set=resume_root(observation, request, agent.ROOT, "/projects/"))


def _command(id_option: tuple[str, str], session_id: str, request: LaunchRequest) -> Command:
    return Command(
        argv=("claude", "-p", *id_option, *_options(request)),
        cwd=request.cwd,
        stdin=request.prompt_bytes(),
        session_id=session_id,
        files=request.system_prompt_files(),
        settle_time=SETTLE_TIME,
    )


def stop_plan(observation: Observation) -> StopPlan:
    """At SIGINT Claude Code ends its tools and records the interruption, within two seconds; at SIGTERM
    it only ends. Its exit code after SIGINT is 0, so the transcript decides the outcome."""
    session_id = observation.session_id or ""
    plan = StopPlan(
        ((SIGINT, 5.0), (SIGTERM, 5.0)),
        (("CLAUDE_CODE_SESSION_ID", session_id),) if session_id else (),
        pid_markers=("CLAUDE_PID",),  # tools that began before a /clear have another session id
    )
    if observation.facts.entry_point != "background":
        return plan
    reason = "it is a background job of Claude Code, whose supervisor would start it again"
    return plan._replace(signals=(), refusal=reason, instead=f"claude stop {_job_id(observation)}")


def _options(request: LaunchRequest) -> Iterator[str]:
    if request.model is not None:
        yield f"--model={request.model}"
    if request.name is not None:
        yield f"--name={request.name}"
    if request.permission_mode is not None:
        yield from ("--permission-mode", _check_mode(request.permission_mode, request.environ))
    if request.system_prompt is not None:
        yield f"--append-system-prompt-file={request.system_prompt_path()}"
    # Last: behind a "--" of the user our own words would be part of the prompt.
    yield from request.native_words(RESERVED)


def _check_mode(mode: str, environ: Environ) -> str:
    """Return the mode. Raises UsageError where Claude Code would refuse it. agentctl never sets
    IS_SANDBOX: only the user can know that this is a sandbox."""
    if mode == "bypassPermissions" and os.geteuid() == 0 and "IS_SANDBOX" not in environ:
        raise UsageError(
            "Claude Code refuses bypassPermissions to root",
            "if this is a sandbox, say so with --env IS_SANDBOX=1",
        )
    return mode


def _job_id(observation: Observation) -> str:
    """Return the job's short id. It is the start of the first session's id, and stays the same when
    /clear begins another session."""
    for piece in observation.evidence:
        if piece.authority == "record" and "/sessions/" in piece.address:
            try:
                record = jsonl.parse_record(files.read_file(piece.address).data) or {}
            except SourceError:  # the job has ended since
                continue
            if job := as_text(record.get("jobId")):
                return job
    return (observation.session_id or "")[:8]
