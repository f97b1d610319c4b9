"""Reads manifests into Arrow tables: one row per live entry. The manifest's schema gives the partition types."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidyberg.avro.container import AvroError, Container, blocks, decoding, open_container
from tidyberg.avro.values import (
    bytes_under_key,
    bytes_under_keys,
    column,
    is_null,
    list_lengths,
    numbers_under_keys,
)
from tidyberg.avro.walk import Fields, Wanted, walk

# Field ids of a manifest entry, from the Iceberg specification. The names are columns of ENTRIES.
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
    "null_counts": 110,
    "nan_counts": 137,
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
_FIELDS = tuple((field_id, name) for name, field_id in FIELD_IDS.items())
_BOUNDS = ("lower_bounds", "upper_bounds")
_COUNTS = ("null_counts", "nan_counts")
# The metrics of one column, by the name of the column in the result: `lower_7` is the lower bound of field 7.
_METRICS = {"lower": "lower_bounds", "upper": "upper_bounds", "nulls": "null_counts", "nans": "nan_counts"}
_DELETES_WANTED = Wanted(tuple(one for one in _FIELDS if one[1] not in ("split_offsets", *_COUNTS)), PARTITION_ID, "p")
_DATA_WANTED = Wanted(tuple(one for one in _FIELDS if one[1] not in (*_BOUNDS, *_COUNTS)), PARTITION_ID, "p")
_DELETE_PATH_COLUMN = 2147483546  # `file_path` of a position delete file
_BATCH_BYTES = 48 * 1024 * 1024  # decompressed blocks to walk at once; larger batches are faster but take more memory


class ManifestError(AvroError):
    """A manifest cannot be read. `name` says which one."""

    def __init__(self, name: str, problem: str) -> None:
        super().__init__(problem)
        self.name = name


@dataclass(frozen=True, slots=True)
class PartitionColumn:
    """A partition field with its type in a manifest's schema. Columns are named by position, `p0` first."""

    field_id: int
    physical: str  # Avro's primitive or `fixed`
    logical: str | None = None  # date, decimal, uuid, timestamptz-micros, ...
    scale: int = 0


@dataclass(frozen=True)
class ManifestEntries:
    partition_columns: tuple[PartitionColumn, ...]
    source: pa.Table  # ENTRIES, then the partition columns, of this manifest or of several that were read together
    counted_files: pa.Table | None = None  # counts of the entries that manifests/counted_files.py removed
    rows: range | None = None  # of the source; None means all

    @property
    def span(self) -> range:
        return range(self.source.num_rows) if self.rows is None else self.rows

    @property
    def table(self) -> pa.Table:
        return self.source.slice(self.span.start, len(self.span))

    @property
    def nbytes(self) -> int:
        """This manifest's share of the source. The source stays in memory as long as any of its manifests."""
        return int(self.source.nbytes * len(self.span) / max(1, self.source.num_rows))


def joined(manifests: Sequence[ManifestEntries], names: Sequence[str]) -> pa.Table:
    """Concatenates the named columns. Adjacent rows of one source stay one slice.

    This matters because thousands of manifests may have one entry each.
    """
    pieces: list[tuple[pa.Table, int, int]] = []
    for entries in manifests:
        source, start, end = entries.source, entries.span.start, entries.span.stop
        if pieces and pieces[-1][0] is source and pieces[-1][2] == start:
            start = pieces.pop()[1]
        pieces.append((source, start, end))
    return pa.concat_tables([source.select(names).slice(start, end - start) for source, start, end in pieces])


def metric_names(field_id: int) -> tuple[str, ...]:
    """Returns the names of the columns `only` that hold the bounds and counts of one field."""
    return tuple(f"{metric}_{field_id}" for metric in _METRICS)


