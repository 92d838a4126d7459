"""Pi: the facts that agentctl needs without importing the adapter. Constants only."""

from agentctl.system.program import BINARY_RUNTIMES, SCRIPT_RUNTIMES

ADAPTER = "agentctl.adapters.pi.adapter:Pi"
BINARY = "pi"
PROCESSES = frozenset({"pi", "pi-#", "pi_agent_rust"}) | SCRIPT_RUNTIMES | BINARY_RUNTIMES
DIRECTORIES = ("PI_CODING_AGENT_DIR", "PI_CODING_AGENT_SESSION_DIR")
MARKERS = frozenset({
    "PI_CODING_AGENT", "PI_MODEL", "PI_PROVIDER", "PI_REASONING_LEVEL", "PI_SESSION_FILE",
    "PI_SESSION_ID",
})  # fmt: skip
