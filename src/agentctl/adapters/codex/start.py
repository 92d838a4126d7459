"""How to start, resume and stop Codex.

`codex exec` reads the prompt from standard input (`-`): an argument is limited to 128 KiB and shows in
`ps`. It prints its thread's id before it does anything else. All options stand before `resume`, which
knows neither -C nor -s itself. `exec` cannot name a thread.
"""

from __future__ import annotations

import os
from signal import SIGINT, SIGTERM

from agentctl.adapters.codex import agent
from agentctl.adapters.codex.argv import parse_invocation
from agentctl.adapters.codex.places import codex_root
from agentctl.adapters.plans import Command, LaunchRequest, StopPlan, resume_directory, resume_root
from agentctl.errors import Refused, SourceError, UsageError
from agentctl.light_typing import Iterator
from agentctl.system import files, jsonl
from agentctl.system.jsonl import Record, as_dict
from agentctl.truth.look import Environ
from agentctl.truth.model import Observation

ARGUMENT_CAP = 128 * 1024 - 1  # bytes: the kernel's limit for one argument
AUTOMATIC = "approve-for-me"  # a switch; the other modes are sandboxes
WORKTREE = "/.git/worktrees/"
# These options would make Codex work in another directory than the locked one, or keep no thread.
RESERVED = frozenset({"-C", "--cd", "--ephemeral"})

# Without a key Codex fails 40 ms after it printed the id, with a wrong key after a server round trip.
SETTLE_TIME = 1.0


def launch(request: LaunchRequest) -> Command:
    return Command(
        argv=("codex", "exec", *_options(request, request.cwd), "-"),
        cwd=request.cwd,
        stdin=request.prompt_bytes(),
        read_id=read_id,
        settle_time=SETTLE_TIME,
    )


def resume(observation: Observation, request: LaunchRequest) -> Command:
    """Return the command that continues the thread by its UUID. `launch` compares the printed id: Codex
    silently starts a new thread if it does not know the name."""
    session_id = observation.session_id or ""
    if "/archived_sessions/" in (observation.transcript or ""):
        raise Refused(f"{session_id} is archived", f"codex unarchive {session_id}")
    cwd = resume_directory(observation, request)
    # Without a model Codex would take the configured one, and complain of the change.
    request = request._replace(model=request.model or observation.facts.model)
    return Command(
        argv=("codex", "exec", *_options(request, cwd), "resume", session_id, "-"),
        cwd=cwd,
        stdin=request.prompt_bytes(),
        set=resume_root(observation, request, agent.ROOT, "/sessions/"),
        read_id=read_id,
        settle_time=SETTLE_TIME,
        expected_id=session_id,
    )


def stop_plan(observation: Observation) -> StopPlan:
    """At SIGINT `exec` closes its turn, ends its tools and releases the thread. At SIGTERM it does none
    of these. The interactive Codex dies of either at once."""
    session_id = observation.session_id or ""
    # In the environment of a sub-agent's tools, the first variable names the thread that the user began.
    markers = (("CODEX_SESSION_ID", session_id), ("CODEX_THREAD_ID", session_id))
    if (
        observation.owner is None
        or (call := parse_invocation(observation.owner.argv)).role != "app-server"
    ):
        return StopPlan(((SIGINT, 5.0), (SIGTERM, 3.0)), markers)
    pid = observation.owner.pid
    if call.is_daemon:
        reason = f"it runs in Codex's daemon, pid {pid}, which other threads share"
        instead = f"codex resume {session_id}, then Esc; `codex app-server daemon stop` ends them all"
    else:
        reason = f"it runs in an app server, pid {pid}, that an editor or another program started"
        instead = "interrupt it there"
    return StopPlan((), markers, reason, instead)


def read_id(line: bytes) -> str | None:
    """Return the id from `{"type":"thread.started","thread_id":"…"}`."""
    event = (jsonl.parse_record(line) or {}) if b'"thread.started"' in line else {}
    thread = event.get("thread_id")
    return thread if event.get("type") == "thread.started" and isinstance(thread, str) else None


def _options(request: LaunchRequest, cwd: str) -> Iterator[str]:
    # First: `-i FILE…` takes every word up to the next option, and would take our `-`.
    yield from request.native_words(RESERVED)
    yield from ("--json", "--skip-git-repo-check", "-C", cwd)
    if request.model is not None:
        yield from ("-m", request.model)
    config = _config(request.environ)
    mode = request.permission_mode
    if mode == AUTOMATIC:
        yield f"--{AUTOMATIC}"
    elif mode is not None:
        yield from ("-s", mode)
    if (mode or config.get("sandbox_mode") or "read-only") != "read-only":
        yield from _trust(cwd, config)
    if request.system_prompt is not None:
        yield from _instructions(request.system_prompt, config)


def _trust(cwd: str, config: Record) -> Iterator[str]:
    """Yield the options that trust the repository for this run only. Codex would record its trust in
    config.toml, and from then on every run might write there. The user's own setting wins."""
    repository = _repository(cwd)
    if repository and not {cwd, repository} & as_dict(config.get("projects")).keys():
        yield from ("-c", f'projects={{{_toml(cwd)}={{trust_level="trusted"}}}}')


def _repository(cwd: str) -> str | None:
    """Return the main checkout that this directory belongs to: Codex records trust for that."""
    directory = cwd
    while not os.path.exists(f"{directory}/.git"):
        above = os.path.dirname(directory)
        if above == directory:
            return None
        directory = above
    try:
        link = os.fsdecode(files.read_file(f"{directory}/.git").data)
    except SourceError:  # a directory: not a worktree
        return directory
    checkout, is_worktree, _ = link.removeprefix("gitdir: ").partition(WORKTREE)
    return checkout if is_worktree else directory


def _instructions(text: str, config: Record) -> Iterator[str]:
    """Yield the options that add a text to the user's instructions, which `-c` alone would replace."""
    configured = config.get("developer_instructions")
    whole = f"{configured}\n\n{text}" if isinstance(configured, str) and configured else text
    argument = f"developer_instructions={_toml(whole)}"
    if len(os.fsencode(argument)) > ARGUMENT_CAP:
        raise UsageError(
            f"the system prompt is too long for one argument of Codex: {len(text)} characters",
            "put it into AGENTS.md, or into the prompt",
        )
    yield from ("-c", argument)


def _toml(text: str) -> str:
    """Return a TOML string. Codex would silently take invalid TOML literally, with its quotes."""
    import json  # a stop needs neither this nor tomllib

    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _config(environ: Environ) -> Record:
    """Return the user's settings; empty if they cannot be read: Codex reports that itself."""
    import tomllib

    root = codex_root(environ)
    try:
        return tomllib.loads(files.read_file(f"{root}/config.toml").data.decode()) if root else {}
    except (SourceError, ValueError):
        return {}
