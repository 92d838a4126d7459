"""The parent process of one launched agent. A program of its own, in a directory of its own."""
