"""Replaces values by their ranks, so that layouts and filters of every type are compared as numbers.

The values of a sample, the bounds of files and the values of filters are ranked together. Equal values have equal
ranks, and the order of ranks is the order of values.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tidyberg.model.file_bounds import ColumnBounds, Flags
from tidyberg.model.workload import Condition, Operator, comparisons

Ranks = npt.NDArray[np.int64]
NULL = 0  # sorts before all values, as Iceberg sorts nulls by default
BELOW, ABOVE = 0, 2**60  # bounds that a file does not have
NAN = 2**59  # sorts after all values; no bound of a file says anything about it


@dataclass(frozen=True)
class Boxes:
    """The range of one column in each file."""

    lows: Ranks
    highs: Ranks
    may_have_nulls: Flags
    may_have_values: Flags

    def take(self, files: Ranks) -> "Boxes":
        return Boxes(self.lows[files], self.highs[files], self.may_have_nulls[files], self.may_have_values[files])


def joined(pieces: Sequence[Mapping[str, Boxes]]) -> dict[str, Boxes]:
    """Returns the files of all pieces, which have the same columns."""
    return {
        name: Boxes(
            np.concatenate([piece[name].lows for piece in pieces]),
            np.concatenate([piece[name].highs for piece in pieces]),
            np.concatenate([piece[name].may_have_nulls for piece in pieces]),
            np.concatenate([piece[name].may_have_values for piece in pieces]),
        )
        for name in pieces[0]
    }


@dataclass(frozen=True)
class RankedColumn:
    sample: Ranks  # a rank per sampled row; NULL and NAN where it has no comparable value
    files: Boxes
    ranks: Mapping[Any, int]  # of the values in filters


def rank_column(sample: pa.ChunkedArray | pa.Array, bounds: ColumnBounds, values: Iterable[Any]) -> RankedColumn:
    rows = comparable(sample)
    wanted = list(dict.fromkeys(values))
    lists = [_array(one, rows.type) for one in (bounds.lows, bounds.highs, wanted)]
    pieces = [rows, *lists]
    together = pa.concat_arrays(pieces)
    found = pc.rank(together, sort_keys="ascending", tiebreaker="dense").to_numpy().astype(np.int64)
    is_null = np.asarray(together.is_null().to_numpy(zero_copy_only=False), np.bool_)
    is_nan = _nan(together)
    ends = np.cumsum([len(one) for one in pieces])
    sampled, lows, highs, given = np.split(np.arange(len(together)), ends[:-1])
    ranks = np.where(is_nan, NAN, np.where(is_null, NULL, found))
    unbounded = is_null | is_nan
    return RankedColumn(
        ranks[sampled],
        Boxes(
            np.where(unbounded[lows], BELOW, found[lows]),
            np.where(unbounded[highs], ABOVE, found[highs]),
            bounds.may_have_nulls,
            bounds.may_have_values,
        ),
        dict(zip(wanted, ranks[given].tolist(), strict=True)),
    )


def filter_values(conditions: Iterable[Condition]) -> dict[str, list[Any]]:
    """The values that each column is compared with. A prefix has two: where it starts, and where it ends."""
    found: dict[str, list[Any]] = {}
    for condition in conditions:
        for one in comparisons(condition):
            these = found.setdefault(one.column, [])
            for value in one.values or ():
                these.append(value)
                if one.operator is Operator.STARTS_WITH and (after := after_prefix(value)) is not None:
                    these.append(after)
    return found


def after_prefix(prefix: str) -> str | None:
    """Returns the least text that is above all texts with this prefix, or None if there is none."""
    for at in range(len(prefix) - 1, -1, -1):
        raised = ord(prefix[at]) + 1
        if raised <= 0x10FFFF:
            return prefix[:at] + chr(0xE000 if raised == 0xD800 else raised)
    return None


def comparable(array: pa.ChunkedArray | pa.Array) -> pa.Array:
    """Converts values to a type that Arrow ranks in the order of the Iceberg specification."""
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    kind = array.type
    if pa.types.is_date32(kind):
        return array.cast(pa.int32()).cast(pa.int64())
    if pa.types.is_temporal(kind) or pa.types.is_integer(kind) or pa.types.is_boolean(kind):
        return array.cast(pa.int64())
    if pa.types.is_floating(kind):
        return array.cast(pa.float64())
    if pa.types.is_decimal(kind):
        return array.cast(pa.decimal128(38, kind.scale))
    return array.cast(pa.binary()) if pa.types.is_fixed_size_binary(kind) else array


def _array(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    return pa.array([_plain(value) for value in values], kind)


def _plain(value: Any) -> Any:
    if isinstance(value, bool):
        return int(value)
    return value.bytes if isinstance(value, UUID) else value


def _nan(array: pa.Array) -> Flags:
    if not pa.types.is_floating(array.type):
        return np.zeros(len(array), np.bool_)
    return np.asarray(pc.is_nan(array).fill_null(False).to_numpy(zero_copy_only=False), np.bool_)
