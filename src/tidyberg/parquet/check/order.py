"""The order of a column's values by its type: parses bounds, and finds the lowest and highest value of each page."""

import itertools
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tidyberg.parquet.footer import BYTE_ARRAY, FIXED_BYTE_ARRAY, INT96
from tidyberg.parquet.schema import Element

BOOLEAN, INT32, INT64, _, FLOAT, DOUBLE = range(6)
_FORMATS = {BOOLEAN: "<?", INT32: "<i", INT64: "<q", FLOAT: "<f", DOUBLE: "<d"}
_UNSIGNED = {INT32: "<I", INT64: "<Q"}
_UNORDERED = ("interval", "annotation 16", "annotation 17", "annotation 18")  # variant, geometry, geography
_NUMPY = {INT32: np.int32, INT64: np.int64, FLOAT: np.float32, DOUBLE: np.float64}

Value = Any  # int, float or bytes; Python's order is the order of the type


@dataclass(frozen=True, slots=True)
class Extremes:
    """The lowest and highest value of a page, ignoring null and NaN. None if there is no such value."""

    lower: Value | None
    upper: Value | None
    nans: int = 0


@dataclass(frozen=True, slots=True)
class Order:
    type: int
    annotation: str

    @classmethod
    def of(cls, kind: int, element: Element) -> "Order | None":
        """Returns the order of a type, or None if it has no order."""
        if kind == INT96 or element.annotation.startswith(_UNORDERED):
            return None
        return cls(kind, element.annotation)

    @property
    def is_float(self) -> bool:
        return self.type in (FLOAT, DOUBLE) or self.annotation == "float16"

    @property
    def is_unsigned(self) -> bool:
        return self.type in _UNSIGNED and self.annotation.startswith("unsigned")

    @property
    def is_decimal(self) -> bool:
        return self.annotation.startswith("decimal")

    @property
    def is_bytes(self) -> bool:
        """True if values are compared byte by byte, so that bounds may be truncated."""
        return self.type in (BYTE_ARRAY, FIXED_BYTE_ARRAY) and not self.is_decimal and not self.is_float

    @property
    def is_text(self) -> bool:
        return self.type == BYTE_ARRAY and self.annotation in ("string", "enum", "json")

    @property
    def signed_is_same(self) -> bool:
        """True if the signed comparison of the deprecated bounds is the order of the type."""
        return not self.is_unsigned and (self.type not in (BYTE_ARRAY, FIXED_BYTE_ARRAY) or self.is_float)

    def parse(self, bound: bytes) -> Value | None:
        """Returns the value of an encoded bound, or None if the bytes are not a value of the type."""
        if self.is_decimal and self.type in (BYTE_ARRAY, FIXED_BYTE_ARRAY):
            return int.from_bytes(bound, "big", signed=True) if bound else None
        if self.annotation == "float16":
            return struct.unpack("<e", bound)[0] if len(bound) == 2 else None
        if self.type in (BYTE_ARRAY, FIXED_BYTE_ARRAY):
            return bytes(bound)
        spelled = _UNSIGNED[self.type] if self.is_unsigned else _FORMATS[self.type]
        return struct.unpack(spelled, bound)[0] if len(bound) == struct.calcsize(spelled) else None

    def extremes(self, values: pa.Array, starts: Sequence[int]) -> list[Extremes]:
        """Returns the extremes of each page. `starts` has the position of each first value, and then the total."""
        if self.is_bytes:
            return [_of_bytes(values[a:b]) for a, b in itertools.pairwise(starts)]
        return _of_numbers(self.numbers(values), starts)

    def numbers(self, values: pa.Array) -> npt.NDArray[Any]:
        """Converts values to a type that numpy compares in the right order. Not for types where `is_bytes` is True."""
        if self.type == BOOLEAN:
            return values.cast(pa.uint8()).to_numpy(zero_copy_only=False)  # type: ignore[no-any-return]
        if self.annotation == "float16":
            return _matrix(values).view(np.float16)[:, 0] if len(values) else np.zeros(0, np.float16)
        if self.type in (BYTE_ARRAY, FIXED_BYTE_ARRAY):
            return _decimals(values, self.type)
        found = values.to_numpy(zero_copy_only=False).astype(_NUMPY[self.type], copy=False)
        return found.view(f"u{found.itemsize}") if self.is_unsigned else found  # type: ignore[no-any-return]


def _of_bytes(values: pa.Array) -> Extremes:
    if not len(values):
        return Extremes(None, None)
    found = pc.min_max(values)
    return Extremes(found["min"].as_py(), found["max"].as_py())


def _of_numbers(numbers: npt.NDArray[Any], starts: Sequence[int]) -> list[Extremes]:
    begins, ends = np.asarray(starts[:-1]), np.asarray(starts[1:])
    filled = np.flatnonzero(ends > begins)
    found = [Extremes(None, None)] * len(begins)
    if not len(filled):
        return found
    at = begins[filled]
    if numbers.dtype.kind == "f":
        lowers, uppers = np.fmin.reduceat(numbers, at), np.fmax.reduceat(numbers, at)
        nans = np.add.reduceat(np.isnan(numbers), at, dtype=np.int64)
    else:
        lowers, uppers = np.minimum.reduceat(numbers, at), np.maximum.reduceat(numbers, at)
        nans = np.zeros(len(at), np.int64)
    for page, low, high, nan in zip(filled.tolist(), lowers.tolist(), uppers.tolist(), nans.tolist(), strict=True):
        found[page] = Extremes(None if low != low else low, None if high != high else high, nan)
    return found


def _matrix(values: pa.Array) -> npt.NDArray[np.uint8]:
    """Returns the bytes of fixed-size values, one row per value."""
    width = values.type.byte_width
    content = np.frombuffer(values.buffers()[1], np.uint8)
    return content[values.offset * width : (values.offset + len(values)) * width].reshape(-1, width)


def _decimals(values: pa.Array, kind: int) -> npt.NDArray[Any]:
    """Converts big-endian two's complement to numpy integers if they fit eight bytes, else to Python integers."""
    if kind == FIXED_BYTE_ARRAY and values.type.byte_width <= 8:
        matrix = _matrix(values)
        filled = np.where(matrix[:, :1] & 0x80, 0xFF, 0).astype(np.uint8)
        wide = np.concatenate([np.repeat(filled, 8 - matrix.shape[1], axis=1), matrix], axis=1)
        return np.ascontiguousarray(wide).view(">i8")[:, 0].astype(np.int64)
    if kind == FIXED_BYTE_ARRAY and values.type.byte_width <= 16:
        matrix = _matrix(values)
        if _fits_in_eight_bytes(matrix):
            return np.ascontiguousarray(matrix[:, -8:]).view(">i8")[:, 0].astype(np.int64)
    return np.array([int.from_bytes(value, "big", signed=True) for value in values.to_pylist()] or [0], object)[
        : len(values)
    ]


def _fits_in_eight_bytes(matrix: npt.NDArray[np.uint8]) -> bool:
    sign = np.where(matrix[:, -8] & 0x80, 0xFF, 0)
    return bool((matrix[:, :-8] == sign[:, None]).all())
