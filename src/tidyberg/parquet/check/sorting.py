"""Checks whether rows are in the order that the sorting columns of a row group state."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tidyberg.parquet.check.chunk import CheckedColumn, ChunkTruth


@dataclass(frozen=True, slots=True)
class SortingColumn:
    descending: bool
    nulls_first: bool
    column: CheckedColumn
    truth: ChunkTruth


def is_sorted(columns: Sequence[SortingColumn], rows: int) -> bool:
    """Returns True if rows are in order. A column matters only where all columns before it are equal."""
    equal = np.ones(max(0, rows - 1), np.bool_)
    for column in columns:
        ranks, nulls = _ranks(column)
        if len(ranks) != rows:
            return True  # the column is not flat, so there is no order to check
        before, after = ranks[:-1], ranks[1:]
        wrong = before < after if column.descending else before > after
        present = ~nulls[:-1] & ~nulls[1:]
        wrong &= present
        null_is_wrong = (~nulls[:-1] & nulls[1:]) if column.nulls_first else (nulls[:-1] & ~nulls[1:])
        if bool((equal & (wrong | null_is_wrong)).any()):
            return False
        equal &= (nulls[:-1] == nulls[1:]) & ((before == after) | nulls[:-1])
    return True


def _ranks(sorting: SortingColumn) -> tuple[npt.NDArray[Any], npt.NDArray[np.bool_]]:
    """Returns the rank of each row's value in the order of the column, and which rows are null."""
    most = sorting.column.leaf.definition_levels
    parts = sorting.truth.rows_of_values
    arrays = [values for _, values in parts if len(values)]
    masks = [
        np.ones(len(values), np.bool_) if definitions is None else definitions == most for definitions, values in parts
    ]
    present = np.concatenate(masks) if masks else np.zeros(0, np.bool_)
    ranks = np.zeros(len(present), np.int64)
    if arrays:
        ranks[present] = _dense(pa.chunked_array(arrays).combine_chunks(), sorting.column)
    return ranks, ~present


def _dense(values: pa.Array, column: CheckedColumn) -> npt.NDArray[np.int64]:
    order = column.order
    if order is None:
        return np.zeros(len(values), np.int64)
    if order.is_bytes:
        return pc.rank(values, tiebreaker="dense").to_numpy().astype(np.int64)  # type: ignore[no-any-return]
    numbers = order.numbers(values)
    if numbers.dtype.kind == "f":
        numbers = numbers + 0.0  # makes -0.0 and 0.0 equal
    return np.unique(numbers, return_inverse=True)[1].astype(np.int64)
