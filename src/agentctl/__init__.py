"""agentctl: one control plane for coding agents. A status is computed, never stored."""

__version__ = "0.1.0"  # a literal: importlib.metadata would cost 26 ms at every start
