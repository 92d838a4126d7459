"""Whether a process is Claude Code, and what it was called to do, from its arguments."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from agentctl.adapters.claude_code.pid_record import plausible
from agentctl.errors import SourceError
from agentctl.system.proc import Process
from agentctl.system.program import is_runtime, plain_name, program_of

NAMES = frozenset({"claude", "claude.exe", "claude-code"})  # npm's binary is called .exe on Linux too
TITLE = "claude"  # what it calls itself on Node, where it overwrites its arguments with it
# Before 2.1.113 it was a script, and so it is in older editions of the Agent SDK.
SCRIPTS = frozenset({"cli.js", "cli.mjs"})
PACKAGES = ("/@anthropic-ai/claude-code/", "/@anthropic-ai/claude-agent-sdk/", "/claude-agent-sdk/")

# Words after `claude` that start no session.
COMMANDS = frozenset({
    "agents", "attach", "auth", "auto-mode", "daemon", "doctor", "gateway", "import", "install", "kill",
    "logs", "mcp", "plugin", "plugins", "purge", "respawn", "rm", "setup-token", "stop", "update",
    "upgrade",
})  # fmt: skip


INFORMING = ("--version", "-v", "--help", "-h")
BACKGROUND = ("--bg", "--background")


def is_claude(process: Process) -> bool:
    """By its binary or script; on Node by its title. Raises SourceError."""
    program = program_of(process)
    ours = program.name in NAMES or "/claude/versions/" in program.path
    # children inherit the variable that makes an editor Node, so a binary of ours comes first
    if program.runtime or (not ours and runs_as_node(process)):
        script = program.path if program.runtime else next(iter(program.arguments), "")
        return _is_titled(process) or _is_script(script)
    return ours and not _is_embedded_tool(process)


def on_node(process: Process) -> bool:
    """Whether it is a version that runs on Node: those before 2.1 keep no record of themselves."""
    name = plain_name(process.exe or "")
    return is_runtime(name) or (name not in NAMES and runs_as_node(process))


def runs_as_node(process: Process) -> bool:
    """Whether an editor's binary was asked to be Node: so the Agent SDK starts Claude inside of one."""
    try:
        return process.environ().get("ELECTRON_RUN_AS_NODE") == "1"
    except SourceError:  # withheld: its name is all there is
        return False


def _is_titled(process: Process) -> bool:
    return process.comm == TITLE and [word.strip() for word in process.argv] == [TITLE]


def _is_script(path: str) -> bool:
    name = plain_name(path)
    return name in NAMES or (name in SCRIPTS and any(package in path for package in PACKAGES))


def _is_embedded_tool(process: Process) -> bool:
    """Claude's binary also contains grep, find and ripgrep, and runs them under those names. Such a
    process has an argv[0] that is neither Claude's name nor its comm."""
    called = process.argv[0].rpartition("/")[2].partition(" ")[0] if process.argv else ""
    return bool(called) and plain_name(called) not in NAMES and not called.startswith(process.comm)


def is_machinery(argv: Sequence[str]) -> bool:
    """The supervisor of background jobs, and the terminals it makes for them."""
    return tuple(argv[1:3]) == ("daemon", "run") or "--bg-pty-host" in argv[1:2]


def errand(argv: Sequence[str]) -> str:
    """What it was called to do instead of running a session; empty if it runs one."""
    first = argv[1] if len(argv) > 1 else ""
    if first in COMMANDS or first in INFORMING:
        return f"`claude {first}` runs no session"
    if any(word in BACKGROUND for word in argv[1:]):
        return "it hands its prompt to a background job, which is another process"
    return ""


def argued(argv: Sequence[str]) -> str | None:
    """The session that the command line names. A resume that forks names only its origin."""
    for flags in (("--session-id",), ("--resume", "-r")):
        for index, word in enumerate(argv):
            flag, equals, value = word.partition("=")
            if flag in flags and (equals or index + 1 < len(argv)):
                found = value if equals else argv[index + 1]
                if found.endswith(".jsonl"):  # how the supervisor respawns a job
                    found = found.rpartition("/")[2][:-6]
                return plausible(found)
        if "--fork-session" in argv:
            return None
    return None


def is_headless(argv: Sequence[str]) -> bool:
    return "-p" in argv or "--print" in argv


def is_prompted(argv: Sequence[str]) -> bool:
    """Whether it has its prompt from the start: headless, and not fed with message after message."""
    pairs = itertools.pairwise(argv)
    fed = "--input-format=stream-json" in argv or ("--input-format", "stream-json") in pairs
    return is_headless(argv) and not fed


def chooses(argv: Sequence[str]) -> bool:
    """Whether it was told to resume, but not which session: then it shows a list of them."""
    followed = zip(argv, [*argv[1:], "-"], strict=True)
    return any(word in ("--resume", "-r") and then.startswith("-") for word, then in followed)
