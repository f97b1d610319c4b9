"""Gathers rows in another order."""

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc


def combined(column: pa.ChunkedArray) -> pa.Array:
    """Returns the values of a column as one array. Its dictionaries must be equal."""
    if column.num_chunks == 1:
        return column.chunk(0)
    array = column.combine_chunks()
    return pa.concat_arrays(array.chunks) if isinstance(array, pa.ChunkedArray) else array


def gathered(columns: list[pa.Array], positions: npt.NDArray[np.int64], schema: pa.Schema) -> pa.RecordBatch:
    """Returns the rows at these positions."""
    wanted = pa.array(positions)
    return pa.RecordBatch.from_arrays([_taken(column, wanted) for column in columns], schema=schema)


def _taken(column: pa.Array, wanted: pa.Array) -> pa.Array:
    """Takes strings that are all equally long as values of fixed width, in a quarter of the time.

    Ids, hashes and codes are such strings.
    """
    fixed = _of_fixed_width(column) if len(wanted) <= len(column) else None
    taken = pc.take(column if fixed is None else fixed, wanted, boundscheck=False)
    if fixed is None:
        return taken
    width = fixed.type.byte_width
    offsets = np.arange(0, len(wanted) * width + 1, width, dtype=np.int32)
    return pa.Array.from_buffers(column.type, len(wanted), [None, pa.py_buffer(offsets), taken.buffers()[1]])


def _of_fixed_width(column: pa.Array) -> pa.Array | None:
    """Returns strings as values of fixed width; None if their lengths differ, or if there are nulls or other types."""
    if not (pa.types.is_string(column.type) or pa.types.is_binary(column.type)) or column.null_count or not len(column):
        return None
    offsets = np.frombuffer(column.buffers()[1], np.int32)[column.offset : column.offset + len(column) + 1]
    first, width = int(offsets[0]), int(offsets[1] - offsets[0])
    if not width or int(offsets[-1]) - first != width * len(column) or np.any(np.diff(offsets) != width):
        return None
    return pa.Array.from_buffers(pa.binary(width), len(column), [None, column.buffers()[2].slice(first)])
