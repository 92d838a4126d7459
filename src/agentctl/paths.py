"""Where our own files are. `AGENTCTL_HOME` moves everything; the directory can be deleted any time."""

from __future__ import annotations

import os
from collections.abc import Mapping

from agentctl.truth.look import home


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
