"""Goes on where an agent cannot reach us, when that agent is to end and we run in its own shell.

An agent that is told to end kills its commands, some by their process group (Pi), some by walking down
from itself (Claude Code): we would be gone before the work is done. So the work goes on in a process
that is in no such group and below no such parent; the one that was called waits, if it is left alone.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

_called: list[int] = []  # the process that waits for this one, if we have stepped aside


def us() -> int:
    """The process that a person or a shell has called: we, or the one that waits for us."""
    return _called[0] if _called else os.getpid()


def run(work: Callable[[], int]) -> int:
    """The exit code of `work`; 1 if it has left none."""
    sys.stdout.flush()
    sys.stderr.flush()
    called_as = os.getpid()
    told, tell = os.pipe()
    between = os.fork()
    if between:
        os.close(tell)
        os.waitpid(between, 0)
        said = os.read(told, 1)
        os.close(told)
        return said[0] if said else 1
    os.setsid()
    if os.fork():
        os._exit(0)  # so that nobody finds the other one below us
    _go_on(work, called_as, tell)
    return 1  # never: for the reader of types


def _go_on(work: Callable[[], int], called_as: int, tell: int) -> None:
    _called.append(called_as)
    code = 1
    try:
        code = work()
        sys.stdout.flush()
    except BrokenPipeError:  # whoever listened was the agent, or its shell
        pass
    except Exception:  # noqa: BLE001 - above us is the whole program, which goes on in the other process
        sys.excepthook(*sys.exc_info())
    try:
        os.write(tell, bytes([code]))
    except BrokenPipeError:  # the one that waits was ended with the agent
        pass
    os._exit(code)
