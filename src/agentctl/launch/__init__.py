"""Start agents, and see that they have started."""
