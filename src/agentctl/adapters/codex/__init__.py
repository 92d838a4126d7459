"""Codex: its facts (`agent`) and its adapter (`adapter`, with the modules beside it)."""
