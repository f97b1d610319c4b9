"""Finds the rows that a task reads from a file that several tasks share.

The plan divides a file by bytes, which manifests know, so that outputs have the same size. Each task turns those cuts
into rows with the footer. All tasks read the same footer, so every row belongs to exactly one task. Inside a row group
all rows are assumed to have the same size.
"""

from collections.abc import Sequence

import pyarrow.parquet as pq

from tidyberg.model.task import TaskInput


def row_range(footer: pq.FileMetaData, file: TaskInput) -> tuple[int, int]:
    """Returns the first row that the task reads, and the first row after its range."""
    if file.share is None:
        return 0, footer.num_rows
    numbers = range(footer.num_row_groups)
    groups = [(footer.row_group(number).num_rows, stored_bytes(footer, number)) for number in numbers]
    begin, end = (row_at(groups, cut, file.size, file.share.slack) for cut in (file.share.begin, file.share.end))
    return begin, end


def stored_bytes(footer: pq.FileMetaData, number: int) -> int:
    """Returns how many bytes the column chunks of a row group take in the file."""
    group = footer.row_group(number)
    return sum(group.column(index).total_compressed_size for index in range(group.num_columns))


def row_group_starts(footer: pq.FileMetaData) -> list[int]:
    """Returns the first row of each row group."""
    starts, start = [], 0
    for number in range(footer.num_row_groups):
        starts.append(start)
        start += footer.row_group(number).num_rows
    return starts


def row_at(groups: Sequence[tuple[int, int]], cut: int, size: int, slack: int) -> int:
    """Returns the row for a cut at this byte of the file; the tasks on both sides get the same row.

    `groups` holds the rows and bytes of each row group.
    """
    if cut <= 0:
        return 0
    if cut >= size:
        return sum(rows for rows, _ in groups)
    wanted = sum(stored for _, stored in groups) * cut // size  # leaves out the footer and gaps
    first = 0
    for rows, stored in groups:
        if wanted < stored:
            if min(wanted, stored - wanted) > slack:
                return first + rows * wanted // stored
            return first if wanted <= stored - wanted else first + rows
        wanted -= stored
        first += rows
    return first
