"""What we remember: labels for sessions we launched, and what files said. Never what a session is."""
