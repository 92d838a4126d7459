"""One verb a file: `parser()` returns its options, `run(arguments)` returns the exit code."""
