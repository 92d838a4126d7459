"""The processes of our own that stand behind a launch, as they are written on a command line: the shim,
and what it starts. For those who start them, and those who must not take them for an agent's tools."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence

import agentctl

# Variables by which all that a launch starts is known, and all that a hook of it starts (LAUNCH/HOOK).
LAUNCH = "AGENTCTL_LAUNCH_ID"
HOOK = "AGENTCTL_HOOK"

PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(agentctl.__file__)))
SHIM = "import shim; shim.main(*map(int, sys.argv[1:]))"
FINISH = "agentctl.launch.finish"
EXPIRE = "agentctl.fuses.expire"
NAMES = {
    FINISH: "finish",
    EXPIRE: "expire",
    # as shims write them that were started before the packages moved
    "agentctl.control.finish": "finish",
    "agentctl.control.expire": "expire",
}
# What is ignored is inherited: each of our programs starts with the default for all of these.
ALL_SIGNALS = frozenset(signal.valid_signals()) - {signal.SIGKILL, signal.SIGSTOP}
DAEMON = "from agentctl.daemon.__main__ import main; main()"


def shim(*descriptors: int) -> list[str]:
    """Imported, not run as a script: a script is compiled anew at every start."""
    program = f"import sys; sys.path.insert(0, {PACKAGE + '/agentctl/launch/shim'!r}); {SHIM}"
    return [sys.executable, "-I", "-S", "-c", program, *map(str, descriptors)]


def other(module: str, *words: str) -> list[str]:
    """Another process of this very agentctl, wherever it was started from."""
    found = f"import sys; sys.path.insert(0, {PACKAGE!r})"
    return [sys.executable, "-I", "-c", f"{found}; from {module} import main; main()", *words]


def daemon(*words: str) -> list[str]:
    """The daemon of this very agentctl. Not isolated: a person may have adapters
    in a site of their own."""
    found = f"import sys; sys.path.insert(0, {PACKAGE!r})"
    return [sys.executable, "-P", "-c", f"{found}; {DAEMON}", *words]


def called(argv: Sequence[str]) -> str:
    """Which of ours these words call: `shim`, `finish`, `expire`, `daemon`; empty: none."""
    if tuple(argv[1:4]) == ("-I", "-S", "-c") and argv[4:5] and argv[4].endswith(SHIM):
        return "shim"
    if tuple(argv[1:3]) == ("-I", "-c") and argv[3:4]:
        return NAMES.get(argv[3].rpartition("; from ")[2].removesuffix(" import main; main()"), "")
    if tuple(argv[1:3]) == ("-P", "-c") and argv[3:4] and argv[3].endswith(DAEMON):
        return "daemon"
    return ""
