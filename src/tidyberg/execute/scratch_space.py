"""Refuses shuffles for which the scratch directory has too little space, before any data is read."""

import shutil
from collections.abc import Iterable
from pathlib import Path

from tidyberg.errors import StorageError
from tidyberg.model.shuffle import ShuffleJob
from tidyberg.model.sizes import format_size

_HINT = (
    "Its files stay as they are. Free some space, or set TMPDIR (or spark.local.dir, if Spark runs on this machine) to "
    "a directory with more. Or leave large partitions out, or sort them on a cluster."
)


def free_bytes(directory: Path) -> int:
    return shutil.disk_usage(directory).free


def refuse_without_space(jobs: Iterable[ShuffleJob], directory: Path) -> None:
    """Raises StorageError if one of the shuffles cannot fit, even alone on the disk."""
    needed = max((job.scratch.least for job in jobs if job.scratch is not None), default=0)
    free = free_bytes(directory)
    if needed > free:
        raise StorageError(
            f"A group needs at least {format_size(needed)} ({needed:,} bytes) of scratch space to be sorted, but the "
            f"disk of {directory} has only {format_size(free)} ({free:,} bytes) free.",
            hint=_HINT,
        )
