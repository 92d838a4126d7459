"""Which sessions exist, how to find and select them, and their messages."""
