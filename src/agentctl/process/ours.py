"""The programs of our own that stand behind a launch: their command lines, for the code that starts them
and the code that must not take them for an agent's tools."""

from __future__ import annotations

import os
import signal
import sys

import agentctl
from agentctl.light_typing import Sequence

# Variables that mark all processes of a launch, and all processes of one of its hooks (LAUNCH/HOOK).
LAUNCH = "AGENTCTL_LAUNCH_ID"
HOOK = "AGENTCTL_HOOK"

PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(agentctl.__file__)))
SHIM = "import shim; shim.main(*map(int, sys.argv[1:]))"
FINISH = "agentctl.launch.finish"
EXPIRE = "agentctl.fuses.expire"
NAMES = {
    FINISH: "finish",
    EXPIRE: "expire",
    # in shims that were started before the packages moved
    "agentctl.control.finish": "finish",
    "agentctl.control.expire": "expire",
}
# A child inherits ignored signals: each of our programs starts with the defaults of all of these.
ALL_SIGNALS = frozenset(signal.valid_signals()) - {signal.SIGKILL, signal.SIGSTOP}
DAEMON = "from agentctl.daemon.__main__ import main; main()"
_ADD_PACKAGE = f"import sys; sys.path.insert(0, {PACKAGE!r})"


def shim_command(*descriptors: int) -> list[str]:
    """Return the command line of a shim. It imports its module: a script is compiled at every start."""
    program = f"import sys; sys.path.insert(0, {PACKAGE + '/agentctl/launch/shim'!r}); {SHIM}"
    return [sys.executable, "-I", "-S", "-c", program, *map(str, descriptors)]


def module_command(module: str, *words: str) -> list[str]:
    """Return the command line that runs `main` of a module of this installation."""
    program = f"{_ADD_PACKAGE}; from {module} import main; main()"
    return [sys.executable, "-I", "-c", program, *words]


def daemon_command(*words: str) -> list[str]:
    """Return the command line of the daemon. Not isolated (-I): the user may have adapters in the user
    site."""
    return [sys.executable, "-P", "-c", f"{_ADD_PACKAGE}; {DAEMON}", *words]


def identify_program(argv: Sequence[str]) -> str:
    """Return which of our programs these arguments start: `shim`, `finish`, `expire`, `daemon`, or an
    empty string."""
    if tuple(argv[1:4]) == ("-I", "-S", "-c") and argv[4:5] and argv[4].endswith(SHIM):
        return "shim"
    if tuple(argv[1:3]) == ("-I", "-c") and argv[3:4]:
        return NAMES.get(argv[3].rpartition("; from ")[2].removesuffix(" import main; main()"), "")
    if tuple(argv[1:3]) == ("-P", "-c") and argv[3:4] and argv[3].endswith(DAEMON):
        return "daemon"
    return ""
