"""Fuses: an action that fires when its time is up."""
