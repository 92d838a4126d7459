"""Fake agents: programs that write the agents' native files and die on command."""
