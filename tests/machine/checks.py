"""Checks of a table after every step of any writer: its rows, its manifests, its summaries, its files."""

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from pyiceberg.conversions import from_bytes
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Operation, Snapshot

from tests.machine.rows import Row, texts
from tests.machine.world import World
from tidyberg.avro.records import AvroFile
from tidyberg.testing import local_path
from tidyberg.testing.reading import read_rows

ADDED, EXISTING, DELETED = 1, 0, 2
COUNTS = {ADDED: (504, 512), EXISTING: (505, 513), DELETED: (506, 514)}  # files and rows by status
OURS = "tidyberg.job-id"


def check_rows(world: World) -> None:
    """Every branch holds what its writers left, and so does every snapshot that is still there [I1]."""
    world.learn_snapshots()
    schema = world.table.schema()
    heads = {ref.snapshot_id for ref in world.table.metadata.refs.values()}
    for snapshot in world.table.metadata.snapshots:
        read = (snapshot.snapshot_id, schema.schema_id)
        if read in world.read and snapshot.snapshot_id not in heads:
            continue  # no file of a snapshot ever changes, and `check_files` sees that none is missing
        world.read.add(read)
        found = world.warehouse.rows(world.table, snapshot_id=snapshot.snapshot_id)
        assert found == texts(world.history[snapshot.snapshot_id], schema), f"snapshot {snapshot.snapshot_id}"
    for branch in world.rows:
        assert texts(world.history[world.head(branch).snapshot_id], schema) == world.expected(branch), branch


def check_pyiceberg(world: World) -> None:
    """PyIceberg reads the same, where it can: it knows neither equality deletes nor deletion vectors."""
    if world.table.metadata.format_version > 2 or any(file.equality_ids for file in world.delete_files()):
        return
    rows = world.table.scan().to_arrow().to_pylist()
    assert sorted(repr(tuple(row.values())) for row in rows) == world.expected()


def check_lineage(world: World) -> None:
    """A row that has an id keeps it, and the number of the commit that wrote it, from snapshot to snapshot [I8]."""
    if world.table.refresh().metadata.format_version < 3:
        return
    for snapshot in world.table.metadata.snapshots:
        if snapshot.snapshot_id in world.lineage:
            continue
        found = {
            row["id"]: (row["_row_id"], row["_last_updated_sequence_number"])
            for row in read_rows(world.table, snapshot, lineage=True)
        }
        given = [row_id for row_id, _ in found.values() if row_id is not None]
        assert len(given) == len(set(given)), "no two rows share an id"
        before = world.lineage.get(snapshot.parent_snapshot_id or -1, {})
        kept = {number: ids for number, ids in before.items() if ids[0] is not None and number in found}
        assert {number: found[number] for number in kept} == kept
        world.lineage[snapshot.snapshot_id] = found


def check_structure(world: World) -> None:
    table = world.table.refresh()
    for snapshot in table.metadata.snapshots:
        if snapshot.snapshot_id not in world.examined:
            _check_snapshot(world, table, snapshot)
            world.examined.add(snapshot.snapshot_id)


def _check_snapshot(world: World, table: Table, snapshot: Snapshot) -> None:
    rows = {row.number: row for row in world.history[snapshot.snapshot_id]}
    live: list[dict[int, Any]] = []
    for line in _records(snapshot.manifest_list):
        entries = _records(line[500])
        assert line[501] == Path(local_path(line[500])).stat().st_size
        for status, (files, records) in COUNTS.items():
            of_status = [entry[2] for entry in entries if entry[0] == status]
            assert line[files] == len(of_status), (line, status)
            assert line[records] == sum(data_file[103] for data_file in of_status), (line, status)
        alive = [entry for entry in entries if entry[0] != DELETED]
        if table.metadata.format_version > 1 and (line.get(515) or 0) > 0:
            numbers = [entry[3] if entry.get(3) is not None else line[515] for entry in alive]
            assert line[516] == min(numbers, default=line[516]), "min_sequence_number is that of the live files"
        _check_partition_summaries(table, line, [list(entry[2][102].values()) for entry in entries])
        live += [entry[2] | {0: line[502], 517: line.get(517) or 0} for entry in alive]
    identities = [(data_file[100], data_file.get(144), data_file.get(145)) for data_file in live]
    assert len(identities) == len(set(identities)), "I5: no file is live twice"
    for data_file in live:
        _check_file(table, data_file, rows)
    _check_summary(snapshot, live)


