"""Decodes column bounds by type, so that they can be compared.

Comparing bytes is not enough. An input's footer may hold a truncated string, an int where the table now has a long, or
-0.0 where the output has 0.0, and each of them is correct.
"""

import math
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pyiceberg.conversions import from_bytes
from pyiceberg.schema import Schema
from pyiceberg.types import (
    BinaryType,
    DoubleType,
    FixedType,
    IcebergType,
    ListType,
    LongType,
    MapType,
    NestedField,
    PrimitiveType,
    StringType,
    StructType,
    UnknownType,
)

FIRST_SURROGATE, AFTER_SURROGATES = 0xD800, 0xE000  # no characters in between


@dataclass(frozen=True, slots=True)
class BoundedColumn:
    """A primitive column at any depth. A `repeated` one has any number of values per row."""

    name: str
    type: PrimitiveType
    repeated: bool

    def decode(self, bound: bytes | None) -> Any | None:
        """Returns None if there is nothing to compare: NaN is no bound."""
        if bound is None:
            return None
        if isinstance(self.type, LongType) and len(bound) == 4:
            return struct.unpack("<i", bound)[0]  # written before the column was promoted
        if isinstance(self.type, DoubleType) and len(bound) == 4:
            value: Any = struct.unpack("<f", bound)[0]
        else:
            value = from_bytes(self.type, bound)
        return None if isinstance(value, float) and math.isnan(value) else value

    @property
    def may_be_cut(self) -> bool:
        """Writers may truncate strings, binary and fixed values to a prefix, and no other types."""
        return isinstance(self.type, StringType | BinaryType | FixedType)


def bounded_columns(schema: Schema) -> dict[int, BoundedColumn]:
    return dict(_leaves(schema.fields, "", repeated=False))


def _leaves(fields: tuple[NestedField, ...], prefix: str, *, repeated: bool) -> Iterator[tuple[int, BoundedColumn]]:
    for field in fields:
        yield from _leaves_of(field.field_id, prefix + field.name, field.field_type, repeated)


def _leaves_of(field_id: int, name: str, kind: IcebergType, repeated: bool) -> Iterator[tuple[int, BoundedColumn]]:
    if isinstance(kind, StructType):
        yield from _leaves(kind.fields, f"{name}.", repeated=repeated)
    elif isinstance(kind, ListType):
        yield from _leaves_of(kind.element_id, f"{name}.element", kind.element_type, True)
    elif isinstance(kind, MapType):
        yield from _leaves_of(kind.key_id, f"{name}.key", kind.key_type, True)
        yield from _leaves_of(kind.value_id, f"{name}.value", kind.value_type, True)
    elif isinstance(kind, PrimitiveType) and not isinstance(kind, UnknownType):  # no file has a column of unknown type
        yield field_id, BoundedColumn(name, kind, repeated)


def is_cut_below(cut: Any, exact: Any) -> bool:
    """Whether `cut` is how a writer truncates the lower bound `exact`: to a prefix."""
    return bool(exact[: len(cut)] == cut)


def is_cut_above(cut: Any, exact: Any) -> bool:
    """Whether `cut` is how a writer truncates the upper bound `exact`: to a prefix with its last character raised."""
    last = len(cut) - 1
    if last < 0 or len(exact) < len(cut) or exact[:last] != cut[:last]:
        return False
    if isinstance(cut, bytes):
        return bool(exact[last] + 1 == cut[last])
    raised = ord(exact[last]) + 1
    return ord(cut[last]) == (AFTER_SURROGATES if raised == FIRST_SURROGATE else raised)
