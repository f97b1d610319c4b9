"""Decodes the bounds of one column and puts them in order, for all files at once.

Bounds are stored as the specification serializes single values. A bound may be cut short: a lower bound is then below
the smallest value and an upper bound is above the largest, so both are still bounds.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.types import (
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IcebergType,
    StringType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
)

from tidyberg.model.sort_key import SortField

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]

_DECIMAL_BYTES = 17  # an unscaled decimal has up to 16, and one more keeps the sign apart
_PREFIX_BYTES = 8
_TIMES = (TimestampType, TimestamptzType)
_NANO_TIMES = (TimestampNanoType, TimestamptzNanoType)
_PER_DAY = {True: 86_400_000_000_000, False: 86_400_000_000}
_UNITS = {"year": "M8[Y]", "month": "M8[M]", "day": "M8[D]", "hour": "M8[h]"}
_SIGN = np.int64(-(2**63))


@dataclass(frozen=True)
class KeyColumnMetrics:
    """The metrics of one column in all files, as `observe/key_bounds.py` reads them."""

    lower: pa.Array  # binary, null where there is none
    upper: pa.Array
    nulls: Ints  # 0 where the manifest does not say
    nans: Ints
    records: Ints

    @property
    def all_null(self) -> Mask:
        found: Mask = (self.nulls >= self.records) & (self.records > 0)
        return found

    @property
    def has_bounds(self) -> Mask:
        both = pc.and_(pc.is_valid(self.lower), pc.is_valid(self.upper))
        found: Mask = np.asarray(both.to_numpy(zero_copy_only=False), np.bool_)
        return found

    @property
    def only_nans(self) -> Mask:
        """Files whose values are all NaN or null. Bounds leave NaN out, so these files have none."""
        found: Mask = ~self.has_bounds & (self.nans > 0) & (self.nans + self.nulls >= self.records)
        return found

    @property
    def without_nulls(self) -> "KeyColumnMetrics":
        """The same, but only files without other values have nulls and NaNs."""
        is_rest = self.has_bounds & ~self.all_null
        nulls, nans = (np.where(is_rest, 0, counts) for counts in (self.nulls, self.nans))
        return replace(self, nulls=nulls, nans=nans)


@dataclass(frozen=True)
class FieldRanges:
    """The range of each file along one field of a key, as ranks in the order of that field."""

    lower: Ints
    upper: Ints
    known: Mask
    positions: Floats | None = None  # by rank: a number that grows with the value, for estimates

    @property
    def constant(self) -> Mask:
        found: Mask = self.known & (self.lower == self.upper)
        return found


def column_bounds(bounds: pa.Table, field_id: int, records: Ints) -> KeyColumnMetrics:
    def counts(name: str) -> Ints:
        return np.asarray(pc.fill_null(bounds[name], 0).to_numpy(), np.int64)

    return KeyColumnMetrics(
        _one_array(bounds[f"lower_{field_id}"]),
        _one_array(bounds[f"upper_{field_id}"]),
        counts(f"nulls_{field_id}"),
        counts(f"nans_{field_id}"),
        records,
    )


def ranges_of(column: KeyColumnMetrics, field: SortField, kind: IcebergType) -> FieldRanges:
    """Returns the range of each file along a field of a key.

    Files without bounds are unknown, and so are all files if the transform does not keep the order of values.
    """
    files = len(column.lower)
    values = _transformed(_decoded(column, kind), field.transform, kind)
    if values is None:
        none = np.zeros(files, np.int64)
        return FieldRanges(none, none, np.zeros(files, np.bool_))
    known_rows = np.flatnonzero(values.rows)
    ranks, positions = values.ranked()
    last = len(positions)  # NaN has the rank after the last value, and values begin at 1
    lower, upper = np.ones(files, np.int64), np.ones(files, np.int64)
    lower[known_rows], upper[known_rows] = ranks[: len(known_rows)] + 1, ranks[len(known_rows) :] + 1
    upper[values.rows & (column.nans > 0)] = last + 1
    lower[column.only_nans] = upper[column.only_nans] = last + 1
    if field.descending:
        lower, upper = last + 1 - upper, last + 1 - lower
    null_rank = last + 2 if field.nulls_last else -1
    has_nulls = column.nulls > 0
    if field.nulls_last:
        upper[has_nulls] = null_rank
    else:
        lower[has_nulls] = null_rank
    lower[column.all_null] = upper[column.all_null] = null_rank
    # A bound that is cut short can look as if the lower one were above the upper one only if the file is damaged.
    known = (values.rows | column.all_null | column.only_nans) & (lower <= upper)
    by_rank = _positions_by_rank(positions, descending=field.descending)
    return FieldRanges(lower, upper, known, by_rank)


def _positions_by_rank(positions: Floats, *, descending: bool) -> Floats:
    """Returns the position of every rank from null (-1) to null (last + 2). Index 0 is rank -1."""
    last = len(positions)
    inner = np.concatenate((-positions[::-1] if descending else positions, np.zeros(0)))
    low, high = (inner[0], inner[-1]) if last else (0.0, 0.0)
    step = max(1.0, (high - low) / max(1, last))
    # Ascending: null, nothing, the values, NaN, null. Descending: null, NaN, the values, nothing, null.
    ends_low, ends_high = [low - 2 * step, low - step], [high + step, high + 2 * step]
    return np.concatenate((ends_low, inner, ends_high))


@dataclass(frozen=True)
class _Values:
    """Lower and upper bounds of the files in `rows`, either as numbers or as bytes that compare like the values."""

    rows: Mask
    numbers: tuple[Ints, Ints] | None = None
    texts: tuple[pa.Array, pa.Array] | None = None
    position: Callable[[Ints], Floats] | None = None  # of numbers that are not plain, such as bits of floats

    def ranked(self) -> tuple[Ints, Floats]:
        """Returns the ranks of all lower bounds and then all upper bounds, and the position of each distinct value."""
        if self.numbers is not None:
            distinct, ranks = np.unique(np.concatenate(self.numbers), return_inverse=True)
            positions = self.position(distinct) if self.position is not None else distinct.astype(np.float64)
            return ranks.astype(np.int64), positions
        assert self.texts is not None
        encoded = pa.concat_arrays(list(self.texts)).dictionary_encode()
        order = pc.sort_indices(encoded.dictionary).to_numpy()
        rank = np.empty(len(order), np.int64)
        rank[order] = np.arange(len(order))
        indices = np.asarray(encoded.indices.to_numpy(zero_copy_only=False), np.int64)
        return rank[indices], _positions_of_bytes(encoded.dictionary.take(pa.array(order)))


def _decoded(column: KeyColumnMetrics, kind: IcebergType) -> _Values:
    rows = column.has_bounds & ~column.all_null
    at = pa.array(np.flatnonzero(rows))
    lower, upper = column.lower.take(at), column.upper.take(at)
    if isinstance(kind, FloatType | DoubleType):
        pair = tuple(_ordered_bits(_floats(each)) for each in (lower, upper))
        return _Values(rows, numbers=(pair[0], pair[1]), position=_floats_of_bits)
    if isinstance(kind, DecimalType):
        return _Values(rows, texts=(_decimals(lower), _decimals(upper)))
    if isinstance(kind, BooleanType | DateType) or str(kind) in ("int", "long", "time") or _is_timestamp(kind):
        return _Values(rows, numbers=(_integers(lower, kind), _integers(upper, kind)))
    return _Values(rows, texts=(lower, upper))


def _transformed(values: _Values, transform: str, kind: IcebergType) -> _Values | None:
    """Applies a transform to the bounds. None: it does not keep the order of values, as a bucket does not."""
    if transform == "identity":
        return values
    if transform in _UNITS and values.numbers is not None:
        lower, upper = (_in_units(each, transform, kind) for each in values.numbers)
        return _Values(values.rows, numbers=(lower, upper))
    if transform.startswith("truncate["):
        width = int(transform.removeprefix("truncate[").removesuffix("]"))
        if values.numbers is not None:
            low, high = (each - np.mod(each, width) for each in values.numbers)
            return _Values(values.rows, numbers=(low, high))
        assert values.texts is not None
        if isinstance(kind, DecimalType):
            return _truncated_decimals(values, width)
        cut = _cut_text if isinstance(kind, StringType) else _cut_bytes
        return _Values(values.rows, texts=(cut(values.texts[0], width), cut(values.texts[1], width)))
    return None


def _truncated_decimals(values: _Values, width: int) -> _Values:
    assert values.texts is not None

    def cut(array: pa.Array) -> pa.Array:
        numbers = (int.from_bytes(raw, "big") - 2 ** (8 * _DECIMAL_BYTES - 1) for raw in array.to_pylist())
        shifted = (number - number % width + 2 ** (8 * _DECIMAL_BYTES - 1) for number in numbers)
        return pa.array([number.to_bytes(_DECIMAL_BYTES, "big") for number in shifted], pa.binary())

    return _Values(values.rows, texts=(cut(values.texts[0]), cut(values.texts[1])))


def _cut_bytes(array: pa.Array, width: int) -> pa.Array:
    return pc.binary_slice(array, 0, width)


def _cut_text(array: pa.Array, width: int) -> pa.Array:
    """Cuts by characters. A bound that was cut within a character is kept as bytes."""
    try:
        return pc.utf8_slice_codeunits(array.cast(pa.string()), 0, width).cast(pa.binary())
    except pa.ArrowInvalid:
        return array


def _in_units(values: Ints, unit: str, kind: IcebergType) -> Ints:
    precision = "M8[D]" if isinstance(kind, DateType) else "M8[ns]" if isinstance(kind, _NANO_TIMES) else "M8[us]"
    found: Ints = values.view(precision).astype(_UNITS[unit]).astype(np.int64)
    return found


def _is_timestamp(kind: IcebergType) -> bool:
    return isinstance(kind, _TIMES + _NANO_TIMES)


def _integers(array: pa.Array, kind: IcebergType) -> Ints:
    """Reads little-endian numbers of 1, 4 or 8 bytes. A promoted column has bounds of its former type."""
    lengths = np.asarray(pc.binary_length(array).to_numpy(zero_copy_only=False), np.int64)
    numbers = np.zeros(len(array), np.int64)
    for width in np.unique(lengths).tolist():
        rows = np.flatnonzero(lengths == width)
        raw = b"".join(array.take(pa.array(rows)).to_pylist())
        if width not in (1, 4, 8):
            continue
        numbers[rows] = np.frombuffer(raw, {1: "i1", 4: "<i4", 8: "<i8"}[width])
        if width == 4 and _is_timestamp(kind):  # the column was a date before
            numbers[rows] *= _PER_DAY[isinstance(kind, _NANO_TIMES)]
    return numbers


def _floats(array: pa.Array) -> Floats:
    lengths = np.asarray(pc.binary_length(array).to_numpy(zero_copy_only=False), np.int64)
    numbers = np.zeros(len(array), np.float64)
    for width, kind in ((4, "<f4"), (8, "<f8")):
        rows = np.flatnonzero(lengths == width)
        numbers[rows] = np.frombuffer(b"".join(array.take(pa.array(rows)).to_pylist()), kind)
    return numbers


def _ordered_bits(values: Floats) -> Ints:
    """Returns numbers that compare as the specification orders floats: -0.0 is below 0.0."""
    bits: Ints = values.view(np.int64)
    return np.where(bits < 0, _SIGN - bits - 1, bits)


def _floats_of_bits(ordered: Ints) -> Floats:
    bits = np.where(ordered < 0, _SIGN - ordered - 1, ordered)
    limit = 1e300  # infinity has no distance to other values
    positions = np.clip(np.nan_to_num(bits.view(np.float64), posinf=limit, neginf=-limit), -limit, limit)
    # A density, which is rows divided by a distance, must not become infinite.
    return np.where(np.abs(positions) < 1e-200, 0.0, positions)


def _decimals(array: pa.Array) -> pa.Array:
    """Returns big-endian numbers of equal length whose bytes compare like the decimals."""
    offset = 2 ** (8 * _DECIMAL_BYTES - 1)
    shifted = (int.from_bytes(raw, "big", signed=True) + offset for raw in array.to_pylist())
    return pa.array([number.to_bytes(_DECIMAL_BYTES, "big") for number in shifted], pa.binary())


def _positions_of_bytes(ordered: pa.Array) -> Floats:
    """Places values by the bytes that follow the prefix that all of them share."""
    if not len(ordered):
        return np.zeros(0)
    first, last = ordered[0].as_py(), ordered[-1].as_py()
    shared = next((n for n, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), min(len(first), len(last)))
    cut = pc.binary_slice(ordered, shared, shared + _PREFIX_BYTES).to_pylist()
    padded = b"".join(raw.ljust(_PREFIX_BYTES, b"\0") for raw in cut)
    return np.frombuffer(padded, ">u8").astype(np.float64)


def _one_array(column: pa.ChunkedArray) -> pa.Array:
    combined = column.combine_chunks()
    return pa.concat_arrays(combined.chunks) if isinstance(combined, pa.ChunkedArray) else combined
