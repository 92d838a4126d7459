"""The question that everyone asks: which sessions are there, and what was said in them."""
