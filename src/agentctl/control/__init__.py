"""Changes the world: starts, stops and resumes agents, on the truth that `truth/` finds."""
