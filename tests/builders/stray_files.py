"""Puts files into a table's directory that no snapshot references."""

import os
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.table import Table

from tidyberg.control.orphan_sightings import SEEN, Sightings
from tidyberg.testing import local_path

DAY = 86_400.0


def put(table: Table, name: str, *, days: float = 10, content: bytes = b"x" * 100) -> str:
    """Writes a file below the table's location, as old as that. Returns its absolute path."""
    path = Path(local_path(table.location())) / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return backdate(path, days)


def backdate(path: Path | str, days: float) -> str:
    moment = time.time() - days * DAY
    os.utime(path, (moment, moment))
    return str(path)


def backdate_all(table: Table, days: float = 10) -> None:
    """Makes every file of the table so old that only references keep it."""
    for path in Path(local_path(table.location())).rglob("*"):
        if path.is_file():
            backdate(path, days)


def seen_days_ago(table: Table, days: float) -> None:
    """Dates the sightings of orphans back."""
    sightings = Sightings(table)
    seen = sightings.read()
    times = pc.subtract(seen["first_seen_ms"], int(days * DAY * 1000))
    sightings.write(pa.Table.from_arrays([*seen.columns[:3], times], schema=SEEN))
