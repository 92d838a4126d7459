"""The environment variables by which agents mark the processes they start.

A supervisor is often started from an agent's own shell. What that agent tells its tools must not reach
the agent that we start: it would take itself for a part of the other one (an interactive Claude Code
that inherits CLAUDE_CODE_CHILD_SESSION keeps no transcript), and our own search for leftovers would
find it among the other's tools.

Named one by one where an agent has settings under the same prefix: CLAUDE_CODE_ alone begins hundreds.
What a person set (directories, models, keys, proxies) stays.
"""

from __future__ import annotations

from collections.abc import Mapping

NAMES: Mapping[str, frozenset[str]] = {
    "claude-code": frozenset({
        "CLAUDECODE", "CLAUDE_PID", "CLAUDE_EFFORT", "CLAUDE_PROJECT_DIR", "CLAUDE_ENV_FILE",
        "CLAUDE_CODE_CHILD_SESSION", "CLAUDE_CODE_ENTRYPOINT", "CLAUDE_CODE_EXECPATH",
        "CLAUDE_CODE_SESSION_ATTENDED", "CLAUDE_CODE_SESSION_BEGAN_AS_COPY",
        "CLAUDE_CODE_SESSION_CREATED_AT_MS", "CLAUDE_CODE_SESSION_ID", "CLAUDE_CODE_SESSION_KIND",
        "CLAUDE_CODE_SESSION_NAME", "CLAUDE_CODE_SESSION_ORIGIN", "CLAUDE_CODE_SPAWN_TIMESTAMP_MS",
        "CLAUDE_CODE_TMUX_SESSION", "CLAUDE_CODE_TOOL_USE_ID",
    }),
    "codex": frozenset({
        "CODEX_CI", "CODEX_PERMISSION_PROFILE", "CODEX_SESSION_ID", "CODEX_THREAD_ID",
        "CODEX_TOOL_CALL_ID", "CODEX_VERSION",
    }),
    "opencode": frozenset({"AGENT", "OPENCODE", "OPENCODE_PID"}),
    "pi": frozenset({
        "PI_CODING_AGENT", "PI_MODEL", "PI_PROVIDER", "PI_REASONING_LEVEL", "PI_SESSION_FILE",
        "PI_SESSION_ID",
    }),
    "several agents": frozenset({"AI_AGENT"}),
    "agentctl": frozenset({
        "AGENTCTL_ADAPTER", "AGENTCTL_BRANCH", "AGENTCTL_CWD", "AGENTCTL_EXIT_CODE", "AGENTCTL_GROUP",
        "AGENTCTL_FUSE_DIRECTORY", "AGENTCTL_FUSE_ID", "AGENTCTL_FUSE_LABEL", "AGENTCTL_HOOK",
        "AGENTCTL_LAUNCH_ID", "AGENTCTL_MODEL", "AGENTCTL_OUTCOME", "AGENTCTL_SESSION_ID",
    }),
}  # fmt: skip
PREFIXES = (
    "CLAUDE_CODE_BRIDGE_", "CLAUDE_CODE_MESSAGING_", "CODEX_MANAGED_", "CODEX_SANDBOX",
)  # fmt: skip
# Set by an agent for its tools, but by people too: taken away only with this very value, and only where
# the agent's own mark stands beside it.
BESIDE: Mapping[str, Mapping[str, str]] = {
    "CLAUDECODE": {
        "COREPACK_ENABLE_AUTO_PIN": "0",
        "GIT_EDITOR": "true",
        "NoDefaultCurrentDirectoryInExePath": "1",
    },
}
_ALL = frozenset().union(*NAMES.values())


def scrubbed(environ: Mapping[str, str]) -> tuple[dict[str, str], list[str]]:
    """What remains, and the names of what was taken away, sorted."""
    removed = {name for name in environ if name in _ALL or name.startswith(PREFIXES)}
    for mark, settings in BESIDE.items():
        if mark in environ:
            removed.update(name for name, value in settings.items() if environ.get(name) == value)
    return {name: value for name, value in environ.items() if name not in removed}, sorted(removed)
