"""The parts of the daemon, each with a thread or a task of its own."""
