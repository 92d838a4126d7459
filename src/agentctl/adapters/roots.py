"""Where each agent keeps its files, by its own variables; and the traces there of a live process, which
show it under whatever name it runs. Nothing here loads an adapter: `list` asks it for all of them."""

from __future__ import annotations

from agentctl.paths import home
from agentctl.truth.look import Environ, Look

CODEX_LOCKS = "thread-writer-locks"


def claude_root(environ: Environ) -> str | None:
    base = home(environ)
    return environ.get("CLAUDE_CONFIG_DIR") or (f"{base}/.claude" if base else None)


def codex_root(environ: Environ) -> str | None:
    base = home(environ)
    return environ.get("CODEX_HOME") or (f"{base}/.codex" if base else None)


def opencode_data(environ: Environ) -> str | None:
    base = xdg_directory(environ, "XDG_DATA_HOME", ".local/share")
    return f"{base}/opencode" if base else None


def xdg_directory(environ: Environ, variable: str, default: str) -> str | None:
    """An XDG base directory: the variable if absolute, else `default` below the home."""
    value = environ.get(variable, "")
    if value.startswith("/"):
        return value
    base = home(environ)
    return f"{base}/{default}" if base else None


def first_signs(adapter: str, environ: Environ) -> list[str]:
    """Where an agent leaves its first trace, whatever its process is called: `directory/*` for whatever
    changes in there. Of OpenCode that is its database, which changes all the time: it is not watched."""
    if adapter == "claude-code" and (root := claude_root(environ)):
        return [f"{root}/sessions/*"]
    if adapter == "codex" and (root := codex_root(environ)):
        return [f"{root}/{CODEX_LOCKS}/*"]
    return []


def claude_leaves_traces(look: Look) -> bool:
    """A record of a process that exists."""
    for root in look.roots(claude_root):
        for name in look.names(f"{root}/sessions"):
            number = name.partition(".")[0]
            if number.isdecimal() and len(number) < 10 and int(number) in look.table:
                return True
    return False


def codex_leaves_traces(look: Look) -> bool:
    """A lock of a thread that somebody holds."""
    return any(
        look.lock_holders(f"{root}/{CODEX_LOCKS}/{name}")
        for root in look.roots(codex_root)
        for name in look.names(f"{root}/{CODEX_LOCKS}")
    )


def opencode_leaves_traces(look: Look) -> bool:
    """A database that somebody has open: whoever has, locks its shared index."""
    return any(
        look.lock_holders(f"{root}/{name}")
        for root in look.roots(opencode_data)
        for name in look.names(root)
        if name.startswith("opencode") and name.endswith(".db-shm")
    )
