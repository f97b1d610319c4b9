"""The command line: parses arguments, calls `control` and shows the result."""
