"""Where Pi keeps its session files.

`PI_CODING_AGENT_DIR` or `~/.pi/agent`, below it `sessions/`, below that one directory for each working
directory, named after it in a way that cannot be reversed. `--session-dir`,
`PI_CODING_AGENT_SESSION_DIR` or the setting `sessionDir`: all in one directory.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from agentctl.errors import SourceError
from agentctl.paths import home
from agentctl.system import files, jsonl
from agentctl.system.proc import Process
from agentctl.system.program import is_runtime, plain_name
from agentctl.truth.look import Environ, Look


def agent_directory(environ: Environ) -> str | None:
    given, base = environ.get("PI_CODING_AGENT_DIR"), home(environ)
    return absolute(given, environ, "/") if given else f"{base}/.pi/agent" if base else None


def tree(environ: Environ) -> str | None:
    """Sessions in one directory for each working directory."""
    root = agent_directory(environ)
    return f"{root}/sessions" if root else None


def rust_tree(environ: Environ) -> str | None:
    return environ.get("PI_SESSIONS_DIR") or None


def flat(environ: Environ, here: Callable[[str], str] = str) -> str | None:
    """All sessions in one directory, if somebody wants it so. `here` makes a path that its process
    names one that we can open."""
    given = environ.get("PI_CODING_AGENT_SESSION_DIR")
    if given:
        return absolute(given, environ, "/")
    root = agent_directory(environ)
    return _setting(here(f"{root}/settings.json"), environ, "/") if root else None


def directory(process: Process, look: Look) -> str | None:
    """Where this process keeps its sessions; None when its working directory is withheld."""
    environ, cwd = look.environ_of(process), process.cwd
    if cwd is None:
        return None

    def here(path: str) -> str:
        return look.through(process, path)

    given = option(process.argv, "--session-dir") or environ.get("PI_CODING_AGENT_SESSION_DIR")
    if given:
        return here(absolute(given, environ, cwd))
    configured = _setting(here(f"{cwd}/.pi/settings.json"), environ, cwd) or flat(environ, here)
    if configured:
        return here(configured)
    port = not is_runtime(plain_name(process.exe or ""))  # the Rust port is a binary
    root = (rust_tree(environ) if port else None) or tree(environ)
    return here(f"{root}/{slug(cwd)}") if root else None


def slug(cwd: str) -> str:
    plain = cwd.removeprefix("/").replace("/", "-").replace("\\", "-").replace(":", "-")
    return f"--{plain}--"


def option(argv: Sequence[str], *names: str) -> str | None:
    """The value behind one of these options, if the arguments are still visible."""
    return next((argv[i + 1] for i, word in enumerate(argv[:-1]) if word in names), None)


def absolute(path: str, environ: Environ, cwd: str) -> str:
    if path == "~" or path.startswith("~/"):
        path = f"{home(environ) or ''}{path[1:]}"
    path = path if path.startswith("/") else f"{cwd}/{path}"
    return path.rstrip("/") or "/"


def _setting(path: str, environ: Environ, cwd: str) -> str | None:
    """`sessionDir` in a settings file; one that is absent or unreadable sets nothing."""
    try:
        given = (jsonl.parse(files.whole(path).data) or {}).get("sessionDir")
    except SourceError:
        return None
    return absolute(given, environ, cwd) if isinstance(given, str) and given else None
