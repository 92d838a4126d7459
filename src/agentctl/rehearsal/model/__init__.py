"""A fake model server: three protocols, scripted by the prompt, with a journal of what it sent."""
