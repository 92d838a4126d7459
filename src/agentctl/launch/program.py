"""Where an agent's program is. Says where it looked."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping

from agentctl.errors import StartFailed

# Where agents' installers put them, beyond a shell's PATH: a script or a service often has a poor one.
BELOW_HOME = (".local/bin", ".npm-global/bin", ".bun/bin", ".opencode/bin", ".claude/local", "bin")


def resolved(name: str, environ: Mapping[str, str], cwd: str) -> str:
    """The program's path. Raises StartFailed."""
    if "/" in name:
        at_home = name.startswith("~/") and "HOME" in environ
        path = os.path.join(cwd, environ["HOME"] + name[1:] if at_home else name)
        if _runnable(path):
            return path
        raise StartFailed(f"cannot run {path}", _why_not(path))
    looked = list(dict.fromkeys(_places(environ)))
    for directory in looked:
        path = os.path.join(cwd, directory, name)
        if _runnable(path):
            return path
    raise StartFailed(
        f"{name} is not installed, or not where we looked",
        f"looked in {', '.join(looked) or 'no directory: PATH and HOME are empty'}",
    )


def _places(environ: Mapping[str, str]) -> Iterator[str]:
    yield from (place for place in environ.get("PATH", os.defpath).split(os.pathsep) if place)
    home = environ.get("HOME")
    if home:
        yield from (f"{home}/{place}" for place in BELOW_HOME)


def _runnable(path: str) -> bool:
    return os.path.isfile(path) and os.access(path, os.X_OK)


def _why_not(path: str) -> str:
    if not os.path.exists(path):
        return "there is no such file"
    return "it is a directory" if os.path.isdir(path) else "it is not executable"
