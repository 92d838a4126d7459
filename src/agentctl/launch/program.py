"""Find an agent's program. The error says where we looked."""

from __future__ import annotations

import os

from agentctl.errors import StartFailed
from agentctl.light_typing import Iterator, Mapping

# Where installers of agents put programs. The PATH of a script or a service often lacks these.
BELOW_HOME = (".local/bin", ".npm-global/bin", ".bun/bin", ".opencode/bin", ".claude/local", "bin")


def find_program(name: str, environ: Mapping[str, str], cwd: str) -> str:
    """Return the program's path. Raises StartFailed."""
    if "/" in name:
        at_home = name.startswith("~/") and "HOME" in environ
        path = os.path.join(cwd, environ["HOME"] + name[1:] if at_home else name)
        if _is_runnable(path):
            return path
        raise StartFailed(f"cannot run {path}", _why_not(path))
    directories = list(dict.fromkeys(_directories(environ)))
    for directory in directories:
        path = os.path.join(cwd, directory, name)
        if _is_runnable(path):
            return path
    raise StartFailed(
        f"{name} is not installed, or not where we looked",
        f"looked in {', '.join(directories) or 'no directory: PATH and HOME are empty'}",
    )


def _directories(environ: Mapping[str, str]) -> Iterator[str]:
    yield from (path for path in environ.get("PATH", os.defpath).split(os.pathsep) if path)
    home = environ.get("HOME")
    if home:
        yield from (f"{home}/{path}" for path in BELOW_HOME)


def _is_runnable(path: str) -> bool:
    return os.path.isfile(path) and os.access(path, os.X_OK)


def _why_not(path: str) -> str:
    if not os.path.exists(path):
        return "there is no such file"
    return "it is a directory" if os.path.isdir(path) else "it is not executable"
