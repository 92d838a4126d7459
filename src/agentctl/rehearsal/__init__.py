"""Real agents, played offline: a room of their own, a model that follows a script, a private home.

`agentctl doctor --live` rehearses the agents a person has installed; `tests/real/` proves our claims on
pinned ones. Nothing in here decides a status: it makes real agents do known things.
"""
