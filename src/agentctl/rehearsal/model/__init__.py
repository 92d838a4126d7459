"""A fake model server: three protocols, scripted through the prompt, with a journal of what it sent."""
