"""Git worktrees for agents: make, list, judge and remove them."""
