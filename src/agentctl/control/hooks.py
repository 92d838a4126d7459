"""A person's own commands at the start and at the end of a launch. Their output is kept, their failure
is told, and none runs for ever."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Mapping
from typing import BinaryIO

from agentctl.control.programs import HOOK
from agentctl.control.uproot import uproot
from agentctl.errors import SourceError
from agentctl.truth import procfs
from agentctl.truth.files import translated
from agentctl.truth.model import HookRun, Launch, Verdict

LIMIT = 300.0  # seconds
NOT_STARTED = 126  # what a shell says of a command that it cannot run


def run(hook: str, command: str, note: Launch, folder: str, facts: Mapping[str, str]) -> HookRun:
    """In the launch's directory, with the facts in its environment. Raises SourceError where there is
    no place to keep its output."""
    began = time.monotonic()
    said, marker = f"{folder}/{hook}", f"{note.id}/{hook}"
    environ = {**os.environ, **facts, HOOK: marker}
    cwd = note.cwd if note.cwd is not None and os.path.isdir(note.cwd) else folder
    with _kept(folder, said) as output:
        try:
            child = subprocess.Popen(
                ["/bin/sh", "-c", command],
                cwd=cwd,
                env=environ,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        except OSError as error:  # its directory is closed to us, or its words are too many
            output.write(f"agentctl: it could not be started: {error}\n".encode())
            code: int | None = NOT_STARTED
        else:
            code = _awaited(child, marker)
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


def _kept(folder: str, path: str) -> BinaryIO:
    """Somebody may have cleared the folder away while the agent ran: no reason to run no hook."""
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        return open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb")
    except OSError as error:
        raise translated(error, path) from error


def _awaited(child: subprocess.Popen[bytes], marker: str) -> int | None:
    try:
        return child.wait(LIMIT)
    except subprocess.TimeoutExpired:
        uproot(child.pid, lambda process: _marked(process, marker))
        child.wait()
        return None


def _marked(process: procfs.Process, marker: str) -> bool:
    try:
        return process.environ().get(HOOK) == marker
    except SourceError:  # not ours, or gone
        return False
