"""What a Claude Code process was called to do, from its arguments."""

from __future__ import annotations

from collections.abc import Sequence

from agentctl.adapters.claude_code.registry import plausible

# Words after `claude` that start no session.
COMMANDS = frozenset({
    "agents", "attach", "auth", "auto-mode", "daemon", "doctor", "gateway", "import", "install", "kill",
    "logs", "mcp", "plugin", "plugins", "purge", "respawn", "rm", "setup-token", "stop", "update",
    "upgrade",
})  # fmt: skip


def is_machinery(argv: Sequence[str]) -> bool:
    """The supervisor of background jobs, and the terminals it makes for them."""
    return tuple(argv[1:3]) == ("daemon", "run") or "--bg-pty-host" in argv[1:2]


def argued(argv: Sequence[str]) -> str | None:
    """The session that the command line names. A resume that forks names only its origin."""
    for flags in (("--session-id",), ("--resume", "-r")):
        for index, word in enumerate(argv):
            flag, equals, value = word.partition("=")
            if flag in flags and (equals or index + 1 < len(argv)):
                found = value if equals else argv[index + 1]
                if found.endswith(".jsonl"):  # how the supervisor respawns a job
                    found = found.rpartition("/")[2][:-6]
                return plausible(found) if len(found) == 36 and found.count("-") == 4 else None
        if "--fork-session" in argv:
            return None
    return None


def chooses(argv: Sequence[str]) -> bool:
    """Whether it was told to resume, but not which session: then it shows a list of them."""
    followed = zip(argv, [*argv[1:], "-"], strict=True)
    return any(word in ("--resume", "-r") and then.startswith("-") for word, then in followed)
