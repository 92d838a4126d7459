"""What each agent must show at each step: `expected(version)`, measured on the versions named there."""
