"""Reads the footers of copied files back from storage: they must list the very row groups of the inputs, in order."""

from collections.abc import Sequence

import pyarrow.parquet as pq

from tidyberg.execute.kernel.read.source import Source
from tidyberg.failures import FailureKind, KernelFailure
from tidyberg.storage.assembly import Assembly
from tidyberg.storage.file_io import Storage

_Listed = tuple[int, tuple[int, ...]]  # rows, and the bytes of every column


def confirm(assembly: Assembly, sources: Sequence[Source], columns: int, storage: Storage) -> list[pq.FileMetaData]:
    """The outputs' footers as Arrow reads them; raises where the table's `columns` are not what was to be written."""
    footers = [_footer(file.path, file.size, storage) for file in assembly.files]
    expected = [listed for source in sources for listed in _listed(source.arrow_footer, columns) if listed[0]]
    found = [listed for footer in footers for listed in _listed(footer, columns)]
    if found != expected:
        raise KernelFailure(
            FailureKind.STORAGE,
            f"The files copied to {assembly.files[0].path.rpartition('/')[0]} do not list the row groups of "
            "their inputs.",
        )
    return footers


def row_groups(footers: Sequence[pq.FileMetaData], columns: int) -> tuple[tuple[int, int], ...]:
    """Rows and bytes of each, for verification by who has seen neither side."""
    return tuple((rows, sum(sizes)) for footer in footers for rows, sizes in _listed(footer, columns) if rows)


def _footer(path: str, size: int, storage: Storage) -> pq.FileMetaData:
    with storage.open_input(storage.place(path), size) as file, storage.guard(path):
        if file.size() != size:
            raise KernelFailure(FailureKind.STORAGE, f"{path} has {file.size()} bytes instead of {size}.")
        return pq.read_metadata(file)


def _listed(footer: pq.FileMetaData, columns: int) -> list[_Listed]:
    groups = [footer.row_group(number) for number in range(footer.num_row_groups)]
    return [
        (group.num_rows, tuple(group.column(index).total_compressed_size for index in range(columns)))
        for group in groups
    ]
