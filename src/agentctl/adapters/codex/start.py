"""How Codex is started, gone on with and ended.

`codex exec` with the prompt on standard input (`-`): an argument ends at 128 KiB and shows in `ps`.
It tells its thread on standard output before it does anything else. All options stand before `resume`,
which knows neither -C nor -s itself. A thread has no name that `exec` could give it.
"""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Iterator
from signal import SIGINT, SIGTERM

from agentctl.adapters.codex.argv import invocation
from agentctl.adapters.plans import Command, LaunchRequest, StopPlan
from agentctl.adapters.roots import codex_root
from agentctl.errors import Refused, SourceError, UsageError
from agentctl.system import files, jsonl
from agentctl.system.jsonl import Record, as_dict
from agentctl.truth.look import Environ
from agentctl.truth.model import Observation

LONGEST = 128 * 1024 - 1  # bytes of one argument, by the kernel
AUTOMATIC = "approve-for-me"  # the one mode that is a switch; the others are sandboxes
WORKTREE = "/.git/worktrees/"
# They would make it work in another directory than the one that is locked, or keep no thread.
OURS = frozenset({"-C", "--cd", "--ephemeral"})

# A missing key shows 40 ms after the thread, a refused one after a round trip to the server.
SETTLES = 1.0


def launch(request: LaunchRequest) -> Command:
    words = ("codex", "exec", *_options(request, request.cwd), "-")
    return Command(words, request.cwd, _prompt(request), announced=announced, settles=SETTLES)


def resume(seen: Observation, request: LaunchRequest) -> Command:
    """Always by its UUID, and the announcement is compared: a name that Codex does not know starts a
    new thread without a word."""
    session_id, cwd = seen.session_id or "", seen.facts.cwd or request.cwd
    if "/archived_sessions/" in (seen.transcript or ""):
        raise Refused(f"{session_id} is archived", f"codex unarchive {session_id}")
    if not os.path.isdir(cwd):
        raise Refused(f"its directory is gone: {cwd}", "make it again, or start a new session")
    # else it goes on with the configured model, and complains of the change
    request = request._replace(model=request.model or seen.facts.model)
    words = ("codex", "exec", *_options(request, cwd), "resume", session_id, "-")
    home = tuple(_home(seen, request.environ))
    return Command(
        words, cwd, _prompt(request), home, announced=announced, settles=SETTLES, expected=session_id
    )


def stop_plan(seen: Observation) -> StopPlan:
    """At SIGINT an exec closes its turn, ends its tools and gives the thread back. At SIGTERM it does
    none of these. The interactive one dies of either at once."""
    session_id = seen.session_id or ""
    # of a sub-agent's tools, the first names the thread that a person began
    markers = (("CODEX_SESSION_ID", session_id), ("CODEX_THREAD_ID", session_id))
    if seen.owner is None or (call := invocation(seen.owner.argv)).role != "app-server":
        return StopPlan(((SIGINT, 5.0), (SIGTERM, 3.0)), markers)
    pid = seen.owner.pid
    if call.serves:
        why = f"it runs in Codex's daemon, pid {pid}, which other threads share"
        instead = f"codex resume {session_id}, then Esc; `codex app-server daemon stop` ends them all"
    else:
        why = f"it runs in an app server, pid {pid}, that an editor or another program started"
        instead = "interrupt it there"
    return StopPlan((), markers, why, instead)


def announced(line: bytes) -> str | None:
    """`{"type":"thread.started","thread_id":"…"}`"""
    told = (jsonl.parse(line) or {}) if b'"thread.started"' in line else {}
    thread = told.get("thread_id")
    return thread if told.get("type") == "thread.started" and isinstance(thread, str) else None


def _options(request: LaunchRequest, cwd: str) -> Iterator[str]:
    # first: `-i FILE…` takes every word up to the next option, our `-` too
    yield from request.passed_on(OURS)
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
    """Codex trusts a repository that it may write to, and puts that into config.toml: from then on
    every run may write there. This says the same for one run. What a person has decided stands."""
    repository = _repository(cwd)
    if repository and not {cwd, repository} & as_dict(config.get("projects")).keys():
        yield from ("-c", f'projects={{{_toml(cwd)}={{trust_level="trusted"}}}}')


def _repository(cwd: str) -> str | None:
    """The main checkout that this directory belongs to: that is what trust is noted of."""
    directory = cwd
    while not os.path.exists(f"{directory}/.git"):
        above = os.path.dirname(directory)
        if above == directory:
            return None
        directory = above
    try:
        link = os.fsdecode(files.whole(f"{directory}/.git").data)
    except SourceError:  # a directory: no worktree
        return directory
    pointed, worktree, _ = link.removeprefix("gitdir: ").partition(WORKTREE)
    return pointed if worktree else directory


def _instructions(text: str, config: Record) -> Iterator[str]:
    """Beside the model's own instructions, and after the person's, which `-c` would replace."""
    own = config.get("developer_instructions")
    whole = f"{own}\n\n{text}" if isinstance(own, str) and own else text
    argument = f"developer_instructions={_toml(whole)}"
    if len(os.fsencode(argument)) > LONGEST:
        raise UsageError(
            f"a system prompt of {len(text)} characters is too long for Codex, which takes it as one "
            "argument",
            "put it into AGENTS.md, or into the prompt",
        )
    yield from ("-c", argument)


def _toml(text: str) -> str:
    """A TOML string. What is no TOML Codex takes as it stands, quotes and all, without a word."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _config(environ: Environ) -> Record:
    """A person's own settings. Where they cannot be read, Codex is going to say so itself."""
    root = codex_root(environ)
    try:
        return tomllib.loads(files.whole(f"{root}/config.toml").data.decode()) if root else {}
    except (SourceError, ValueError):
        return {}


def _home(seen: Observation, environ: Environ) -> Iterator[tuple[str, str]]:
    """The thread may be in another CODEX_HOME than ours."""
    root, below, _ = (seen.transcript or "").partition("/sessions/")
    if below and root != codex_root(environ):
        yield "CODEX_HOME", root


def _prompt(request: LaunchRequest) -> bytes:
    return request.prompt.encode(errors="surrogateescape")
