"""Move a stop out of the reach of the agent that it stops, if agentctl runs in that agent's own shell.

An agent that receives a signal kills its commands: Pi by their process group, Claude Code by walking
down from itself. Both would kill agentctl before the stop is complete. So a detached process does the
work: it is in another process group and has another parent. The calling process waits for it.
"""

from __future__ import annotations

import os
import sys

from agentctl.light_typing import Callable

_caller: list[int] = []  # the process that waits for this one, if this one is detached


def calling_pid() -> int:
    """Return the pid that the user or a shell started: this process, or the one that waits for it."""
    return _caller[0] if _caller else os.getpid()


def run_detached(work: Callable[[], int]) -> int:
    """Return the exit code of `work`, or 1 if the detached process died without one."""
    sys.stdout.flush()
    sys.stderr.flush()
    caller = os.getpid()
    reader, writer = os.pipe()
    child = os.fork()
    if child:
        os.close(writer)
        os.waitpid(child, 0)
        code = os.read(reader, 1)
        os.close(reader)
        return code[0] if code else 1
    os.setsid()
    if os.fork():
        os._exit(0)  # the detached process gets another parent
    _work_and_exit(work, caller, writer)
    return 1  # not reached


def _work_and_exit(work: Callable[[], int], caller: int, writer: int) -> None:
    _caller.append(caller)
    code = 1
    try:
        code = work()
        sys.stdout.flush()
    except BrokenPipeError:  # the agent or its shell was reading, and has ended
        pass
    except Exception:  # noqa: BLE001 - the frames above belong to the calling process
        sys.excepthook(*sys.exc_info())
    try:
        os.write(writer, bytes([code]))
    except BrokenPipeError:  # the caller was killed with the agent
        pass
    os._exit(code)
