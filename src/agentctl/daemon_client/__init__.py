"""The daemon, seen from outside: is it there, ask it, start it, stop it, install it."""
