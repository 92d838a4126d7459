"""What the operating system says: processes, files, clocks, terminals."""
