"""Where our own files are. `AGENTCTL_HOME` moves everything; the directory can be deleted any time."""

from __future__ import annotations

import os
from collections.abc import Mapping


def state_directory(environ: Mapping[str, str], cwd: str = "") -> str | None:
    """None: no home is known (a container's uid without passwd entry), so nothing is kept. `cwd` is
    the directory of whoever has that environment; "": our own."""
    given = environ.get("AGENTCTL_HOME")
    if given:
        return os.path.abspath(os.path.join(cwd, given))
    base = home(environ)
    return f"{base}/.agentctl" if base else None


def cache_file(state: str) -> str:
    return f"{state}/cache"


def notes_file(state: str) -> str:
    return f"{state}/state.db"


def config_file(state: str) -> str:
    return f"{state}/config.toml"


def home(environ: Mapping[str, str]) -> str | None:
    """HOME, else the passwd entry; None for a uid without either (containers)."""
    return environ.get("HOME") or home_of(os.getuid())


def home_of(uid: int) -> str | None:
    """The home directory that the passwd entry of this user names; None: it has no entry."""
    import pwd

    try:
        return pwd.getpwuid(uid).pw_dir
    except KeyError:
        return None
