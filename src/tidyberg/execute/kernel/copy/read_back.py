"""Reads the footers of copied files back: they must list the row groups of the inputs, in order."""

from collections.abc import Sequence

import pyarrow.parquet as pq

from tidyberg.execute.kernel.read.source import Source
from tidyberg.failures import FailureKind, KernelFailure
from tidyberg.storage.assembly import Assembly
from tidyberg.storage.file_io import Storage

_Listed = tuple[int, tuple[int, ...]]  # rows, and the bytes of every column


def read_back_footers(
    assembly: Assembly, sources: Sequence[Source], columns: int, storage: Storage
) -> list[pq.FileMetaData]:
    """Returns the outputs' footers, read by Arrow. Raises if their row groups are not those of the inputs.

    Compares the first `columns` leaf columns, those of the table.
    """
    footers = [_footer(file.path, file.size, storage) for file in assembly.files]
    expected = [listed for source in sources for listed in _listed(source.arrow_footer, columns) if listed[0]]
    found = [listed for footer in footers for listed in _listed(footer, columns)]
    if found != expected:
        raise KernelFailure(
            FailureKind.STORAGE,
            f"The copied files in {assembly.files[0].path.rpartition('/')[0]} do not list the row groups of "
            "their inputs.",
        )
    return footers


def row_groups(footers: Sequence[pq.FileMetaData], columns: int) -> tuple[tuple[int, int], ...]:
    """Returns the rows and bytes of each row group, which verification compares on the driver."""
    return tuple((rows, sum(sizes)) for footer in footers for rows, sizes in _listed(footer, columns) if rows)


def _footer(path: str, size: int, storage: Storage) -> pq.FileMetaData:
    with storage.open_input(storage.place(path), size) as file, storage.guard(path):
        if file.size() != size:
            raise KernelFailure(
                FailureKind.STORAGE, f"{path} has {file.size()} bytes after it was written; {size} were expected."
            )
        return pq.read_metadata(file)


def _listed(footer: pq.FileMetaData, columns: int) -> list[_Listed]:
    groups = [footer.row_group(number) for number in range(footer.num_row_groups)]
    return [
        (group.num_rows, tuple(group.column(index).total_compressed_size for index in range(columns)))
        for group in groups
    ]
