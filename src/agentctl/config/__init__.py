"""Settings: the table of keys, the file, where each value comes from."""
