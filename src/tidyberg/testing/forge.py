"""Makes tables without data, whose manifests list as many files as a planning benchmark needs, in seconds."""

import random
import time
from collections.abc import Sequence

from pyiceberg.manifest import (
    MANIFEST_LIST_FILE_SCHEMAS,
    ManifestContent,
    ManifestEntryStatus,
    data_file_with_partition,
    manifest_entry_schema_with_data_file,
)
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Operation, Snapshot, Summary
from pyiceberg.table.update import AddSnapshotUpdate, AssertTableUUID, SetSnapshotRefUpdate
from pyiceberg.transforms import IdentityTransform
from pyiceberg.typedef import Record
from pyiceberg.types import LongType, NestedField

from tidyberg.testing.avro import avro_file, encode_bytes, encode_long, encode_record
from tidyberg.testing.warehouse import Warehouse

_DELETES_PER_MANIFEST = 8_000
_DELETED_PATH = 2147483546  # the field id of file_path in position delete files
RECORDS_PER_FILE = 1000


def forge_table(
    warehouse: Warehouse,
    identifier: str,
    files: int,
    *,
    partitions: int = 0,
    manifests: int = 1,
    columns: int = 20,
    file_bytes: int = 1_000_000,
    format_version: int = 2,
    position_deletes: int = 0,
    small_every: int = 1,
) -> Table:
    """Make a table whose manifests list `files` data files that do not exist, because planning opens none.

    File n has `file_bytes` + n bytes and 1,000 records. It is in partition n modulo `partitions` (0 makes an
    unpartitioned table). Only every `small_every`-th file has this size; the others are 500 times as large. Each of the
    first `position_deletes` files has a position delete file with 10 rows.
    """
    schema = Schema(*(NestedField(n, f"c{n}", LongType(), required=False) for n in range(1, columns + 1)))
    fields = [PartitionField(1, 1000, IdentityTransform(), "c1")] if partitions else []
    table = warehouse.create_table(identifier, schema, PartitionSpec(*fields), format_version=format_version)
    snapshot_id = random.Random(identifier).getrandbits(62)  # noqa: S311 - an identifier, not a secret
    listed = []
    for number in range(manifests):
        numbers = range(number * files // manifests, (number + 1) * files // manifests)
        location = f"{table.location()}/metadata/forged-{number:05d}.avro"
        raw = _manifest(table, snapshot_id, numbers, partitions, file_bytes, small_every)
        with table.io.new_output(location).create() as stream:
            stream.write(raw)
        listed.append(_list_entry(format_version, location, len(raw), snapshot_id, len(numbers)))
    for first in range(0, position_deletes, _DELETES_PER_MANIFEST):
        numbers = range(first, min(position_deletes, first + _DELETES_PER_MANIFEST))
        location = f"{table.location()}/metadata/forged-deletes-{first:09d}.avro"
        raw = _delete_manifest(table, snapshot_id, numbers, partitions)
        with table.io.new_output(location).create() as stream:
            stream.write(raw)
        listed.append(
            _list_entry(format_version, location, len(raw), snapshot_id, len(numbers), ManifestContent.DELETES)
        )
    _commit(warehouse, table, snapshot_id, listed)
    return table.refresh()


def _list_entry(
    version: int,
    location: str,
    length: int,
    snapshot_id: int,
    files: int,
    content: ManifestContent = ManifestContent.DATA,
) -> bytes:
    schema = MANIFEST_LIST_FILE_SCHEMAS[version]
    values = {
        "manifest_path": location,
        "manifest_length": length,
        "partition_spec_id": 0,
        "content": content,
        "sequence_number": 1,
        "min_sequence_number": 1,
        "added_snapshot_id": snapshot_id,
        "added_files_count": files,
        "existing_files_count": 0,
        "deleted_files_count": 0,
        "added_rows_count": RECORDS_PER_FILE * files,
        "existing_rows_count": 0,
        "deleted_rows_count": 0,
    }
    return encode_record(schema, Record(*(values.get(field.name) for field in schema.fields)))


def _commit(warehouse: Warehouse, table: Table, snapshot_id: int, listed: Sequence[bytes]) -> None:
    location = f"{table.location()}/metadata/snap-{snapshot_id}.avro"
    schema = MANIFEST_LIST_FILE_SCHEMAS[table.metadata.format_version]
    with table.io.new_output(location).create() as stream:
        stream.write(avro_file(schema, "manifest_file", listed))
    snapshot = Snapshot.model_validate(
        {
            "snapshot-id": snapshot_id,
            "sequence-number": 1,
            "timestamp-ms": int(time.time() * 1000),
            "manifest-list": location,
            "summary": Summary(Operation.APPEND),
            "schema-id": 0,
        }
    )
    head = SetSnapshotRefUpdate.model_validate({"ref-name": "main", "type": "branch", "snapshot-id": snapshot_id})
    requirements = (AssertTableUUID(uuid=table.metadata.table_uuid),)
    warehouse.catalog.commit_table(table, requirements, (AddSnapshotUpdate(snapshot=snapshot), head))


def _manifest(
    table: Table, snapshot_id: int, numbers: range, partitions: int, file_bytes: int, small_every: int
) -> bytes:
    """Make a manifest from one encoded entry, and replace only path, partition and size in each copy."""
    version = table.metadata.format_version
    partition_type = table.spec().partition_type(table.schema())
    data_file_type = data_file_with_partition(partition_type, version)
    schema = manifest_entry_schema_with_data_file(version, data_file_type)
    ids = range(1, len(table.schema().fields) + 1)
    path_of = f"{table.location()}/data/{{:09d}}.parquet".format
    metrics = {
        "content": 0,
        "file_path": path_of(0),
        "file_format": "PARQUET",
        "partition": Record(0) if partitions else Record(),
        "record_count": RECORDS_PER_FILE,
        "file_size_in_bytes": 0,
        "block_size_in_bytes": 1,
        "column_sizes": dict.fromkeys(ids, 8000),
        "value_counts": dict.fromkeys(ids, RECORDS_PER_FILE),
        "null_value_counts": dict.fromkeys(ids, 0),
        "lower_bounds": {n: n.to_bytes(8, "little") for n in ids},
        "upper_bounds": {n: (1000 * n).to_bytes(8, "little") for n in ids},
        "split_offsets": [4],
    }
    data_file = Record(*(metrics.get(field.name) for field in data_file_type.fields))
    leading = {"status": ManifestEntryStatus.ADDED, "snapshot_id": snapshot_id, "data_file": data_file}
    entry = encode_record(schema, Record(*(leading.get(field.name) for field in schema.fields)))
    head, rest = entry.split(path_of(0).encode())
    # After the path come format, partition (a union: branch 1, then the value), record count and size.
    file_format, records = encode_bytes(b"PARQUET"), encode_long(RECORDS_PER_FILE)
    tail = rest[len(file_format) + (2 if partitions else 0) + len(records) + 1 :]
    bodies = []
    for number in numbers:
        partition = b"\x02" + encode_long(number % partitions) if partitions else b""
        size = file_bytes * (500 if number % small_every else 1) + number
        middle = file_format + partition + records + encode_long(size)
        bodies.append(head + path_of(number).encode() + middle + tail)
    metadata = {
        "schema": table.schema().model_dump_json(),
        "partition-spec": f"[{','.join(field.model_dump_json() for field in table.spec().fields)}]",
        "partition-spec-id": str(table.spec().spec_id),
        "format-version": str(version),
        "content": "data",
    }
    return avro_file(schema, "manifest_entry", bodies, metadata)


def _delete_manifest(table: Table, snapshot_id: int, numbers: range, partitions: int) -> bytes:
    version = table.metadata.format_version
    data_file_type = data_file_with_partition(table.spec().partition_type(table.schema()), version)
    schema = manifest_entry_schema_with_data_file(version, data_file_type)
    bodies = []
    for number in numbers:
        named = f"{table.location()}/data/{number:09d}.parquet".encode()
        values = {
            "content": 1,
            "file_path": f"{table.location()}/data/{number:09d}-deletes.parquet",
            "file_format": "PARQUET",
            "partition": Record(number % partitions) if partitions else Record(),
            "record_count": 10,
            "file_size_in_bytes": 2_000,
            "lower_bounds": {_DELETED_PATH: named},
            "upper_bounds": {_DELETED_PATH: named},
        }
        data_file = Record(*(values.get(field.name) for field in data_file_type.fields))
        leading = {"status": ManifestEntryStatus.ADDED, "snapshot_id": snapshot_id, "data_file": data_file}
        bodies.append(encode_record(schema, Record(*(leading.get(field.name) for field in schema.fields))))
    return avro_file(schema, "manifest_entry", bodies, {"format-version": str(version), "content": "deletes"})
