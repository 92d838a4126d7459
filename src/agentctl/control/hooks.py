"""A person's own commands at the start and at the end of a launch. Their output is kept, their failure
is told, and none runs for ever."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Mapping
from signal import SIGKILL

from agentctl.errors import Gone, SourceError
from agentctl.truth import procfs
from agentctl.truth.look import Look
from agentctl.truth.model import HookRun, Launch, Verdict
from agentctl.truth.pidfd import Handle

LIMIT = 300.0  # seconds
MARKER = "AGENTCTL_HOOK"  # in the environment of all that a hook starts: which hook of which launch


def run(hook: str, command: str, note: Launch, folder: str, facts: Mapping[str, str]) -> HookRun:
    """In the launch's directory, with the facts in its environment."""
    began = time.monotonic()
    said = f"{folder}/{hook}"
    marker = f"{note.id}/{hook}"
    environ = {**os.environ, **facts, MARKER: marker}
    cwd = note.cwd if note.cwd is not None and os.path.isdir(note.cwd) else folder
    with open(os.open(said, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as output:
        child = subprocess.Popen(
            ["/bin/sh", "-c", command],
            cwd=cwd,
            env=environ,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            code: int | None = child.wait(LIMIT)
        except subprocess.TimeoutExpired:
            code = None
            _kill_tree(child.pid, marker)
            child.wait()
    return HookRun(hook, command, code, time.monotonic() - began, said)


def facts(note: Launch, verdict: Verdict | None = None) -> dict[str, str]:
    """What a hook is told. Empty: not known, or not so."""
    code = verdict.exit_code if verdict is not None else None
    return {
        "AGENTCTL_LAUNCH_ID": note.id,
        "AGENTCTL_SESSION_ID": note.session_id or "",
        "AGENTCTL_ADAPTER": note.adapter or "",
        "AGENTCTL_CWD": note.cwd or "",
        "AGENTCTL_MODEL": note.model or "",
        "AGENTCTL_GROUP": note.group or "",
        "AGENTCTL_BRANCH": note.worktree.branch if note.worktree is not None else "",
        "AGENTCTL_EXIT_CODE": str(code) if code is not None else "",
        "AGENTCTL_OUTCOME": (verdict.outcome or "") if verdict is not None else "",
    }


def _kill_tree(pid: int, marker: str) -> None:
    """The shell, what it started, and what has another parent by now; again, until a look finds none."""
    while True:
        look = Look.take()
        shell = look.table.get(pid)
        below = [shell, *look.descendants(shell)] if shell is not None and shell.alive else []
        marked = [p for p in look.table.values() if p.alive and _marked(p, marker)]
        found = {process.identity for process in (*below, *marked)}
        if not found:
            return
        for identity in found:
            try:
                with Handle(identity) as handle:
                    handle.signal(SIGKILL)
                    handle.wait(LIMIT)
            except Gone:
                continue


def _marked(process: procfs.Process, marker: str) -> bool:
    try:
        return process.environ().get(MARKER) == marker
    except SourceError:  # not ours, or gone
        return False
