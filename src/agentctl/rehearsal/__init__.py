"""Rehearsals: real agents run offline, in a sandbox with a scripted model and a private home.

`agentctl doctor --live` rehearses the installed agents; `tests/real/` uses the same parts with pinned
versions. No code here decides a status: it makes real agents do known things.
"""
