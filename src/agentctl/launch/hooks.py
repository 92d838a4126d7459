"""A person's own commands at the start and at the end of a launch. Their output is kept, their failure
is told, and none runs for ever."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping

from agentctl.process import limited
from agentctl.truth.model import HookRun, Launch, Verdict

LIMIT = 300.0  # seconds
NOT_STARTED = 126  # what a shell says of a command that it cannot run


def run(hook: str, command: str, note: Launch, folder: str, facts: Mapping[str, str]) -> HookRun:
    """In the launch's directory, with the facts in its environment. Raises SourceError where there is
    no place to keep its output."""
    began = time.monotonic()
    said, marker = f"{folder}/{hook}", f"{note.id}/{hook}"
    cwd = note.cwd if note.cwd is not None and os.path.isdir(note.cwd) else folder
    with limited.kept(folder, said) as output:
        try:
            words, environ = ["/bin/sh", "-c", command], {**os.environ, **facts}
            child = limited.started(words, cwd, environ, marker, output)
        except OSError as error:  # its directory is closed to us, or its words are too many
            output.write(f"agentctl: it could not be started: {error}\n".encode())
            code: int | None = NOT_STARTED
        else:
            code = limited.awaited(child, marker, LIMIT)
    return HookRun(hook, command, code, time.monotonic() - began, said)


def facts(note: Launch, verdict: Verdict | None = None, model: str | None = None) -> dict[str, str]:
    """What a hook is told. Empty: not known, or not so. `model`: the session's, if none was chosen."""
    code = verdict.exit_code if verdict is not None else None
    return {
        "AGENTCTL_LAUNCH_ID": note.id,
        "AGENTCTL_SESSION_ID": note.session_id or "",
        "AGENTCTL_ADAPTER": note.adapter or "",
        "AGENTCTL_CWD": note.cwd or "",
        "AGENTCTL_MODEL": note.model or model or "",
        "AGENTCTL_GROUP": note.group or "",
        "AGENTCTL_BRANCH": note.worktree.branch if note.worktree is not None else "",
        "AGENTCTL_EXIT_CODE": str(code) if code is not None else "",
        "AGENTCTL_OUTCOME": (verdict.outcome or "") if verdict is not None else "",
    }
