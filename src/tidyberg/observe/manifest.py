"""One manifest as an Arrow table: a row a live entry, partition values typed by the manifest's own schema."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tidyberg.observe.avro import AvroError, decoding, open_container, read_columns

# Field ids of the manifest entry, from the Iceberg specification; the name is the column in ENTRIES.
FIELD_IDS: Mapping[str, int] = {
    "status": 0,
    "snapshot_id": 1,
    "sequence_number": 3,
    "file_sequence_number": 4,
    "content": 134,
    "path": 100,
    "format": 101,
    "records": 103,
    "size": 104,
    "key_metadata": 131,
    "split_offsets": 132,
    "equality_ids": 135,
    "sort_order_id": 140,
    "first_row_id": 142,
    "referenced_data_file": 143,
    "content_offset": 144,
    "content_size": 145,
    "lower_bounds": 125,
    "upper_bounds": 128,
}
PARTITION_ID = 102
DELETED = 2
ENTRIES = pa.schema(
    [
        ("status", pa.int32()),
        ("snapshot_id", pa.int64()),
        ("sequence_number", pa.int64()),
        ("file_sequence_number", pa.int64()),
        ("content", pa.int32()),
        ("path", pa.string()),
        ("format", pa.string()),
        ("records", pa.int64()),
        ("size", pa.int64()),
        ("encrypted", pa.bool_()),
        ("equality_ids", pa.list_(pa.int32())),
        ("sort_order_id", pa.int32()),
        ("first_row_id", pa.int64()),
        ("referenced_data_file", pa.string()),
        ("content_offset", pa.int64()),
        ("content_size", pa.int64()),
        ("path_bound", pa.string()),  # the one data file that a position delete's bounds name
        ("row_groups", pa.int32()),  # of a data file
    ]
)
_WANTED = frozenset({*FIELD_IDS.values(), PARTITION_ID})
_DELETES_WANTED = _WANTED - {FIELD_IDS["split_offsets"]}
_DATA_WANTED = _WANTED - {FIELD_IDS["lower_bounds"], FIELD_IDS["upper_bounds"]}
_DELETE_PATH_COLUMN = 2147483546  # `file_path` of a position delete file


@dataclass(frozen=True, slots=True)
class PartitionColumn:
    """A partition field as a manifest's own schema types it; columns are named by position, `p0` first."""

    field_id: int
    physical: str  # Avro's primitive or `fixed`
    logical: str | None = None  # date, decimal, uuid, timestamptz-micros, ...
    scale: int = 0


@dataclass(frozen=True)
class ManifestEntries:
    partition_columns: tuple[PartitionColumn, ...]
    table: pa.Table  # ENTRIES, then the partition columns

    @property
    def nbytes(self) -> int:
        return int(self.table.nbytes)


def read_entries(raw: bytes, *, deletes: bool) -> ManifestEntries:
    """The entries that are not DELETED; `deletes` says that it is a delete manifest. Raises AvroError."""
    with decoding():
        container = open_container(raw)
        columns = _partition_columns(container.schema_text)
        schema = _table_schema(columns)
        batches = []
        for rows, values in read_columns(container, _DELETES_WANTED if deletes else _DATA_WANTED):
            if rows:
                batch = _batch(rows, values, schema)
                has_deleted = DELETED in values[FIELD_IDS["status"]]
                batches.append(batch.filter(pc.not_equal(batch["status"], DELETED)) if has_deleted else batch)
        table = pa.Table.from_batches(batches, schema)
        return ManifestEntries(columns, table.combine_chunks() if len(batches) > 1 else table)


def _batch(rows: int, values: Mapping[int, list[Any]], schema: pa.Schema) -> pa.RecordBatch:
    """What a manifest of an older format version lacks is null, but `content`: there were only data files."""
    arrays = []
    partitions = values[PARTITION_ID]
    for field in schema:
        if field.name == "encrypted":
            keys = values.get(FIELD_IDS["key_metadata"], [None] * rows)
            arrays.append(pa.array([key is not None for key in keys]))
        elif field.name == "path_bound":
            arrays.append(pa.array(_bound_paths(values, rows), field.type))
        elif field.name == "row_groups":
            offsets = values.get(FIELD_IDS["split_offsets"], [None] * rows)
            arrays.append(pa.array([len(each) if each else None for each in offsets], field.type))
        elif field.name not in FIELD_IDS:
            position = int(field.name[1:])
            arrays.append(pa.array([partition[position] for partition in partitions], field.type))
        elif FIELD_IDS[field.name] in values:
            arrays.append(pa.array(values[FIELD_IDS[field.name]], field.type))
        elif field.name == "content":
            arrays.append(pa.repeat(pa.scalar(0, field.type), rows))
        else:
            arrays.append(pa.nulls(rows, field.type))
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _bound_paths(values: Mapping[int, list[Any]], rows: int) -> list[str | None]:
    lower_bounds, upper_bounds = (values.get(FIELD_IDS[name]) for name in ("lower_bounds", "upper_bounds"))
    if lower_bounds is None or upper_bounds is None:
        return [None] * rows
    return [_bound_path(lower, upper) for lower, upper in zip(lower_bounds, upper_bounds, strict=True)]


def _bound_path(lower: list[tuple[int, bytes]] | None, upper: list[tuple[int, bytes]] | None) -> str | None:
    bound = dict(lower or ()).get(_DELETE_PATH_COLUMN)
    return bound.decode() if bound is not None and bound == dict(upper or ()).get(_DELETE_PATH_COLUMN) else None


@lru_cache(maxsize=256)
def _table_schema(columns: tuple[PartitionColumn, ...]) -> pa.Schema:
    fields = [pa.field(f"p{position}", _arrow_type(column)) for position, column in enumerate(columns)]
    return pa.schema([*ENTRIES, *fields])


@lru_cache(maxsize=256)
def _partition_columns(schema_text: str) -> tuple[PartitionColumn, ...]:
    named: dict[str, Any] = {}
    for field in json.loads(schema_text)["fields"]:
        for inner in field["type"].get("fields", ()) if isinstance(field["type"], dict) else ():
            if inner.get("field-id") == PARTITION_ID:
                return tuple(_partition_column(one, named) for one in inner["type"]["fields"])
    raise AvroError("its entries have no partition")


def _partition_column(field: Mapping[str, Any], named: dict[str, Any]) -> PartitionColumn:
    kind = field["type"]
    if isinstance(kind, list):
        kind = next((option for option in kind if option != "null"), "null")
    kind = named.get(kind, kind) if isinstance(kind, str) else kind
    if isinstance(kind, str):
        return PartitionColumn(field["field-id"], kind)
    if "name" in kind:
        named[kind["name"]] = kind
    logical = kind.get("logicalType")
    if logical == "timestamp-micros" and kind.get("adjust-to-utc"):
        logical = "timestamptz-micros"
    return PartitionColumn(field["field-id"], kind["type"], logical, kind.get("scale", 0))


def _arrow_type(column: PartitionColumn) -> pa.DataType:
    """Physical and wide, so that a promoted source column (int to long) keeps its partitions."""
    match column.physical:
        case "int" | "long":
            return pa.int64()
        case "float" | "double":
            return pa.float64()
        case "boolean":
            return pa.bool_()
        case "string":
            return pa.string()
        case "bytes" | "fixed":
            return pa.binary()
        case "null":
            return pa.null()
    raise AvroError(f"its partition has a field of type {column.physical!r}")
