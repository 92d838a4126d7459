"""The built-in demo agent, a program with native files of its own, and the demo that runs it."""
