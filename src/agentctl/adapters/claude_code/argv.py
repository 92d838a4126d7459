"""Whether a process is Claude Code, and what it was called to do, from its arguments."""

from __future__ import annotations

from agentctl.adapters.argv import Arguments, split
from agentctl.adapters.claude_code.pid_record import check_id
from agentctl.errors import SourceError
from agentctl.light_typing import Sequence
from agentctl.system.proc import Process
from agentctl.system.program import is_runtime, plain_name, read_program

NAMES = frozenset({"claude", "claude.exe", "claude-code"})  # npm's binary is .exe on Linux, too
TITLE = "claude"  # on Node, Claude Code overwrites its arguments with this
# Claude Code was a script before 2.1.113; it still is in older editions of the Agent SDK.
SCRIPTS = frozenset({"cli.js", "cli.mjs"})
PACKAGES = ("/@anthropic-ai/claude-code/", "/@anthropic-ai/claude-agent-sdk/", "/claude-agent-sdk/")

# Words after `claude` that start no session.
COMMANDS = frozenset({
    "agents", "attach", "auth", "auto-mode", "daemon", "doctor", "gateway", "import", "install", "kill",
    "logs", "mcp", "plugin", "plugins", "purge", "respawn", "rm", "setup-token", "stop", "update",
    "upgrade",
})  # fmt: skip
VALUED = frozenset({"--session-id", "--resume", "-r", "--input-format"})
INFORMING = ("--version", "-v", "--help", "-h")
BACKGROUND = ("--bg", "--background")


def is_claude(process: Process) -> bool:
    """Decide by binary or script; on Node, by the title. Raises SourceError."""
    program = read_program(process)
    is_claude_name = program.name in NAMES or "/claude/versions/" in program.path
    # Children inherit the variable that turns an editor into Node, so check the binary first.
    if program.runtime or (not is_claude_name and is_electron_node(process)):
        script = program.path if program.runtime else next(iter(program.arguments), "")
        return _is_titled(process) or _is_script(script)
    return is_claude_name and not _is_embedded_tool(process)


def runs_on_node(process: Process) -> bool:
    """Return True for a version on Node. Those before 2.1 keep no record of themselves."""
    name = plain_name(process.exe or "")
    return is_runtime(name) or (name not in NAMES and is_electron_node(process))


def is_electron_node(process: Process) -> bool:
    """Return True if an editor's binary acts as Node, as when the Agent SDK starts Claude in an
    editor."""
    try:
        return process.environ().get("ELECTRON_RUN_AS_NODE") == "1"
    except SourceError:  # withheld: only the name counts
        return False


def _is_titled(process: Process) -> bool:
    return process.comm == TITLE and [word.strip() for word in process.argv] == [TITLE]


def _is_script(path: str) -> bool:
    name = plain_name(path)
    return name in NAMES or (name in SCRIPTS and any(package in path for package in PACKAGES))


def _is_embedded_tool(process: Process) -> bool:
    """Claude's binary contains grep, find and ripgrep, and runs them under those names. Such a process
    has an argv[0] that is neither Claude's name nor the start of its comm."""
    name = process.argv[0].rpartition("/")[2].partition(" ")[0] if process.argv else ""
    return bool(name) and plain_name(name) not in NAMES and not name.startswith(process.comm)


def is_machinery(argv: Sequence[str]) -> bool:
    """Return True for the supervisor of background jobs, and for their terminals."""
    return tuple(argv[1:3]) == ("daemon", "run") or "--bg-pty-host" in argv[1:2]


def find_errand(argv: Sequence[str]) -> str:
    """Return what the process does instead of running a session; empty if it runs one."""
    first = argv[1] if len(argv) > 1 else ""
    if first in COMMANDS or first in INFORMING:
        return f"`claude {first}` runs no session"
    if any(word in BACKGROUND for word in argv[1:]):
        return "it hands its prompt to a background job, which is another process"
    return ""


def read_session_id(argv: Sequence[str]) -> str | None:
    """Return the session that the command line names. A resume that forks names only its origin."""
    call = _split(argv)
    session = call.value("--session-id")
    if not session and not call.has("--fork-session"):
        session = call.value("--resume", "-r") or ""
    if session and session.endswith(".jsonl"):  # how the supervisor respawns a job
        session = session.rpartition("/")[2][:-6]
    return check_id(session)


def is_headless(argv: Sequence[str]) -> bool:
    return _split(argv).has("-p", "--print")


def is_prompted(argv: Sequence[str]) -> bool:
    """Return True if the prompt came with the start: headless, and not a stream of messages."""
    return is_headless(argv) and _split(argv).value("--input-format") != "stream-json"


def shows_list(argv: Sequence[str]) -> bool:
    """Return True for `--resume` without a session: Claude Code then shows a list of sessions."""
    return _split(argv).value("--resume", "-r") == ""


def _split(argv: Sequence[str]) -> Arguments:
    return split(argv[1:], VALUED)
