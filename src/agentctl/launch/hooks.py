"""Run the user's hooks at the start and at the end of a launch. Their output is stored, their failure is
shown, and each has a time limit."""

from __future__ import annotations

import os
import time

from agentctl.light_typing import Mapping
from agentctl.process import limited
from agentctl.truth.model import HookRun, Launch, Verdict

LIMIT = 300.0  # seconds
NOT_STARTED = 126  # the exit code of a shell for a command that it cannot run


def run_hook(hook: str, command: str, note: Launch, folder: str, facts: Mapping[str, str]) -> HookRun:
    """Run the hook in the launch's directory, with the facts in its environment. Raises SourceError if
    its output cannot be stored."""
    began = time.monotonic()
    path, marker = f"{folder}/{hook}", f"{note.id}/{hook}"
    cwd = note.cwd if note.cwd is not None and os.path.isdir(note.cwd) else folder
    with limited.open_output(folder, path) as output:
        try:
            words, environ = ["/bin/sh", "-c", command], {**os.environ, **facts}
            child = limited.start_command(words, cwd, environ, marker, output)
        except OSError as error:  # we may not enter its directory, or its arguments are too long
            output.write(f"agentctl: cannot start the hook: {error}\n".encode())
            code: int | None = NOT_STARTED
        else:
            code = limited.wait_for_command(child, marker, LIMIT)
    return HookRun(hook, command, code, time.monotonic() - began, path)


def hook_facts(note: Launch, verdict: Verdict | None = None, model: str | None = None) -> dict[str, str]:
    """Return the variables of a hook. Empty means unknown or none. `model` is the session's, if the
    launch chose none."""
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
