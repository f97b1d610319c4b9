"""Chooses the rows that a sample reads: files of the partitions that queries read most, spread over each partition."""

from collections import defaultdict
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tidyberg.model.file_bounds import FileBounds
from tidyberg.model.sizes import MB

SAMPLE_BYTES = 64 * MB  # compressed bytes of the columns
SAMPLE_ROWS = 400_000
_FILES_PER_PARTITION = 64
_MOST_FILES = 256  # each costs a request for its footer and at least one for its columns


@dataclass(frozen=True, slots=True)
class FileShare:
    """How many rows to take of one file, given by its position among the table's files."""

    file: int
    rows: int


def choose_files(files: FileBounds, reads: npt.NDArray[np.float64], most_rows: int = SAMPLE_ROWS) -> list[FileShare]:
    """Chooses files by how much queries read each of them today. `reads` has a weight per file.

    Partitions that queries read most come first, because only a sampled partition can be simulated. In each partition,
    files are taken at even distances, because neighbours were written at about the same time.
    """
    members: dict[int, list[int]] = defaultdict(list)
    weights: dict[int, float] = defaultdict(float)
    for number, (partition, weight, rows) in enumerate(
        zip(files.partitions.tolist(), reads.tolist(), files.records.tolist(), strict=True)
    ):
        if rows:
            members[partition].append(number)
            weights[partition] += weight
    ordered = sorted(members, key=lambda one: (-weights[one], one))
    per_partition = max(1, min(_FILES_PER_PARTITION, _MOST_FILES // max(1, len(ordered))))
    chosen: list[int] = []
    for partition in ordered:
        these = members[partition]
        count = min(len(these), _FILES_PER_PARTITION if len(ordered) == 1 else per_partition, _MOST_FILES - len(chosen))
        chosen += [these[int((number + 0.5) * len(these) / count)] for number in range(count)]
    total = sum(int(files.records[one]) for one in chosen)
    return [FileShare(one, max(1, int(files.records[one] * min(1.0, most_rows / total)))) for one in chosen]
