"""Claude Code: the facts that agentctl needs without importing the adapter. Constants only."""

from agentctl.system.program import BINARY_RUNTIMES, SCRIPT_RUNTIMES

ADAPTER = "agentctl.adapters.claude_code.adapter:ClaudeCode"
BINARY = "claude"
# Claude's own installer names each binary after its version: "#.#.#".
PROCESSES = frozenset({"claude", "claude.exe", "claude-#", "#.#.#"}) | SCRIPT_RUNTIMES | BINARY_RUNTIMES
ROOT = ("CLAUDE_CONFIG_DIR", ".claude")
DIRECTORIES = ("CLAUDE_CONFIG_DIR",)
PID_FILES = "sessions"
FIRST_FILES = ("sessions/*",)
# One by one: hundreds of settings begin with CLAUDE_CODE_, too.
MARKERS = frozenset({
    "CLAUDECODE", "CLAUDE_PID", "CLAUDE_EFFORT", "CLAUDE_PROJECT_DIR", "CLAUDE_ENV_FILE",
    "CLAUDE_CODE_CHILD_SESSION", "CLAUDE_CODE_ENTRYPOINT", "CLAUDE_CODE_EXECPATH",
    "CLAUDE_CODE_SESSION_ATTENDED", "CLAUDE_CODE_SESSION_BEGAN_AS_COPY",
    "CLAUDE_CODE_SESSION_CREATED_AT_MS", "CLAUDE_CODE_SESSION_ID", "CLAUDE_CODE_SESSION_KIND",
    "CLAUDE_CODE_SESSION_NAME", "CLAUDE_CODE_SESSION_ORIGIN", "CLAUDE_CODE_SPAWN_TIMESTAMP_MS",
    "CLAUDE_CODE_TMUX_SESSION", "CLAUDE_CODE_TOOL_USE_ID",
})  # fmt: skip
MARKER_PREFIXES = ("CLAUDE_CODE_BRIDGE_", "CLAUDE_CODE_MESSAGING_")
MARKER_VALUES = {
    "CLAUDECODE": {
        "COREPACK_ENABLE_AUTO_PIN": "0",
        "GIT_EDITOR": "true",
        "NoDefaultCurrentDirectoryInExePath": "1",
    },
}
