"""Which rows a task takes of a file that it shares with others: from the footer that all of them read alike.

Files are cut by bytes, which manifests know, so that outputs come out equal; a cut is a row, so that every row is in
exactly one share. Inside a row group its place is judged as if all rows took the same.
"""

from collections.abc import Sequence

import pyarrow.parquet as pq

from tidyberg.model.task import TaskInput


def row_range(footer: pq.FileMetaData, file: TaskInput) -> tuple[int, int]:
    """The first row that the task takes, and the first after those."""
    if file.share is None:
        return 0, footer.num_rows
    numbers = range(footer.num_row_groups)
    groups = [(footer.row_group(number).num_rows, stored_bytes(footer, number)) for number in numbers]
    begin, end = (row_at(groups, cut, file.size, file.share.slack) for cut in (file.share.begin, file.share.end))
    return begin, end


def stored_bytes(footer: pq.FileMetaData, number: int) -> int:
    """What the column chunks of a row group take in the file."""
    group = footer.row_group(number)
    return sum(group.column(index).total_compressed_size for index in range(group.num_columns))


def row_group_starts(footer: pq.FileMetaData) -> list[int]:
    """The first row of each row group."""
    starts, start = [], 0
    for number in range(footer.num_row_groups):
        starts.append(start)
        start += footer.row_group(number).num_rows
    return starts


def row_at(groups: Sequence[tuple[int, int]], cut: int, size: int, slack: int) -> int:
    """The row at which a cut at that byte of the file is made; the same for the shares on both of its sides.

    `groups` are the rows and bytes of each row group.
    """
    if cut <= 0:
        return 0
    if cut >= size:
        return sum(rows for rows, _ in groups)
    wanted = sum(stored for _, stored in groups) * cut // size  # the footer and gaps belong to nobody
    first = 0
    for rows, stored in groups:
        if wanted < stored:
            if min(wanted, stored - wanted) > slack:
                return first + rows * wanted // stored
            return first if wanted <= stored - wanted else first + rows
        wanted -= stored
        first += rows
    return first
