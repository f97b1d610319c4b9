"""Counts of things, as people read them."""


def plural(number: int, noun: str) -> str:
    """1 file, 2 files, 1,000 files."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def plural_was(number: int, noun: str) -> str:
    """1 file was, 2 files were."""
    return f"{plural(number, noun)} {'was' if number == 1 else 'were'}"


def are(number: int) -> str:
    """The verb that goes with so many."""
    return "is" if number == 1 else "are"
