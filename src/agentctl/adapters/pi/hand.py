"""Whether a Pi may have been given a prompt that stands in an older session's file.

Pi may have opened that session, or another Pi, gone by now, wrote there while this one sat at its
prompt. A prompt comes with the start of a process (`pi -c "go on"`) or from a hand at its terminal, and
the kernel remembers when a key last came there, to 8 seconds. A prompt that came at no such time was not
this one's, as far as anyone can tell.
"""

from __future__ import annotations

from agentctl.adapters.pi.transcript import last_prompt
from agentctl.errors import SourceError
from agentctl.system.clock import TICK
from agentctl.system.proc import Process
from agentctl.truth.look import Look

SOON = 20.0  # seconds: a slow start, or the kernel's 8 and somebody who typed and thought


def may_have_prompted(process: Process, path: str, look: Look) -> bool:
    start = look.started_at(process)
    try:
        prompted = last_prompt(path, start + TICK)
    except SourceError:  # gone, or not for us to read
        return False
    return prompted is not None and prompted < max(start, _last_key(process, look)) + SOON


def _last_key(process: Process, look: Look) -> float:
    """When its terminal last gave it something to read; 0: it has none, or we may not know."""
    try:
        terminals = {path for path in process.open_files() if path.startswith("/dev/pts/")}
    except SourceError:
        return 0.0
    seen = [look.status(look.through(process, path)) for path in terminals]
    return max((status.st_atime for status in seen if status is not None), default=0.0)
