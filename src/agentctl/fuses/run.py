"""The command of a fuse. Its output is kept, it runs once, and not for ever.

It runs below a shell that writes down how it ended, in a session of its own: should we die meanwhile,
it goes on, and whoever fires the fuse again finds it at work and waits, or finds how it ended. Only a
command that died without a word is run again.
"""

from __future__ import annotations

import os
import time
from typing import Any

from agentctl.errors import Gone, SourceError
from agentctl.process import limited
from agentctl.process.handles import kill_all
from agentctl.process.ours import LAUNCH
from agentctl.state.fuse import Fuse
from agentctl.system import files, proc
from agentctl.system.files import translated
from agentctl.system.pidfd import Handle

LIMIT = 300.0  # seconds
# Over what was reserved, and without cutting it off first: the disk may be full by then, and a command
# without a word is run again.
_NOTED = '/bin/sh -c "$1"; code=$?; echo $code 1<>"$2.new" && mv "$2.new" "$2"; exit $code'
RESERVED = 16  # bytes, more than a code has


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


def _environ(fuse: Fuse) -> dict[str, str]:
    """Not of the launch that has started us, if one has: it would be ended with that."""
    own = {name: value for name, value in os.environ.items() if name != LAUNCH}
    return {**own, **facts(fuse)}


def _ran(fuse: Fuse, words: list[str], place: str, said: str, marker: str) -> int | None:
    """Its exit code; None: it took too long."""
    cwd = fuse.cwd or place
    with limited.kept(place, said, anew=False) as output:
        if not os.path.isdir(cwd):
            raise Gone(cwd, "the directory is gone; the command was not run")
        noted = ["/bin/sh", "-c", _NOTED, "agentctl-fuse", *words]
        try:
            with open(f"{words[1]}.new", "wb") as place_for_its_code:
                place_for_its_code.write(b" " * RESERVED)
            child = limited.started(noted, cwd, _environ(fuse), marker, output)
        except OSError as error:  # its directory is closed to us, or its words are too many
            raise translated(error, cwd) from error
    return limited.awaited(child, marker, LIMIT)


def _in_time(marker: str) -> bool:
    """Waits for one that was begun by who fired the fuse before us. False: it took too long."""
    found = [p for p in proc.read_table().values() if limited.marked(p, marker)]
    if not found:
        return True
    first = min(found, key=lambda process: process.identity.start)
    try:
        with Handle(first.identity) as handle:
            if handle.wait(LIMIT):
                return True
    except Gone:
        return True
    kill_all(lambda _: [p for p in proc.read_table().values() if limited.marked(p, marker)])
    return False


def _code(ended: str) -> int | None:
    """How it ended, as the shell above it wrote that down. None: it did not."""
    try:
        told = files.whole(ended).data.strip()
    except SourceError:
        return None
    return int(told) if told.isdigit() else None
