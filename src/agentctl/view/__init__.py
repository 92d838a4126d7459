"""Text for people. No I/O, shared by every front end."""
