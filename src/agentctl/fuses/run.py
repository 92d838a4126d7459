"""Run the command of a fuse: once, with a time limit, with its output in a file.

It runs below a shell that writes its exit code to a file, in a session of its own. If this process dies,
the command goes on. The process that fires the fuse again finds the command and waits for it, or finds
its exit code. Only a command that died without an exit code runs again.
"""

from __future__ import annotations

import os
import time

from agentctl.errors import Gone, SourceError
from agentctl.light_typing import Any
from agentctl.process import limited
from agentctl.process.handles import kill_all
from agentctl.process.ours import LAUNCH
from agentctl.state.fuses import Fuse
from agentctl.system import files, proc
from agentctl.system.files import translate_error
from agentctl.system.pidfd import Handle
from agentctl.system.proc import Process

LIMIT = 300.0  # seconds
# The code is written over reserved bytes, without truncating the file: the disk may be full by then, and
# a command without an exit code would run again.
_WRAPPER = '/bin/sh -c "$1"; code=$?; echo $code 1<>"$2.new" && mv "$2.new" "$2"; exit $code'
RESERVED = 16  # bytes, more than an exit code has


def output_folder(state: str) -> str:
    """Return the directory of the output of commands. Each fuse has a folder in it."""
    return f"{state}/fuses"


def run_command(state: str, fuse: Fuse, index: int) -> dict[str, Any]:
    """Return the result. Raises SourceError if its output cannot be written; Gone if its directory is
    gone: in another one the command might do harm."""
    start, command = time.monotonic(), fuse.actions[index].what
    folder = f"{output_folder(state)}/{fuse.id}"
    output, marker = f"{folder}/run-{index}", f"{fuse.id}/run-{index}"
    exit_file = f"{output}.exit"
    code = _read_code(exit_file)
    if code is None and _wait_for_earlier(marker):
        code = _read_code(exit_file)  # it may have ended between the two looks
        if code is None:
            code = _run(fuse, [command, exit_file], folder, output, marker)
    seconds = round(time.monotonic() - start, 3)
    result = {
        "command": command,
        "output": output,
        "ok": code == 0,
        "code": code,
        "seconds": seconds,
    }
    return result if code is not None else {**result, "error": f"took longer than {LIMIT:g} s"}


def fuse_environment(fuse: Fuse) -> dict[str, str]:
    """Return the facts for the command. An empty value: not known, or not applicable."""
    return {
        "AGENTCTL_FUSE_ID": fuse.id,
        "AGENTCTL_FUSE_LABEL": fuse.label or "",
        "AGENTCTL_FUSE_DIRECTORY": fuse.directory or "",
        "AGENTCTL_SESSION_ID": fuse.session_id or "",
        "AGENTCTL_ADAPTER": fuse.adapter or "",
        "AGENTCTL_CWD": fuse.cwd or "",
    }


def _environ(fuse: Fuse) -> dict[str, str]:
    """Return the environment of the command, without our own launch id: a stop of that launch would end
    the command."""
    own = {name: value for name, value in os.environ.items() if name != LAUNCH}
    return {**own, **fuse_environment(fuse)}


def _run(fuse: Fuse, words: list[str], folder: str, path: str, marker: str) -> int | None:
    """Return the exit code; None: it took too long. `words`: the command, and the file for its code."""
    cwd = fuse.cwd or folder
    with limited.open_output(folder, path, append=True) as output:
        if not os.path.isdir(cwd):
            raise Gone(cwd, "the directory is gone; the command was not run")
        try:
            with open(f"{words[1]}.new", "wb") as exit_file:
                exit_file.write(b" " * RESERVED)
            shell = ["/bin/sh", "-c", _WRAPPER, "agentctl-fuse", *words]
            child = limited.start_command(shell, cwd, _environ(fuse), marker, output)
        except OSError as error:  # we may not enter the directory, or the command is too long
            raise translate_error(error, cwd) from error
    return limited.wait_for_command(child, marker, LIMIT)


def _wait_for_earlier(marker: str) -> bool:
    """Wait for a command that an earlier process started. False: it took too long and was killed."""
    processes = _list_marked(marker)
    if not processes:
        return True
    first = min(processes, key=lambda process: process.identity.start)
    try:
        with Handle(first.identity) as handle:
            if handle.wait(LIMIT):
                return True
    except Gone:
        return True
    kill_all(lambda _: _list_marked(marker))
    return False


def _list_marked(marker: str) -> list[Process]:
    return [p for p in proc.read_table().values() if limited.has_marker(p, marker)]


def _read_code(exit_file: str) -> int | None:
    """Return the exit code that the shell wrote. None: it wrote none."""
    try:
        code = files.read_file(exit_file).data.strip()
    except SourceError:
        return None
    return int(code) if code.isdigit() else None
