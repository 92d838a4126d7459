"""What shims of agentctl 0.1 name on command lines. Kept for one release."""
