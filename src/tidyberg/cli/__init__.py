"""The command line: parse, call the control room, show."""
