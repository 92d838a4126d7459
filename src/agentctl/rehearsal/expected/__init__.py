"""What each agent shows at each step: `expected(version)`, measured on the versions named there."""
