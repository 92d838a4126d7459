"""The daemon from outside: find it, call it, start it, stop it, install it."""