def read_entries(
    files: Iterable[tuple[str, bytes, bool]], only: tuple[str, ...] | None = None
) -> Iterator[tuple[str, ManifestEntries]]:
    """Yields the entries of each manifest that are not DELETED. `files` has name, bytes, and True for delete manifests.

    Blocks of manifests with the same schema are decoded together, so thousands of small manifests cost little more
    than a large one. The order of the results can differ from the order of `files`. With `only`, the tables have just
    these columns of ENTRIES or of `metric_names`, and no partitions. Raises ManifestError.
    """
    waiting = _PendingManifests(only)
    for name, raw, deletes in files:
        waiting.add(name, raw, deletes=deletes)
        yield from waiting.finished()
    waiting.flush()
    yield from waiting.finished()


@dataclass(frozen=True, slots=True)
class _BatchKey:
    """Blocks with the same key can be walked together."""

    schema_text: str
    deletes: bool
    only: tuple[str, ...] | None

    @property
    def wanted(self) -> Wanted:
        if self.only is not None:
            return _wanted_only(self.only)
        return _DELETES_WANTED if self.deletes else _DATA_WANTED

    @property
    def table_schema(self) -> pa.Schema:
        columns = _partition_columns(self.schema_text)
        return _table_schema(columns) if self.only is None else _schema_only(self.only)


class _PendingManifests:
    """Collects blocks until there are enough to decode, and the decoded pieces of unfinished manifests."""

    def __init__(self, only: tuple[str, ...] | None) -> None:
        self._only = only
        self._blocks: dict[_BatchKey, list[tuple[str, int, bytes]]] = {}
        self._bytes = 0
        self._last: Container | None = None
        self._schema_text = ""  # of the last manifest
        self._pieces: dict[str, list[tuple[pa.Table, range]]] = {}
        self._read: dict[str, tuple[PartitionColumn, ...]] = {}  # read to the end, but some blocks are not decoded yet
        self._done: dict[str, tuple[PartitionColumn, ...]] = {}

    def add(self, name: str, raw: bytes, *, deletes: bool) -> None:
        with _naming(name):
            container = open_container(raw, self._last)
            if self._last is None or container.metadata is not self._last.metadata:
                self._schema_text = container.schema_text
            self._last = container
            key = _BatchKey(self._schema_text, deletes, self._only)
            columns = _partition_columns(key.schema_text)
            self._pieces[name] = []
            for count, content in blocks(container):
                self._blocks.setdefault(key, []).append((name, count, content))
                self._bytes += len(content)
                if self._bytes >= _BATCH_BYTES:
                    self.flush()
        self._read[name] = columns

    def flush(self) -> None:
        for key, held in self._blocks.items():
            for name, table, rows in _decode(key, held):
                self._pieces[name].append((table, rows))
        self._blocks, self._bytes = {}, 0
        self._done |= self._read
        self._read.clear()

    def finished(self) -> Iterator[tuple[str, ManifestEntries]]:
        for name, columns in self._done.items():
            pieces = self._pieces.pop(name)
            if len(pieces) == 1:
                ((table, rows),) = pieces
                yield name, ManifestEntries(columns, table, rows=rows)
            else:
                parts = [table.slice(rows.start, len(rows)) for table, rows in pieces]
                schema = _table_schema(columns) if self._only is None else _schema_only(self._only)
                yield name, ManifestEntries(columns, pa.concat_tables([schema.empty_table(), *parts]))
        self._done.clear()


@contextmanager
def _naming(name: str) -> Iterator[None]:
    try:
        with decoding():
            yield
    except ManifestError:
        raise
    except AvroError as error:
        raise ManifestError(name, str(error)) from error


