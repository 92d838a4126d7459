"""Text for people, shared by every front end. Only `progress` writes it."""
