"""Bounds of columns, decoded by type so that they can be put in order.

Equality of bytes is not enough: an input's footer may hold a cut string, an int where the table has a long by
now, or -0.0 where the output says 0.0, and all of them are right.
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

_FIRST_SURROGATE, _AFTER_SURROGATES = 0xD800, 0xE000  # no characters in between


@dataclass(frozen=True, slots=True)
class Leaf:
    """A primitive column, however deep; `repeated` ones have not one value a row but any number."""

    name: str
    type: PrimitiveType
    repeated: bool

    def decode(self, bound: bytes | None) -> Any | None:
        """The value, or None where there is none to compare: NaN is no bound."""
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
        """Long strings, binary and fixed values may be cut to a prefix; other types never are."""
        return isinstance(self.type, StringType | BinaryType | FixedType)


def leaves(schema: Schema) -> dict[int, Leaf]:
    return dict(_leaves(schema.fields, "", repeated=False))


def _leaves(fields: tuple[NestedField, ...], prefix: str, *, repeated: bool) -> Iterator[tuple[int, Leaf]]:
    for field in fields:
        yield from _leaves_of(field.field_id, prefix + field.name, field.field_type, repeated)


def _leaves_of(field_id: int, name: str, kind: IcebergType, repeated: bool) -> Iterator[tuple[int, Leaf]]:
    if isinstance(kind, StructType):
        yield from _leaves(kind.fields, f"{name}.", repeated=repeated)
    elif isinstance(kind, ListType):
        yield from _leaves_of(kind.element_id, f"{name}.element", kind.element_type, True)
    elif isinstance(kind, MapType):
        yield from _leaves_of(kind.key_id, f"{name}.key", kind.key_type, True)
        yield from _leaves_of(kind.value_id, f"{name}.value", kind.value_type, True)
    elif isinstance(kind, PrimitiveType) and not isinstance(kind, UnknownType):  # those are in no file
        yield field_id, Leaf(name, kind, repeated)


def is_cut_below(cut: Any, exact: Any) -> bool:
    """`cut` is what a writer keeps of the smallest value `exact`: a prefix."""
    return bool(exact[: len(cut)] == cut)


def is_cut_above(cut: Any, exact: Any) -> bool:
    """`cut` is what a writer makes of the largest value `exact`: a prefix, its last character raised by one."""
    last = len(cut) - 1
    if last < 0 or len(exact) < len(cut) or exact[:last] != cut[:last]:
        return False
    if isinstance(cut, bytes):
        return bool(exact[last] + 1 == cut[last])
    raised = ord(exact[last]) + 1
    return ord(cut[last]) == (_AFTER_SURROGATES if raised == _FIRST_SURROGATE else raised)