def _decode(key: _BatchKey, held: Sequence[tuple[str, int, bytes]]) -> Iterator[tuple[str, pa.Table, range]]:
    try:
        with decoding():
            batch = _batch(key, [(count, content) for _, count, content in held])
    except AvroError:
        for name, count, content in held:  # find the damaged one
            with _naming(name):
                _batch(key, [(count, content)])
        raise
    live = pc.not_equal(batch["status"], DELETED)  # every choice of columns has it
    rows = np.array([count for _, count, _ in held], np.int64)
    ends = np.cumsum(rows)
    if pc.all(live).as_py() is False:
        ends = np.concatenate(([0], np.cumsum(live.to_numpy(zero_copy_only=False))))[ends]
        batch = batch.filter(live)
    table = pa.Table.from_batches([batch])
    names = [name for name, _, _ in held]
    start = 0
    for number, end in enumerate(ends.tolist()):
        if number + 1 == len(names) or names[number + 1] != names[number]:
            yield names[number], table, range(start, end)
            start = end


def _batch(key: _BatchKey, held: Sequence[tuple[int, bytes]]) -> pa.RecordBatch:
    fields = walk(key.schema_text, key.wanted, held)
    schema = key.table_schema
    metrics = _metrics(fields, [name for name in schema.names if _is_metric(name)])
    columns = [metrics[field.name] if field.name in metrics else _column(fields, field) for field in schema]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _is_metric(name: str) -> bool:
    metric, _, field_id = name.partition("_")
    return metric in _METRICS and field_id.isdigit()


def _metrics(fields: Fields, names: Sequence[str]) -> dict[str, pa.Array]:
    """Returns the metrics of single columns. Each map is walked once for all of them."""
    found: dict[str, pa.Array] = {}
    for metric, source in _METRICS.items():
        ids = [int(name.partition("_")[2]) for name in names if name.startswith(f"{metric}_")]
        if ids:
            is_bound = source in _BOUNDS
            values = (
                bytes_under_keys(fields, source, ids, pa.binary())
                if is_bound
                else numbers_under_keys(fields, source, ids)
            )
            found |= {f"{metric}_{field_id}": values[field_id] for field_id in ids}
    return found


def _column(fields: Fields, field: pa.Field) -> pa.Array:
    """A column that an older format version lacks is null, except `content`: version 1 has only data files."""
    match field.name:
        case "encrypted":
            return pc.invert(is_null(fields, "key_metadata"))
        case "path_bound":
            return _bound_paths(fields)
        case "row_groups":
            lengths = list_lengths(fields, "split_offsets")
            return pc.if_else(pc.greater(lengths, 0), lengths, pa.scalar(None, pa.int32()))
        case "content" if "content" not in fields.positions:
            return pa.repeat(pa.scalar(0, field.type), fields.rows)
    return column(fields, field.name, field.type)


def _bound_paths(fields: Fields) -> pa.Array:
    """Returns the path of a position delete file whose lower and upper bound are the same path, else null."""
    lower, upper = (bytes_under_key(fields, name, _DELETE_PATH_COLUMN, pa.binary()) for name in _BOUNDS)
    return pc.if_else(pc.equal(lower, upper), lower, pa.scalar(None, pa.binary())).cast(pa.string())


@lru_cache(maxsize=256)
def _table_schema(columns: tuple[PartitionColumn, ...]) -> pa.Schema:
    fields = [pa.field(f"p{position}", _arrow_type(column)) for position, column in enumerate(columns)]
    return pa.schema([*ENTRIES, *fields])


@lru_cache(maxsize=16)
def _schema_only(names: tuple[str, ...]) -> pa.Schema:
    return pa.schema([_metric_field(name) if _is_metric(name) else ENTRIES.field(name) for name in names])


def _metric_field(name: str) -> pa.Field:
    return pa.field(name, pa.binary() if name.startswith(("lower_", "upper_")) else pa.int64())


@lru_cache(maxsize=16)
def _wanted_only(names: tuple[str, ...]) -> Wanted:
    sources = [_METRICS[name.partition("_")[0]] if _is_metric(name) else name for name in names]
    return Wanted(tuple((FIELD_IDS[name], name) for name in dict.fromkeys(sources)))


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
    """Returns the widest type of the kind, so that a promoted source column (int to long) keeps its partitions."""
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
