"""Codex: the facts that agentctl needs without importing the adapter. Constants only."""

from agentctl.system.program import BINARY_RUNTIMES

ADAPTER = "agentctl.adapters.codex.adapter:Codex"
BINARY = "codex"
PROCESSES = frozenset({"codex", "codex-#", "codex.exe"}) | BINARY_RUNTIMES
ROOT = ("CODEX_HOME", ".codex")
DIRECTORIES = ("CODEX_HOME", "CODEX_SQLITE_HOME")
LOCKS = "thread-writer-locks/*"
FIRST_FILES = ("thread-writer-locks/*",)
MARKERS = frozenset({
    "CODEX_CI", "CODEX_PERMISSION_PROFILE", "CODEX_SESSION_ID", "CODEX_THREAD_ID",
    "CODEX_TOOL_CALL_ID", "CODEX_VERSION",
})  # fmt: skip
MARKER_PREFIXES = ("CODEX_MANAGED_", "CODEX_SANDBOX")
