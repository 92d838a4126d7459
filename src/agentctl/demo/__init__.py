"""The built-in demo agent: a real program with native files of its own, and the show made with it."""
