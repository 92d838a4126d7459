"""Follow sessions: events, waiting for a state."""
