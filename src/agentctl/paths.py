"""Where our own files are, and whether one path is inside another.

`AGENTCTL_HOME` moves all our files. The state directory can be deleted at any time.
"""

from __future__ import annotations

import os

from agentctl.errors import Unreachable
from agentctl.light_typing import Mapping


def state_directory(environ: Mapping[str, str], cwd: str = "") -> str | None:
    """Return the state directory; None if there is no home directory, as for a container's uid without
    passwd entry: then nothing is stored. `cwd` is the working directory of the process with this
    environment; "" is our own."""
    override = environ.get("AGENTCTL_HOME")
    if override:
        return os.path.abspath(os.path.join(cwd, override))
    base = home_directory(environ)
    return f"{base}/.agentctl" if base else None


def require_state_directory(environ: Mapping[str, str]) -> str:
    """Return the state directory. Raises Unreachable if there is no home directory."""
    state = state_directory(environ)
    if state is None:
        raise Unreachable("no home directory is known", "set AGENTCTL_HOME")
    return state


def cache_file(state: str) -> str:
    return f"{state}/cache"


def database_file(state: str) -> str:
    return f"{state}/state.db"


def config_file(state: str) -> str:
    return f"{state}/config.toml"


def home_directory(environ: Mapping[str, str]) -> str | None:
    """Return HOME, else the home of the passwd entry; None for a uid without either (containers)."""
    return environ.get("HOME") or home_of_user(os.getuid())


def home_of_user(uid: int) -> str | None:
    """Return the home directory in the passwd entry of this user; None if there is no entry."""
    import pwd

    try:
        return pwd.getpwuid(uid).pw_dir
    except KeyError:
        return None


def is_inside(path: str, directory: str) -> bool:
    """Return True if this absolute path is the directory or lies below it. Compares text: the caller
    resolves symbolic links and "..", or knows that there are none."""
    return f"{path.rstrip('/')}/".startswith(f"{directory.rstrip('/')}/")


def resolves_inside(path: str, directory: str) -> bool:
    """Return True if the path is this directory or below it, symbolic links resolved. False for what is
    no absolute path: agents may record anything as their directory."""
    if "\0" in path or not path.startswith("/"):
        return False
    return is_inside(os.path.realpath(path), os.path.realpath(directory))
