"""A sort key as words: unsigned 64-bit numbers whose order is the order of the rows.

The key of a row is a sequence of words, one per level. Rows are compared level by level. Nulls, directions, NaN and
the lengths of strings are part of the words, so that nothing else needs to know the rules of the spec. Words of a
level are computed on demand and only for the rows that need them, because the first level usually decides.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tidyberg.execute.kernel.order.byte_strings import WORD_BYTES, ByteStrings, Words
from tidyberg.failures import FailureKind, KernelFailure
from tidyberg.model.sort_key import SortField

Positions = npt.NDArray[np.int64]

_SIGN = np.uint64(1 << 63)
_LAST = np.uint64(2**64 - 1)
_INTEGERS = {8: np.int8, 16: np.int16, 32: np.int32, 64: np.int64}
_MAX_STRING_WORDS = 3  # further words of long strings cost more than ranking the few rows that still tie


class Level(Protocol):
    """One level of a key."""

    def __call__(self, rows: Positions | None = None) -> Words:
        """Returns the words of these rows, or of all rows. Later calls may only ask for rows of the first call."""


@dataclass(frozen=True)
class StringLayout:
    """Which bytes of the strings of a field are compared. All strings share the bytes before `skip`."""

    skip: int
    words: int
    ranked: bool  # rank the strings that tie after these words; such keys compare only with each other


def sort_levels(values: Sequence[pa.Array], fields: Sequence[SortField]) -> list[Level]:
    """Returns the levels of a key for rows that are only compared with each other."""
    levels: list[Level] = []
    for array, field in zip(values, fields, strict=True):
        layout = _own_layout(array) if is_bytes(array.type) else None
        levels += field_levels(array, field, with_nulls=bool(array.null_count), layout=layout)
    return levels


def field_levels(
    values: pa.Array, field: SortField, *, with_nulls: bool, layout: StringLayout | None = None
) -> list[Level]:
    """Returns the levels of one field. `values` are plain and transformed; `layout` is needed for strings and bytes."""
    is_null = _is_null(values) if values.null_count else None
    levels: list[Level] = []
    if with_nulls:
        levels.append(NullLevel(is_null, len(values), field.nulls_last))
    if is_bytes(values.type):
        assert layout is not None
        strings = ByteStrings.of(values)
        parts: list[Level] = [partial(_string_word, strings, layout.skip + WORD_BYTES * n) for n in range(layout.words)]
        parts.append(_RankLevel(strings) if layout.ranked else strings.sizes)
    else:
        parts = [FixedLevel(words) for words in _fixed_words(values)]
    return [*levels, *(ValueLevel(part, is_null, field.descending) for part in parts)]


def is_bytes(kind: pa.DataType) -> bool:
    """Returns True if values are compared byte by byte. Sixteen bytes, as of a uuid, are just two words."""
    types = pa.types
    if types.is_fixed_size_binary(kind):
        return bool(kind.byte_width != 2 * WORD_BYTES)
    return bool(
        types.is_string(kind) or types.is_binary(kind) or types.is_large_string(kind) or types.is_large_binary(kind)
    )


def _own_layout(values: pa.Array) -> StringLayout:
    strings = ByteStrings.of(values)
    if strings.repeat_often():
        return StringLayout(0, 0, ranked=True)
    longest = strings.longest()
    skip = len(strings.common_prefix())
    words = -(-(longest - skip) // WORD_BYTES)
    return StringLayout(skip, min(words, _MAX_STRING_WORDS), ranked=words > _MAX_STRING_WORDS)


@dataclass(frozen=True)
class FixedLevel:
    """Words that are already known."""

    words: Words

    def __call__(self, rows: Positions | None = None) -> Words:
        return self.words if rows is None else self.words[rows]


def _string_word(strings: ByteStrings, skip: int, rows: Positions | None = None) -> Words:
    return strings.word(skip, rows)


class _RankLevel:
    """The ranks of strings among the rows of the first call, because all other rows were told apart before."""

    def __init__(self, strings: ByteStrings) -> None:
        self._strings = strings
        self._ranks: Words | None = None

    def __call__(self, rows: Positions | None = None) -> Words:
        if self._ranks is None:
            found = self._strings.ranks(rows)
            self._ranks = found if rows is None else np.zeros(len(self._strings.starts), np.uint64)
            if rows is not None:
                self._ranks[rows] = found
        return self._ranks if rows is None else self._ranks[rows]


@dataclass(frozen=True)
class NullLevel:
    """Puts nulls before or after all values. The direction of the field has no influence on them."""

    is_null: npt.NDArray[np.bool_] | None
    count: int
    last: bool

    def __call__(self, rows: Positions | None = None) -> Words:
        if self.is_null is None:
            return np.full(self.count if rows is None else len(rows), 0 if self.last else 1, np.uint64)
        flags = self.is_null if rows is None else self.is_null[rows]
        return (flags if self.last else ~flags).astype(np.uint64)


@dataclass(frozen=True)
class ValueLevel:
    """Turns the words around for a descending field, and makes all nulls equal."""

    part: Level
    is_null: npt.NDArray[np.bool_] | None
    descending: bool

    def __call__(self, rows: Positions | None = None) -> Words:
        words = self.part(rows)
        if self.descending:
            words = ~words
        if self.is_null is None:
            return words
        return np.where(self.is_null if rows is None else self.is_null[rows], np.uint64(0), words)


def _fixed_words(values: pa.Array) -> list[Words]:
    """Returns the words of a type of fixed width."""
    kind, types = values.type, pa.types
    if types.is_boolean(kind):
        return [pc.fill_null(values, False).cast(pa.uint8()).to_numpy(zero_copy_only=False).astype(np.uint64)]
    if types.is_null(kind):
        return [np.zeros(len(values), np.uint64)]
    if types.is_signed_integer(kind):
        return [_signed(_buffer(values, _INTEGERS[kind.bit_width]))]
    if types.is_floating(kind) and kind.bit_width >= 32:
        return [_float_words(values)]
    if types.is_decimal128(kind):
        low_and_high = _buffer(values, np.uint64, per_value=2)
        if kind.precision <= 18:
            return [low_and_high[:, 0] ^ _SIGN]
        return [low_and_high[:, 1] ^ _SIGN, low_and_high[:, 0].copy()]
    if types.is_fixed_size_binary(kind):
        first_and_second = _buffer(values, np.dtype(">u8"), per_value=2)
        return [first_and_second[:, number].astype(np.uint64) for number in range(2)]
    raise KernelFailure(FailureKind.SCHEMA, f"Rows cannot be ordered by values of type {kind}.")


def _signed(numbers: npt.NDArray[Any]) -> Words:
    return numbers.astype(np.int64).view(np.uint64) ^ _SIGN


def _float_words(values: pa.Array) -> Words:
    """Orders floats as Java does: -Infinity < -1 < -0.0 < 0.0 < 1 < Infinity < NaN, and all NaNs are equal."""
    with np.errstate(invalid="ignore"):  # some NaNs are invalid to the processor
        numbers = _buffer(values, np.float32 if values.type.bit_width == 32 else np.float64).astype(np.float64)
    bits = numbers.view(np.uint64)
    words = np.where(bits >> np.uint64(63), ~bits, bits ^ _SIGN)
    words[np.isnan(numbers)] = _LAST
    return words


def _buffer(values: pa.Array, kind: npt.DTypeLike, per_value: int = 1) -> npt.NDArray[Any]:
    """Returns the stored values, including undefined ones in the place of nulls."""
    content = values.buffers()[1]
    if content is None or not len(values):
        shape = (len(values), per_value) if per_value > 1 else (len(values),)
        return np.zeros(shape, kind)
    numbers = np.frombuffer(content, kind, count=(values.offset + len(values)) * per_value)
    if per_value == 1:
        return numbers[values.offset :]
    return numbers.reshape(-1, per_value)[values.offset :]


def _is_null(values: pa.Array) -> npt.NDArray[np.bool_]:
    mask: npt.NDArray[np.bool_] = pc.is_null(values).to_numpy(zero_copy_only=False)
    return mask
