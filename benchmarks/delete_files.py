"""Chooses the deleted rows of a benchmark table, and writes its position delete files as row-level writers do."""

from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.manifest import MANIFEST_ENTRY_SCHEMAS
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Operation
from pyiceberg.utils.schema_conversion import AvroSchemaConversion

from tidyberg.avro.records import build_container, field_id, resolve_names, writer
from tidyberg.commit.manifests import write_file
from tidyberg.observe.manifest_list import ListedManifest
from tidyberg.testing import local_path
from tidyberg.testing.commits import commit_manifests, manifests_of
from tidyberg.testing.reading import PATH_FIELD, POSITION_FIELD

COMMITS = 10
_POSITIONS = pa.schema(
    [
        pa.field("file_path", pa.string(), False, {"PARQUET:field_id": str(PATH_FIELD)}),
        pa.field("pos", pa.int64(), False, {"PARQUET:field_id": str(POSITION_FIELD)}),
    ]
)


@dataclass(frozen=True, slots=True)
class Deletes:
    """The number of position delete files per data file, and of equality delete files for the whole table."""

    per_file: int = 10
    positions: int = 20  # rows per position delete file
    equality_files: int = 1_000
    keys: int = 100  # event ids per equality delete file

    def deleted(self, number: int, rows: int, files: int) -> npt.NDArray[np.int64]:
        """Returns the rows of data file `number` that a delete file deletes."""
        by_key = _all_event_ids(self, rows * files)
        first, end = np.searchsorted(by_key, [number * rows, (number + 1) * rows])
        return np.unique(np.concatenate([*self.of_file(number, rows), by_key[first:end] - number * rows]))

    def of_file(self, number: int, rows: int) -> list[npt.NDArray[np.int64]]:
        """Returns the positions in each position delete file of that data file."""
        random = np.random.default_rng(1_000_000 + number)
        return [np.sort(random.choice(rows, self.positions, replace=False)) for _ in range(self.per_file)]

    def event_ids(self, number: int, rows: int) -> npt.NDArray[np.int64]:
        return np.random.default_rng(2_000_000 + number).integers(0, rows, self.keys)


@cache
def _all_event_ids(deletes: Deletes, rows: int) -> npt.NDArray[np.int64]:
    none = np.array([], np.int64)
    return np.sort(np.concatenate([none, *(deletes.event_ids(file, rows) for file in range(deletes.equality_files))]))


def commit_position_deletes(table: Table, paths: list[str], rows: int, deletes: Deletes) -> None:
    """Commits the position delete files. `paths` are the data files by number; each has `rows` rows."""
    per_commit = -(-len(paths) // COMMITS)
    for first in range(0, len(paths), per_commit):
        numbers = range(first, min(first + per_commit, len(paths)))
        _commit(table, [entry for entries in _in_threads(table, numbers, paths, rows, deletes) for entry in entries])


def _in_threads(
    table: Table, numbers: range, paths: list[str], rows: int, deletes: Deletes
) -> Iterator[list[dict[int, Any]]]:
    def write(number: int) -> list[dict[int, Any]]:
        bound = paths[number].encode()
        fields = {134: 1, 125: [{126: PATH_FIELD, 127: bound}], 128: [{129: PATH_FIELD, 130: bound}]}
        return [
            _write(
                table,
                f"positions-{number:05d}-{part:03d}",
                pa.table([pa.repeat(paths[number], len(positions)), pa.array(positions)], schema=_POSITIONS),
                fields,
            )
            for part, positions in enumerate(deletes.of_file(number, rows))
        ]

    with ThreadPoolExecutor(4) as pool:
        yield from pool.map(write, numbers)


def _write(table: Table, name: str, rows: pa.Table, fields: Mapping[int, Any]) -> dict[int, Any]:
    path = f"{table.location()}/data/{name}.parquet"
    with open(local_path(path), "wb") as stream:
        pq.write_table(rows, stream, compression="zstd")
        size = stream.tell()
    return {100: path, 101: "PARQUET", 103: rows.num_rows, 104: size, **fields}


def _commit(table: Table, data_files: list[dict[int, Any]]) -> None:
    table.refresh()
    snapshot_id = table.metadata.new_snapshot_id()
    manifest = _manifest(table, data_files)
    path = f"{table.location()}/metadata/deletes-{snapshot_id}.avro"
    write_file(table.io, path, manifest)
    counts = {504: len(data_files), 505: 0, 506: 0, 512: sum(file[103] for file in data_files), 513: 0, 514: 0}
    listed = ListedManifest({500: path, 501: len(manifest), 502: 0, 517: 1, 503: snapshot_id, **counts, 507: []})
    summary = {"added-delete-files": str(len(data_files))}
    commit_manifests(table, [*manifests_of(table), listed], snapshot_id, Operation.DELETE, summary)


def _manifest(table: Table, data_files: list[dict[int, Any]]) -> bytes:
    schema: Any = AvroSchemaConversion().iceberg_to_avro(MANIFEST_ENTRY_SCHEMAS[2], schema_name="manifest_entry")
    for field in next(f["type"] for f in schema["fields"] if field_id(f) == 2)["fields"]:
        if field_id(field) == 102:
            field["type"] = {"type": "record", "name": "r102", "fields": []}
        if field_id(field) == 135:
            field["type"][1]["items"] = "int"
    write = writer(resolve_names(schema))
    records = []
    for data_file in data_files:
        record = bytearray()
        write(record, {0: 1, 2: {102: {}, **data_file}})
        records.append(bytes(record))
    metadata = {
        "schema": table.schema().model_dump_json().encode(),
        "partition-spec": b"[]",
        "partition-spec-id": b"0",
        "format-version": b"2",
        "content": b"deletes",
    }
    return build_container(schema, metadata, records)
