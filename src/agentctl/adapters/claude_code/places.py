"""Where Claude Code keeps its files: its directory, and the transcripts in it."""

from __future__ import annotations

from agentctl.adapters.claude_code import agent
from agentctl.adapters.roots import find_root
from agentctl.light_functools import lru_cache
from agentctl.light_typing import Iterator
from agentctl.truth.look import Environ, Look


def claude_root(environ: Environ) -> str | None:
    return find_root(environ, agent.ROOT)


def find_transcript(root: str, session_id: str, cwd: str | None, look: Look) -> str | None:
    """Return the transcript of a session. Resumed in another directory, it stays in its first file."""
    projects, name = f"{root}/projects", f"{session_id}.jsonl"
    near = f"{projects}/{slug(cwd)}/{name}" if cwd else ""
    if near and look.stat(near) is not None:
        return near
    paths = (f"{projects}/{project}/{name}" for project in look.list_names(projects))
    return next((path for path in paths if look.stat(path) is not None), None)


def list_transcripts(root: str, prefix: str, look: Look) -> Iterator[tuple[str, str]]:
    """Yield id and path of each transcript whose id begins with the prefix."""
    for project in look.list_names(f"{root}/projects"):
        yield from list_transcripts_in(f"{root}/projects/{project}", prefix, look)


def list_transcripts_in(folder: str, prefix: str, look: Look) -> Iterator[tuple[str, str]]:
    for name in look.list_names(folder):
        # agent-ID.jsonl: older versions kept sub-agents here, which are not sessions.
        if name.endswith(".jsonl") and name.startswith(prefix) and not name.startswith("agent-"):
            yield name[:-6], f"{folder}/{name}"


@lru_cache(512)
def slug(path: str) -> str:
    """Return the project directory's name for a working directory. Two directories may share one."""
    units = memoryview(path.encode("utf-16-le", "surrogatepass")).cast("H")
    name = "".join(chr(unit) if unit < 128 and chr(unit).isalnum() else "-" for unit in units)
    if len(name) <= 200:
        return name
    number = 0
    for unit in units:  # Java's string hash, as a signed 32-bit number
        number = (number * 31 + unit) & 0xFFFFFFFF
    return f"{name[:200]}-{_base36(abs(number - (1 << 32) if number >> 31 else number))}"


def _base36(number: int) -> str:
    digits = ""
    while number:
        number, digit = divmod(number, 36)
        digits = "0123456789abcdefghijklmnopqrstuvwxyz"[digit] + digits
    return digits or "0"
