"""Where Pi keeps its session files.

`PI_CODING_AGENT_DIR` or `~/.pi/agent`, below it `sessions/`, below that one directory for each working
directory, named after it in a way that cannot be reversed. `--session-dir`,
`PI_CODING_AGENT_SESSION_DIR` or the setting `sessionDir`: all in one directory.
"""

from __future__ import annotations

import os

from agentctl.errors import SourceError
from agentctl.light_typing import Callable, Sequence
from agentctl.paths import home_directory
from agentctl.system import files, jsonl
from agentctl.system.proc import Process
from agentctl.system.program import is_runtime, plain_name
from agentctl.truth.look import Environ, Look


def agent_directory(environ: Environ) -> str | None:
    value, base = environ.get("PI_CODING_AGENT_DIR"), home_directory(environ)
    return make_absolute(value, environ, "/") if value else f"{base}/.pi/agent" if base else None


def sessions_tree(environ: Environ) -> str | None:
    """Return the directory that has one directory of sessions for each working directory."""
    root = agent_directory(environ)
    return f"{root}/sessions" if root else None


def rust_tree(environ: Environ) -> str | None:
    return environ.get("PI_SESSIONS_DIR") or None


def find_flat(environ: Environ, here: Callable[[str], str] = str) -> str | None:
    """Return the single directory of all sessions, if one is configured. `here` turns a path of the
    process into one that we can open."""
    value = environ.get("PI_CODING_AGENT_SESSION_DIR")
    if value:
        return make_absolute(value, environ, "/")
    root = agent_directory(environ)
    return _read_setting(here(f"{root}/settings.json"), environ, "/") if root else None


def find_directory(process: Process, look: Look) -> str | None:
    """Return where this process keeps its sessions; None if its working directory is withheld."""
    environ, cwd = look.read_environ(process), process.cwd
    if cwd is None:
        return None

    def here(path: str) -> str:
        return look.resolve_path(process, path)

    value = find_option(process.argv, "--session-dir") or environ.get("PI_CODING_AGENT_SESSION_DIR")
    if value:
        return here(make_absolute(value, environ, cwd))
    configured = _read_setting(here(f"{cwd}/.pi/settings.json"), environ, cwd) or find_flat(
        environ, here
    )
    if configured:
        return here(configured)
    is_rust_port = not is_runtime(plain_name(process.exe or ""))  # the Rust port is a binary
    root = (rust_tree(environ) if is_rust_port else None) or sessions_tree(environ)
    return here(f"{root}/{slug(cwd)}") if root else None


def slug(cwd: str) -> str:
    plain = cwd.removeprefix("/").replace("/", "-").replace("\\", "-").replace(":", "-")
    return f"--{plain}--"


def find_option(argv: Sequence[str], *names: str) -> str | None:
    """Return the value of one of these options, while the arguments are still visible."""
    return next((argv[i + 1] for i, word in enumerate(argv[:-1]) if word in names), None)


def make_absolute(path: str, environ: Environ, cwd: str) -> str:
    if path == "~" or path.startswith("~/"):
        path = f"{home_directory(environ) or ''}{path[1:]}"
    path = path if path.startswith("/") else f"{cwd}/{path}"
    return path.rstrip("/") or "/"


def _read_setting(path: str, environ: Environ, cwd: str) -> str | None:
    """Return `sessionDir` of a settings file; None if the file is absent or unreadable."""
    if not os.path.exists(path):  # the usual case: an exception costs more than the question
        return None
    try:
        value = (jsonl.parse_record(files.read_file(path).data) or {}).get("sessionDir")
    except SourceError:
        return None
    return make_absolute(value, environ, cwd) if isinstance(value, str) and value else None
