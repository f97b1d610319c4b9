"""Formats counts of things for people."""


def plural(number: int, noun: str) -> str:
    """Return "1 file", "2 files" or "1,000 files"."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def count_boundaries(number: int) -> str:
    """Return "1 boundary" or "2 boundaries"."""
    return f"{number:,} {'boundary' if number == 1 else 'boundaries'}"


def plural_was(number: int, noun: str) -> str:
    """Return "1 file was" or "2 files were"."""
    return f"{plural(number, noun)} {'was' if number == 1 else 'were'}"


def are(number: int) -> str:
    """Return the verb that goes with a count."""
    return "is" if number == 1 else "are"
