"""Find the directory of an agent's files, and the traces of live processes in it.

No adapter is imported: `list` asks this for every agent.
"""

from __future__ import annotations

from agentctl.paths import home_directory
from agentctl.truth.look import Environ, Look


def find_root(environ: Environ, root: tuple[str, ...]) -> str | None:
    """Return the directory that `Agent.root` names; None without a home."""
    variable, default, *below = root
    if below:
        base = xdg_directory(environ, variable, default)
        return f"{base}/{below[0]}" if base else None
    base = home_directory(environ)
    return environ.get(variable) or (f"{base}/{default}" if base else None)


def xdg_directory(environ: Environ, variable: str, default: str) -> str | None:
    """Return an XDG base directory: the variable if it is absolute, else `default` below the home."""
    value = environ.get(variable, "")
    if value.startswith("/"):
        return value
    base = home_directory(environ)
    return f"{base}/{default}" if base else None


def has_traces(look: Look, root: tuple[str, ...], pid_files: str, locks: str) -> bool:
    """Return True if a file below the root names a process that exists, or one has locked a file."""
    directories = look.find_roots(lambda environ: find_root(environ, root))
    if pid_files and any(_has_pid_file(f"{directory}/{pid_files}", look) for directory in directories):
        return True
    return bool(locks) and any(_has_lock(f"{directory}/{locks}", look) for directory in directories)


def _has_pid_file(directory: str, look: Look) -> bool:
    numbers = (name.partition(".")[0] for name in look.list_names(directory))
    return any(n.isdecimal() and len(n) < 10 and int(n) in look.table for n in numbers)


def _has_lock(pattern: str, look: Look) -> bool:
    directory, _, name = pattern.rpartition("/")
    prefix, _, suffix = name.partition("*")
    return any(
        look.find_lock_holders(f"{directory}/{each}")
        for each in look.list_names(directory)
        if each.startswith(prefix) and each.endswith(suffix)
    )