def _check_partition_summaries(table: Table, line: Mapping[int, Any], partitions: list[list[Any]]) -> None:
    """What readers may skip a manifest by covers every entry of it [I9]."""
    schema = table.schema()
    for at, (field, summary) in enumerate(zip(table.specs()[line[502]].fields, line[507] or [], strict=True)):
        values = [values[at] for values in partitions]
        assert summary[509] or None not in values
        kind: Any = field.transform.result_type(schema.find_type(field.source_id))
        for value in values:
            if value is not None:
                assert from_bytes(kind, summary[510]) <= value <= from_bytes(kind, summary[511])


def _check_file(table: Table, data_file: Mapping[int, Any], rows: Mapping[int, Row]) -> None:
    """Size, number of rows and partition are those of the file [I9]."""
    path = local_path(data_file[100])
    if data_file[101].upper() != "PARQUET":
        return  # a deletion vector: its size is that of the Puffin file
    size, records, numbers = _measured(path, data_file[517] == 0)
    assert data_file[104] == size
    assert data_file[103] == records
    spec = table.specs()[data_file[0]]
    values = list(data_file[102].values())
    for field, value in zip(spec.fields, values, strict=True):
        for row in (rows[number] for number in numbers if number in rows):
            source = table.schema().find_field(field.source_id)
            assert field.transform.transform(source.field_type)(_internal(row.values[field.source_id])) == value


def _internal(value: Any) -> Any:
    """Timestamps are microseconds inside Iceberg."""
    return int(value.timestamp() * 1_000_000) if hasattr(value, "timestamp") else value


def _check_summary(snapshot: Snapshot, live: list[dict[int, Any]]) -> None:
    assert snapshot.summary is not None
    summary = snapshot.summary.additional_properties
    if OURS not in summary:
        return
    if int(summary.get("removed-equality-deletes", "0")) and not int(summary.get("added-data-files", "0")):
        assert snapshot.summary.operation in (Operation.REPLACE, Operation.OVERWRITE)  # keys may have become vectors
    else:
        assert snapshot.summary.operation is Operation.REPLACE
    assert int(summary.get("added-records", "0")) <= int(summary.get("deleted-records", "0"))
    by_content = {content: [f for f in live if (f.get(134) or 0) == content] for content in (0, 1, 2)}
    totals = {
        "total-data-files": len(by_content[0]),
        "total-records": sum(f[103] for f in by_content[0]),
        "total-delete-files": len(by_content[1]) + len(by_content[2]),
        "total-position-deletes": sum(f[103] for f in by_content[1]),
        "total-equality-deletes": sum(f[103] for f in by_content[2]),
    }
    for name, value in totals.items():
        if name in summary:
            assert int(summary[name]) == value, name


def check_files(world: World, seen: set[str], *, after_crash: bool = False) -> None:
    """Nothing that is referenced is missing, and nothing lies around that no snapshot ever referred to [I6]."""
    referenced = referenced_files(world)
    on_disk = world.warehouse.files_on_disk(world.table)
    assert referenced <= on_disk
    seen |= referenced
    if not after_crash:
        assert not on_disk - seen


def referenced_files(world: World) -> set[str]:
    table = world.table.refresh()
    found = {table.metadata_location, *(entry.metadata_file for entry in table.metadata.metadata_log)}
    for snapshot in table.metadata.snapshots:
        found.add(snapshot.manifest_list)
        for line in _records(snapshot.manifest_list):
            found.add(line[500])
            found.update(entry[2][100] for entry in _records(line[500]))
    return {local_path(location) for location in found}


@cache
def _records(location: str) -> list[dict[int, Any]]:
    """The records of a manifest or a list of them: neither ever changes."""
    return list(AvroFile.parse(Path(local_path(location)).read_bytes()).records())


@cache
def _measured(path: str, is_data: bool) -> tuple[int, int, tuple[int, ...]]:
    contents = pq.read_table(path, partitioning=None)
    numbers = contents["id"].to_pylist() if is_data else ()
    return Path(path).stat().st_size, contents.num_rows, tuple(numbers)
