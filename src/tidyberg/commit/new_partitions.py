"""Builds manifests for outputs whose partition spec differs from that of their inputs.

The table may have no manifest of that spec yet to take its schema from, so it is made from the spec.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from decimal import Context, Decimal
from typing import Any
from uuid import UUID

from pyiceberg.avro.decoder import new_decoder
from pyiceberg.conversions import to_bytes
from pyiceberg.manifest import PartitionFieldStats
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IntegerType,
    LongType,
    NestedField,
    PrimitiveType,
    StringType,
    UnknownType,
    UUIDType,
)
from pyiceberg.utils.schema_conversion import AvroSchemaConversion

from tidyberg.avro.records import AvroFile, field_id, reader, resolve_names, writer
from tidyberg.commit.entries import Manifest, entry_schema, with_partition
from tidyberg.observe.manifest_list import DATA, ListedManifest

_EXACT = Context(prec=40)
_HELD_AS: dict[str, PrimitiveType] = {
    "null": UnknownType(),
    "boolean": BooleanType(),
    "int": IntegerType(),
    "long": LongType(),
    "float": FloatType(),
    "double": DoubleType(),
    "string": StringType(),
    "bytes": BinaryType(),
}


def empty_manifest(metadata: TableMetadata, spec_id: int) -> Manifest:
    """An empty manifest of the spec, as a template for a new one."""
    spec = metadata.specs()[spec_id]
    schema = _schema_with_sources(metadata, spec)
    # Optional, as in the spec: a partition value is null if its source value is.
    fields = [NestedField(f.field_id, f.name, f.field_type) for f in spec.partition_type(schema).fields]
    partition = AvroSchemaConversion().iceberg_to_avro(Schema(*fields), schema_name="r102")
    header = {
        "schema": schema.model_dump_json(),
        "schema-id": str(schema.schema_id),
        "partition-spec": json.dumps([field.model_dump(mode="json", by_alias=True) for field in spec.fields]),
        "partition-spec-id": str(spec_id),
        "format-version": str(metadata.format_version),
    }
    return Manifest(
        ListedManifest({502: spec_id, 517: DATA}),
        AvroFile(
            {name: value.encode() for name, value in header.items()},
            _named_once(with_partition(entry_schema(metadata.format_version), partition), set()),
            (),
        ),
        (),
    )


def encode_partition(template: Manifest, spec: PartitionSpec, values: Sequence[Any]) -> bytes:
    """Encodes a partition tuple as in the template's entries."""
    by_id = {field.field_id: value for field, value in zip(spec.fields, values, strict=True)}
    out = bytearray()
    for field in _partition_fields(template):
        writer(field["type"])(out, _raw(by_id[field_id(field)], field["type"][1]))
    return bytes(out)


def decode_partitions(template: Manifest, partitions: Iterable[bytes]) -> Iterator[tuple[Any, ...]]:
    """Decodes partition tuples from the template's entries."""
    fields = [(reader(field["type"]), _held_as(field["type"])) for field in _partition_fields(template)]
    for partition in partitions:
        decoder = new_decoder(partition)
        yield tuple(_value(read(decoder), kind) for read, kind in fields)


def partition_types(template: Manifest) -> list[PrimitiveType]:
    """Types as in the template's entries, where dates and times are plain numbers."""
    return [_held_as(field["type"]) for field in _partition_fields(template)]


def _partition_fields(template: Manifest) -> list[dict[str, Any]]:
    schema = resolve_names(template.container.schema)
    data_file = next(field["type"] for field in schema["fields"] if field_id(field) == 2)
    return list(next(field["type"] for field in data_file["fields"] if field_id(field) == 102)["fields"])


def _held_as(kind: Any) -> PrimitiveType:
    if isinstance(kind, list):
        kind = next((branch for branch in kind if branch != "null"), "null")
    if isinstance(kind, str):
        return _HELD_AS[kind]
    if kind.get("logicalType") == "decimal":
        return DecimalType(kind["precision"], kind["scale"])
    if kind.get("logicalType") == "uuid":
        return UUIDType()
    return FixedType(kind["size"]) if kind["type"] == "fixed" else _HELD_AS[kind["type"]]


def partition_summaries(types: Iterable[PrimitiveType], partitions: Iterable[Sequence[Any]]) -> list[dict[int, Any]]:
    """Partition field summaries for the manifest list: nulls, NaN, the lowest and the highest value."""
    types = list(types)
    statistics = [PartitionFieldStats(kind) for kind in types]
    for values in partitions:
        for statistic, value in zip(statistics, values, strict=True):
            statistic.update(value)
    summaries = [statistic.to_summary() for statistic in statistics]
    return [
        {
            509: summary.contains_null,
            518: summary.contains_nan,
            510: _with_both_zeros(kind, summary.lower_bound, -0.0),
            511: _with_both_zeros(kind, summary.upper_bound, 0.0),
        }
        for kind, summary in zip(types, summaries, strict=True)
    ]


def _with_both_zeros(kind: PrimitiveType, bound: bytes | None, zero: float) -> bytes | None:
    """Python treats the zeros as equal, so either may be the bound. Iceberg orders -0.0 below 0.0."""
    zeros = {to_bytes(kind, -0.0), to_bytes(kind, 0.0)} if isinstance(kind, FloatType | DoubleType) else set()
    return to_bytes(kind, zero) if bound in zeros else bound


def _schema_with_sources(metadata: TableMetadata, spec: PartitionSpec) -> Schema:
    """The current schema, or the newest one that has all source columns of the spec."""
    sources = {field.source_id for field in spec.fields}
    others = sorted(metadata.schemas, key=lambda schema: schema.schema_id, reverse=True)
    for schema in (metadata.schema(), *others):
        if sources <= set(schema.field_ids):
            return schema
    raise AssertionError("a plan moves files only into a spec whose columns exist")


def _named_once(schema: Any, seen: set[str]) -> Any:
    """Avro defines a named type once. Later uses refer to it by name."""
    if isinstance(schema, list):
        return [_named_once(branch, seen) for branch in schema]
    if not isinstance(schema, dict):
        return schema
    if schema.get("type") in ("fixed", "record"):
        if schema.get("name") in seen:
            return schema["name"]
        seen.add(str(schema.get("name")))
    changed = dict(schema)
    for key in ("items", "values"):
        if key in schema:
            changed[key] = _named_once(schema[key], seen)
    if "fields" in schema:
        changed["fields"] = [{**field, "type": _named_once(field["type"], seen)} for field in schema["fields"]]
    return changed


def _raw(value: Any, schema: Any) -> Any:
    """Converts a value to its plain Avro type."""
    if isinstance(value, Decimal):
        unscaled = int(value.scaleb(schema["scale"], _EXACT))
        return unscaled.to_bytes(schema["size"], "big", signed=True)
    return value.bytes if isinstance(value, UUID) else value


def _value(raw: Any, kind: PrimitiveType) -> Any:
    if raw is None:
        return None
    if isinstance(kind, DecimalType):
        return Decimal(int.from_bytes(raw, "big", signed=True)).scaleb(-kind.scale, _EXACT)
    return UUID(bytes=raw) if isinstance(kind, UUIDType) else raw
