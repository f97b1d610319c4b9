"""The expected rows of a table, by field id, in plain lists for every branch and every snapshot."""

import math
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from pyiceberg.schema import Schema
from pyiceberg.types import NestedField, StructType

ID = 1  # a column that stays, with another value in every row


@dataclass(frozen=True, eq=False)
class Row:
    """What a writer wrote, by field id; a struct's fields are in a dict of their own, by field id too."""

    values: dict[int, Any]

    @property
    def number(self) -> int:
        number: int = self.values[ID]
        return number

    def key(self, paths: Sequence[Sequence[int]]) -> tuple[Hashable, ...]:
        """The values that an equality delete over these columns compares: below a null struct all is null."""
        return tuple(comparable(value) for value in self.plain_key(paths))

    def plain_key(self, paths: Sequence[Sequence[int]]) -> tuple[Any, ...]:
        return tuple(self._at(path) for path in paths)

    def _at(self, path: Sequence[int]) -> Any:
        value: Any = self.values
        for field_id in path:
            value = None if value is None else value.get(field_id)
        return value


def comparable(value: Any) -> Hashable:
    """NaN equals NaN, and the two zeros differ."""
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else (value, math.copysign(1, value))
    assert isinstance(value, Hashable)
    return value


def texts(rows: Iterable[Row], schema: Schema) -> list[str]:
    """The rows in a schema, as `Warehouse.rows` gives them."""
    return sorted(repr(tuple(_shown(field, row.values.get(field.field_id)) for field in schema.fields)) for row in rows)


def as_dicts(rows: Iterable[Row], schema: Schema) -> list[dict[str, Any]]:
    """The rows in a schema by name, ready to be written."""
    return [{field.name: _shown(field, row.values.get(field.field_id)) for field in schema.fields} for row in rows]


def _shown(field: NestedField, value: Any) -> Any:
    if value is None or not isinstance(field.field_type, StructType):
        return value
    return {inner.name: _shown(inner, value.get(inner.field_id)) for inner in field.field_type.fields}
