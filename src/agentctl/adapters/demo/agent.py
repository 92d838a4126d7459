"""The demo agent: the facts that agentctl needs without importing the adapter. Constants only."""

ADAPTER = "agentctl.adapters.demo.adapter:Demo"
BINARY = "agentctl"
PROCESSES = frozenset({"demo-agent"})
