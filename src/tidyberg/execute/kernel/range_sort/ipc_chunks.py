"""Rows as chunks of a shuffle: Arrow IPC streams, small enough to travel."""

from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidyberg.execute.kernel.shuffle.fitting import fitting_chunks

_DICTIONARY_SHARE = 4  # dictionaries are sent with every chunk, so they must be this many times smaller than the rows


def to_chunks(rows: pa.Table) -> Iterator[pa.Buffer]:
    return fitting_chunks(rows, _to_ipc)


def from_chunk(chunk: pa.Buffer) -> pa.Table:
    return pa.ipc.open_stream(chunk).read_all()


def _to_ipc(rows: pa.Table) -> pa.Buffer:
    size = pa.MockOutputStream()
    _write_ipc(rows, size)
    chunk = pa.allocate_buffer(size.size())  # a stream that grows would copy the rows again
    _write_ipc(rows, pa.FixedSizeBufferWriter(chunk))
    return chunk


def _write_ipc(rows: pa.Table, sink: pa.NativeFile) -> None:
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_table(rows)


def plain_if_large(column: pa.Array, chunks: int) -> pa.Array:
    """Decodes a dictionary column whose dictionary would take too much of so many chunks."""
    if not pa.types.is_dictionary(column.type):
        return column
    if column.dictionary.nbytes * chunks * _DICTIONARY_SHARE <= column.indices.nbytes:
        return column
    return column.cast(column.type.value_type)


def slices(ends: npt.NDArray[np.int64]) -> Iterator[tuple[int, int, int]]:
    """Yields number, begin and size of each part that is not empty."""
    for number, (begin, end) in enumerate(pairwise([0, *ends.tolist()])):
        if end > begin:
            yield number, begin, end - begin
