"""The command of a fuse. Its output is kept, it runs once, and not for ever.

It runs below a shell that writes down how it ended, in a session of its own: should we die meanwhile,
it goes on, and whoever fires the fuse again finds it at work and waits, or finds how it ended. Only a
command that died without a word is run again.
"""

from __future__ import annotations

import os
import subprocess
import time
from typing import Any, BinaryIO

from agentctl.control.programs import HOOK, LAUNCH
from agentctl.control.targets import kill_all
from agentctl.control.uproot import uproot
from agentctl.errors import Gone, SourceError
from agentctl.truth import files, procfs
from agentctl.truth.files import translated
from agentctl.truth.fuse import Fuse
from agentctl.truth.pidfd import Handle
from agentctl.truth.procfs import Process

LIMIT = 300.0  # seconds
_NOTED = '/bin/sh -c "$1"; code=$?; echo $code >"$2.new" && mv "$2.new" "$2"; exit $code'


def folder(state: str) -> str:
    """Where what commands said is kept, in a folder for each fuse."""
    return f"{state}/fuses"


def run(state: str, fuse: Fuse, index: int) -> dict[str, Any]:
    """Raises SourceError where there is no place to keep its output, Gone where its directory is gone:
    elsewhere it might do anything."""
    began, command = time.monotonic(), fuse.actions[index].what
    place = f"{folder(state)}/{fuse.id}"
    said, marker = f"{place}/run-{index}", f"{fuse.id}/run-{index}"
    told = {"command": command, "output": said}
    ended = f"{said}.exit"
    code = _code(ended)
    if code is None and _in_time(marker):
        code = _code(ended)  # again: it may have ended between the two looks
        if code is None:
            code = _ran(fuse, [command, ended], place, said, marker)
    took = round(time.monotonic() - began, 3)
    result = {**told, "ok": code == 0, "code": code, "seconds": took}
    return result if code is not None else {**result, "error": f"took longer than {LIMIT:g} s"}


def facts(fuse: Fuse) -> dict[str, str]:
    """What it is told. Empty: not so."""
    return {
        "AGENTCTL_FUSE_ID": fuse.id,
        "AGENTCTL_FUSE_LABEL": fuse.label or "",
        "AGENTCTL_FUSE_DIRECTORY": fuse.directory or "",
        "AGENTCTL_SESSION_ID": fuse.session_id or "",
        "AGENTCTL_ADAPTER": fuse.adapter or "",
        "AGENTCTL_CWD": fuse.cwd or "",
    }


def _environ(fuse: Fuse, marker: str) -> dict[str, str]:
    own = {name: value for name, value in os.environ.items() if name != LAUNCH}
    return {**own, **facts(fuse), HOOK: marker}


def _ran(fuse: Fuse, words: list[str], place: str, said: str, marker: str) -> int | None:
    """Its exit code; None: it took too long."""
    cwd = fuse.cwd or place
    with _kept(place, said) as output:
        if not os.path.isdir(cwd):
            raise Gone(cwd, "the directory is gone; the command was not run")
        try:
            child = subprocess.Popen(
                ["/bin/sh", "-c", _NOTED, "agentctl-fuse", *words],
                cwd=cwd,
                env=_environ(fuse, marker),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        except OSError as error:  # its directory is closed to us, or its words are too many
            raise translated(error, cwd) from error
    try:
        return child.wait(LIMIT)
    except subprocess.TimeoutExpired:
        uproot(child.pid, lambda process: _marked(process, marker))
        child.wait()
        return None


def _in_time(marker: str) -> bool:
    """Waits for one that was begun by who fired the fuse before us. False: it took too long."""
    found = [p for p in procfs.read_table().values() if p.alive and _marked(p, marker)]
    if not found:
        return True
    first = min(found, key=lambda process: process.identity.start)
    try:
        with Handle(first.identity) as handle:
            if handle.wait(LIMIT):
                return True
    except Gone:
        return True
    kill_all(lambda _: [p for p in procfs.read_table().values() if _marked(p, marker)])
    return False


def _marked(process: Process, marker: str) -> bool:
    try:
        return process.alive and process.environ().get(HOOK) == marker
    except SourceError:  # not ours, or gone
        return False


def _code(ended: str) -> int | None:
    """How it ended, as the shell above it wrote that down. None: it did not."""
    try:
        told = files.whole(ended).data.strip()
    except SourceError:
        return None
    return int(told) if told.isdigit() else None


def _kept(place: str, path: str) -> BinaryIO:
    try:
        os.makedirs(place, mode=0o700, exist_ok=True)
        return open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "ab")
    except OSError as error:
        raise translated(error, path) from error
