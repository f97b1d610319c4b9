"""Finds the distinct partition tuples of entries, column by column, and a text for each."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidyberg.manifests.entries import PartitionColumn
from tidyberg.model.manifest import Layout

Ints = npt.NDArray[np.int64]


def layout_of(columns: Sequence[PartitionColumn]) -> Layout:
    return tuple((column.field_id, column.physical, column.logical, column.scale) for column in columns)


def tuple_names(columns: Sequence[PartitionColumn]) -> list[str]:
    return [f"p{position}" for position in range(len(columns))]


def tuples_of(entries: pa.Table, columns: Sequence[PartitionColumn]) -> pa.Table:
    return entries.select(tuple_names(columns))


def distinct(tuples: pa.Table, rows: int) -> tuple[Ints, Ints]:
    """Returns the first row of every distinct tuple, and for each row the number of its tuple."""
    codes = np.zeros(rows, np.int64)
    for column in tuples.columns:
        encoded = column.combine_chunks().dictionary_encode(null_encoding="encode")
        _, codes = np.unique(codes * len(encoded.dictionary) + encoded.indices.to_numpy(), return_inverse=True)
    _, first, inverse = np.unique(codes, return_index=True, return_inverse=True)
    return first, inverse


def texts_of(spec_id: int, tuples: pa.Table, first: Ints) -> list[str]:
    """Returns a text for each partition. In rare cases, different partitions of a layout have the same text."""
    if not tuples.num_columns:
        return [f"{spec_id}()"] * len(first)
    examples = tuples.take(pa.array(first))
    rows = zip(*(map(_plain, column.to_pylist()) for column in examples.columns), strict=True)
    return [f"{spec_id}{row!r}" for row in rows]


def _plain(value: object) -> object:
    return value + 0.0 if isinstance(value, float) else value  # makes -0.0 and 0.0 equal
