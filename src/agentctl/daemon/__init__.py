"""The daemon: what must happen while nobody is looking. It owns no agent and no truth."""
