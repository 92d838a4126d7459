"""Follow sessions: report events, wait for a state."""
