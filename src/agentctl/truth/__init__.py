"""What is running and how we know. Reads only; knows no agent by name."""
