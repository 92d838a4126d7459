"""Check the installation and the agents."""
