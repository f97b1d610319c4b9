"""Converts sizes as people write them ("512MB", "1 GB") to bytes and back."""

import re
from decimal import Decimal

from tidyberg.errors import BadInput

KB, MB, GB, TB = 1024, 1024**2, 1024**3, 1024**4
LARGEST = 2**63 - 1  # file formats and catalogs store sizes in 64 bits

_UNITS = {"": 1, "B": 1, "K": KB, "M": MB, "G": GB, "T": TB}
_SIZE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*(?:([kmgt]?)(?:i?b)?)\s*", re.IGNORECASE)


def parse_size(text: str | int) -> int:
    """Parse "32MB", "1GB", "1.5 GiB", "1048576" or a number of bytes. Units are powers of 1,024."""
    if isinstance(text, bool) or not isinstance(text, str | int):
        raise BadInput(f"{text!r} is not a size.", hint='Write a size like "512MB" or "1GB".')
    match = _SIZE.fullmatch(str(text))
    if match is None:
        raise BadInput(f"{text!r} is not a size.", hint='Write a size like "512MB" or "1GB".')
    size = Decimal(match[1]) * _UNITS[match[2].upper()]  # a float would round large numbers of bytes
    if size < 1:
        raise BadInput(f"{text!r} is not a size: it must be greater than zero.")
    if size > LARGEST:
        raise BadInput(f"{str(text)[:40]!r} is too large for a size.", hint='Write a size like "512MB" or "1GB".')
    return int(size)


def format_size(size: float) -> str:
    """Format a size for people: "2.6 MB", "512 MB", "3.1 GB"."""
    for unit, name in ((TB, "TB"), (GB, "GB"), (MB, "MB"), (KB, "KB")):
        if abs(size) >= unit:
            value = size / unit
            return f"{value:.0f} {name}" if value >= 100 or value == int(value) else f"{value:.1f} {name}"
    return f"{size:.0f} B"
