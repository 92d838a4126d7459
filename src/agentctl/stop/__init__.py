"""Stop sessions, and prove that they stopped."""
