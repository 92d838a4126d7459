"""OpenCode: the facts that agentctl needs without importing the adapter. Constants only."""

from agentctl.system.program import BINARY_RUNTIMES

ADAPTER = "agentctl.adapters.opencode.adapter:OpenCode"
BINARY = "opencode"
PROCESSES = frozenset({"opencode", "opencode.exe", "opencode-#"}) | BINARY_RUNTIMES
ROOT = ("XDG_DATA_HOME", ".local/share", "opencode")
DIRECTORIES = ("OPENCODE_DB", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME")
# A process that has the database open locks its shared index. The database changes all the time, so it
# is not among FIRST_FILES.
LOCKS = "opencode*.db-shm"
MARKERS = frozenset({"AGENT", "OPENCODE", "OPENCODE_PID"})
