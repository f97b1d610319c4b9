"""Finds what data files of an evolved table lack: field ids, from the name mapping, and values of absent columns."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from uuid import UUID

from pydantic import ValidationError
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.name_mapping import MappedField, parse_mapping_from_json
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import (
    DateType,
    IcebergType,
    ListType,
    MapType,
    NestedField,
    StructType,
    TimestampNanoType,
    TimestampType,
)

from tidyberg.errors import Unsupported
from tidyberg.model.inventory import Partition
from tidyberg.model.table import NAME_MAPPING


def name_mapping(properties: Mapping[str, str]) -> dict[tuple[str, ...], int] | None:
    """Return field ids by their paths of names, including aliases. None means that the table has no mapping."""
    text = properties.get(NAME_MAPPING)
    if text is None:
        return None
    try:
        return dict(_mapped(parse_mapping_from_json(text).root, ()))
    except (ValidationError, ValueError) as error:
        raise Unsupported(
            f"The table's property {NAME_MAPPING} is no name mapping: {' '.join(str(error).split())[:200]}",
            hint="Set it to the JSON that the Iceberg specification describes, or remove it.",
        ) from None


def _mapped(fields: Sequence[MappedField], above: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], int]]:
    for field in fields:
        for name in field.names:
            if field.field_id is not None:
                yield (*above, name), field.field_id
            yield from _mapped(field.fields, (*above, name))


def absent_values(spec: PartitionSpec, partition: Partition, schemas: Sequence[Schema]) -> dict[int, Any]:
    """Return the values of fields that files lack, by field id. Fields whose value is null are left out.

    The specification defines the order: first the partition value of an identity transform, even if it is null, and
    then the field's initial default. `schemas` are all schemas of the table, the current one first, because equality
    deletes may compare dropped columns.
    """
    values: dict[int, Any] = {}
    for schema in reversed(schemas):
        values |= {field.field_id: field.initial_default for field in _all_fields(schema.fields)}
    for field, value in zip(spec.fields, partition.values, strict=True):
        if isinstance(field.transform, IdentityTransform):
            if value is not None:
                _refuse_days_as_time(field.source_id, schemas)
            values[field.source_id] = value
    return {
        field_id: value.bytes if isinstance(value, UUID) else value
        for field_id, value in values.items()
        if value is not None
    }


def _refuse_days_as_time(field_id: int, schemas: Sequence[Schema]) -> None:
    """Refuse a date that was promoted, because its partition value may be days or microseconds."""
    kinds = [
        field.field_type for schema in schemas for field in _all_fields(schema.fields) if field.field_id == field_id
    ]
    if any(isinstance(kind, DateType) for kind in kinds) and any(
        isinstance(kind, TimestampType | TimestampNanoType) for kind in kinds
    ):
        raise Unsupported(
            f"Field {field_id} is the source of an identity partition and was promoted from date to a timestamp, "
            "which the Iceberg specification does not allow.",
            hint="Leave the partitions of that spec out.",
        )


def _all_fields(fields: Sequence[NestedField]) -> Iterator[NestedField]:
    for field in fields:
        yield field
        yield from _fields_below(field.field_type)


def _fields_below(kind: IcebergType) -> Iterator[NestedField]:
    if isinstance(kind, StructType):
        yield from _all_fields(kind.fields)
    elif isinstance(kind, ListType):
        yield from _fields_below(kind.element_type)
    elif isinstance(kind, MapType):
        yield from _fields_below(kind.key_type)
        yield from _fields_below(kind.value_type)
