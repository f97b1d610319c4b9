"""Finds columns by the names that users write, as SQL does, and suggests names that look similar."""

import difflib
import re
from collections.abc import Sequence

PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def names_like(wanted: str, names: Sequence[str]) -> list[str]:
    """Finds names without regard to case, as SQL does. If two names differ only in case, the exact one is meant."""
    return [wanted] if wanted in names else [name for name in names if name.lower() == wanted.lower()]


def quoted_name(name: str) -> str:
    """Returns a name as SQL text. Parts that are no plain names are quoted."""
    parts = name.split(".")
    return ".".join(part if PLAIN_NAME.fullmatch(part) else '"' + part.replace('"', '""') + '"' for part in parts)


def some_of(names: Sequence[str]) -> str:
    return f"{', '.join(names[:10])}{', …' if len(names) > 10 else ''}"


def similar_names(wanted: str, names: Sequence[str]) -> str | None:
    """Returns a question with up to three names that look similar, or None."""
    close = difflib.get_close_matches(wanted, names, n=3, cutoff=0.6)
    return f"Did you mean {' or '.join(close)}?" if close else None
