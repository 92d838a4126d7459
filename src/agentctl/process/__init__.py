"""Processes to act on: handles, trees, our own programs, runs with a time limit."""
