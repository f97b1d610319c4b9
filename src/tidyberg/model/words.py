"""Numbers in sentences."""


def plural(number: int, noun: str) -> str:
    """1 file, 2,000 files."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"
