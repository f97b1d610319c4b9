"""Inventories built by hand, their statistics, and their state after a plan is applied."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import (
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    IntegerType,
    ListType,
    LongType,
    NestedField,
    StringType,
    StructType,
    TimestampType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

from tidyberg.model.inventory import (
    DATA_FILES,
    DELETE_FILES,
    Inventory,
    Partition,
    PartitionStatistics,
)
from tidyberg.model.manifest import ManifestInfo
from tidyberg.model.options import PlanOptions, Strategy
from tidyberg.model.plan import FULL_TARGET, Plan
from tidyberg.model.sizes import MB
from tidyberg.model.table import Pinned, SnapshotInfo, TableRef
from tidyberg.model.task import output_name
from tidyberg.planning.decide import make_plan

# Those that need nothing but sizes and deletes. A sort needs an order: tests/builders/key_bounds.py.
UNORDERED = [strategy for strategy in Strategy if strategy is not Strategy.SORT]
HOUR = 3_600_000
NOW = 1_794_528_000_000  # 2026-11-13 00:00 UTC
TODAY = 20_770  # that day, counted from 1970-01-01

SCHEMA = Schema(
    NestedField(1, "id", LongType(), required=True),
    NestedField(2, "day", DateType()),
    NestedField(3, "region", StringType()),
    NestedField(4, "ts", TimestampType()),
    NestedField(5, "seen", TimestamptzType()),
    NestedField(6, "flag", BooleanType()),
    NestedField(7, "price", DecimalType(9, 2)),
    NestedField(8, "place", StructType(NestedField(9, "city", StringType()), NestedField(10, "zip", IntegerType()))),
    NestedField(11, "odd name", StringType()),
    NestedField(12, "uid", UUIDType()),
    NestedField(13, "ratio", DoubleType()),
    NestedField(14, "tags", ListType(15, StringType())),
    NestedField(16, "clock", TimeType()),
)
BY_DAY = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "day"), spec_id=0)
UNPARTITIONED = PartitionSpec(spec_id=1)


@dataclass(frozen=True)
class File:
    size: int = 1 * MB
    partition: int = 0
    sequence: int = 1
    snapshot: int = 1
    path: str | None = None
    format: str = "PARQUET"
    encrypted: bool = False
    manifest: int = 0
    file_sequence: int | None = None  # if it was added at another sequence number than its data sequence number
    row_groups: int | None = None


@dataclass(frozen=True)
class Delete:
    kind: str = "position"
    scope: str = "partition"
    partition: int = 0
    sequence: int = 1
    references: str | None = None
    records: int = 10
    format: str = "PARQUET"
    file_sequence: int | None = None
    path: str | None = None
    offset: int | None = None
    manifest: int = 9
    snapshot: int = 1


@dataclass(frozen=True)
class Scene:
    """A table as a test describes it. Snapshots are (id, age in milliseconds, operation)."""

    files: Sequence[File]
    deletes: Sequence[Delete] = ()
    days: Sequence[int | None] = (TODAY - 10,)
    snapshots: Sequence[tuple[int, int, str]] = ((1, 48 * HOUR, "append"),)
    full_targets: Mapping[int, int] = field(default_factory=dict)  # by snapshot: targets of full compactions
    properties: Mapping[str, str] = field(default_factory=dict)
    format_version: int = 2
    partitioned: bool = True

    def inventory(self) -> Inventory:
        spec = BY_DAY if self.partitioned else UNPARTITIONED
        partitions = [_partition(day) for day in self.days] if self.partitioned else [Partition(1, (), "")]
        return Inventory(
            pinned=self._pinned(),
            partitions=partitions,
            manifests=[
                ManifestInfo(f"m{n}.avro", 100, spec.spec_id, n in {d.manifest for d in self.deletes}, 1, 1, None)
                for n in range(10)
            ],
            data_files=pa.table(self._data_columns(), schema=DATA_FILES),
            delete_files=pa.table(self._delete_columns(), schema=DELETE_FILES),
        )

    def _pinned(self) -> Pinned:
        history = {
            number: SnapshotInfo(
                number,
                None,
                order if self.format_version > 1 else 0,
                NOW - age,
                operation,
                full_summary(self.full_targets.get(number)),
            )
            for order, (number, age, operation) in enumerate(self.snapshots, 1)
        }
        return Pinned(
            table=TableRef("local", ("analytics",), "events"),
            uuid="9c12d441-03fe-4693-9a96-a0705ddf69c1",
            location="file:///w/events",
            metadata_location="file:///w/events/metadata/1.json",
            format_version=self.format_version,
            branch="main",
            snapshot_id=self.snapshots[-1][0],
            sequence_number=len(self.snapshots) if self.format_version > 1 else 0,
            timestamp_ms=NOW - self.snapshots[-1][1],
            schema=SCHEMA,
            specs={0: BY_DAY, 1: UNPARTITIONED},
            default_spec_id=0 if self.partitioned else 1,
            sort_order_id=0,
            properties=self.properties,
            snapshots=history,
        )

    def _data_columns(self) -> dict[str, Any]:
        files = self.files
        none = [None] * len(files)
        return {
            "path": [f.path or f"f{n:06d}.parquet" for n, f in enumerate(files)],
            "format": pa.array([f.format for f in files], pa.string()).dictionary_encode(),
            "size": [f.size for f in files],
            "records": [f.size // 100 for f in files],
            "spec_id": [0 if self.partitioned else 1] * len(files),
            "partition": [f.partition for f in files],
            "sequence_number": [f.sequence for f in files],
            "file_sequence_number": [_or(f.file_sequence, f.sequence) for f in files],
            "snapshot_id": [f.snapshot for f in files],
            "manifest": [f.manifest for f in files],
            "sort_order_id": none,
            "first_row_id": none,
            "encrypted": [f.encrypted for f in files],
            "row_groups": [f.row_groups for f in files],
        } | _dictionary("format", [f.format for f in files])

    def _delete_columns(self) -> dict[str, Any]:
        deletes = self.deletes
        return {
            "path": [d.path or f"d{n:05d}.parquet" for n, d in enumerate(deletes)],
            "size": [1000] * len(deletes),
            "records": [d.records for d in deletes],
            "spec_id": [0] * len(deletes),
            "partition": [d.partition for d in deletes],
            "sequence_number": [d.sequence for d in deletes],
            "file_sequence_number": [_or(d.file_sequence, d.sequence) for d in deletes],
            "snapshot_id": [d.snapshot for d in deletes],
            "manifest": [d.manifest for d in deletes],
            "equality_ids": [[1, 3] if d.kind == "equality" else None for d in deletes],
            "referenced_data_file": [d.references for d in deletes],
            "content_offset": [d.offset for d in deletes],
            "content_size": [None if d.offset is None else 40 for d in deletes],
        } | {
            name: column
            for part in (
                _dictionary("format", [d.format for d in deletes]),
                _dictionary("kind", [d.kind for d in deletes]),
                _dictionary("scope", [d.scope for d in deletes]),
            )
            for name, column in part.items()
        }


def statistics_of(inventory: Inventory, options: PlanOptions, now_ms: int = NOW) -> list[PartitionStatistics]:
    """Computes the statistics that `observe` promises, in plain Python."""
    data, deletes = inventory.data_files.to_pylist(), inventory.delete_files.to_pylist()
    history = inventory.pinned.snapshots
    everywhere = [row for row in deletes if row["scope"] == "global"]
    files_of: dict[int, list[dict[str, Any]]] = {}
    deletes_of: dict[int, list[dict[str, Any]]] = {}
    for row in data:
        files_of.setdefault(row["partition"], []).append(row)
    for row in deletes:
        if row["scope"] != "global":
            deletes_of.setdefault(row["partition"], []).append(row)
    result = []
    for number in range(len(inventory.partitions)):
        files = files_of.get(number, [])
        oldest = min((row["sequence_number"] for row in files), default=None)
        here = deletes_of.get(number, [])
        if oldest is not None:
            here = here + [row for row in everywhere if oldest < row["sequence_number"]]
        known = {row["snapshot_id"] for row in files if row["snapshot_id"] in history}
        writes = [history[s].timestamp_ms for s in known if history[s].operation != "replace"]
        compactions = [history[s].timestamp_ms for s in known if history[s].operation == "replace"]
        result.append(
            PartitionStatistics(
                partition=number,
                files=len(files),
                small_files=sum(row["size"] < options.small_file_threshold for row in files),
                bytes=sum(row["size"] for row in files),
                records=sum(row["records"] for row in files),
                delete_files=len(here),
                deleted_rows=sum(row["records"] for row in here),
                fragment_ratio=len(here) / max(1, len(files)),
                last_write_ms=max(writes, default=None),
                last_compaction_ms=max(compactions, default=None),
                recent_commits=sum(moment > now_ms - options.hot_window_seconds * 1000 for moment in writes),
            )
        )
    return result


def plan_for(source: Scene | Inventory, options: PlanOptions | None = None, **settings: Any) -> Plan:
    options = options or PlanOptions()
    inventory = source.inventory() if isinstance(source, Scene) else source
    return make_plan(inventory, statistics_of(inventory, options), options, now_ms=NOW, **settings)


def applies(delete: Mapping[str, Any], file: Mapping[str, Any]) -> bool:
    """Returns True if a delete applies to a file, by the rules of the Iceberg specification."""
    if delete["kind"] == "equality":
        in_scope = delete["scope"] == "global" or delete["partition"] == file["partition"]
        return in_scope and bool(file["sequence_number"] < delete["sequence_number"])
    if file["sequence_number"] > delete["sequence_number"]:
        return False
    if delete["referenced_data_file"] is not None:
        return bool(delete["referenced_data_file"] == file["path"])
    there_before = file["file_sequence_number"] <= delete["file_sequence_number"]
    return bool(delete["partition"] == file["partition"] and there_before)


def applied(inventory: Inventory, plan: Plan, ratio: float, removed: float = 0.5) -> Inventory:
    """Returns the inventory after the plan's commit.

    Every output is `ratio` times as large as its share of the input. A delete of one file removes all rows it
    holds, others together the share `removed` of each file. Delete files go when no file that stays needs them.
    """
    replaced = {file.path for group in plan.groups if not group.keeps_data for file in group.files}
    merged = {file.path for group in plan.groups if group.keeps_data for file in group.files}
    rows = {row["path"]: row for row in inventory.data_files.to_pylist()}
    deletes = inventory.delete_files.to_pylist()
    used = {(delete.path, delete.content_offset) for delete in plan.deletes}
    left = [
        sum(
            _rows_left(rows[file.path], [row for row in deletes if applies(row, rows[file.path])], removed)
            for file in group.files
        )
        for group in plan.groups
    ]
    partition_of = {(p.spec_id, p.path): n for n, p in enumerate(inventory.partitions)}
    pinned = inventory.pinned
    snapshot = SnapshotInfo(
        max(pinned.snapshots) + 1,
        None,
        pinned.sequence_number + 1,
        NOW,
        "replace",
        full_summary(plan.full_target),
    )
    outputs = [
        {
            "path": f"out-{snapshot.snapshot_id}-{group.group_id}-{number}.parquet",
            "format": "PARQUET",
            "size": max(1, int(group.bytes * ratio * records / max(1, group.records) / group.outputs)),
            "records": records // group.outputs,
            "spec_id": group.spec_id,
            "partition": partition_of[group.spec_id, group.partition_path],
            "sequence_number": plan.sequence_number,
            "file_sequence_number": snapshot.sequence_number,
            "snapshot_id": snapshot.snapshot_id,
            "manifest": 0,
            "encrypted": False,
        }
        for group, records in zip(plan.groups, left, strict=True)
        if not group.keeps_data
        for number in range(group.outputs if records or not group.deletes else 0)
    ]
    kept = [row for path, row in rows.items() if path not in replaced]
    needed = [
        row
        for row in deletes
        if (row["path"], row["content_offset"]) not in used
        or any(applies(row, file) for file in kept if file["path"] not in merged)
    ]
    is_v3 = pinned.format_version > 2
    needed += [
        {
            "path": output_name(f"job-{snapshot.snapshot_id}", 0, 0, number, ending="puffin" if is_v3 else "parquet"),
            "format": "PUFFIN" if is_v3 else "PARQUET",
            "size": 1000,
            "records": 1,
            "kind": "dv" if is_v3 else "position",
            "scope": "file",
            "spec_id": rows[path]["spec_id"],
            "partition": rows[path]["partition"],
            "sequence_number": plan.sequence_number,
            "file_sequence_number": snapshot.sequence_number,
            "snapshot_id": snapshot.snapshot_id,
            "manifest": 9,
            "referenced_data_file": path,
            "content_offset": number if is_v3 else None,
            "content_size": 40 if is_v3 else None,
        }
        for number, path in enumerate(sorted(merged))
    ]
    return replace(
        inventory,
        pinned=replace(
            pinned,
            snapshot_id=snapshot.snapshot_id,
            sequence_number=snapshot.sequence_number,
            snapshots={**pinned.snapshots, snapshot.snapshot_id: snapshot},
        ),
        data_files=pa.Table.from_pylist(kept + outputs, schema=DATA_FILES),
        delete_files=pa.Table.from_pylist(needed, schema=DELETE_FILES),
    )


def full_summary(target: int | None) -> dict[str, str]:
    """Returns the summary entries of a commit of a full compaction with this target."""
    return {} if target is None else {FULL_TARGET: str(target)}


def _rows_left(file: Mapping[str, Any], deletes: Sequence[Mapping[str, Any]], removed: float) -> int:
    named = sum(row["records"] for row in deletes if row["referenced_data_file"] is not None)
    others = int(file["records"] * removed) if any(row["referenced_data_file"] is None for row in deletes) else 0
    return max(0, int(file["records"] - named - others))


def _partition(day: int | None) -> Partition:
    shown = "null" if day is None else str(pa.scalar(day, pa.date32()).as_py())
    return Partition(0, (day,), f"day={shown}")


def _or(value: int | None, otherwise: int) -> int:
    return otherwise if value is None else value


def _dictionary(name: str, values: list[str]) -> dict[str, Any]:
    return {name: pa.array(values, pa.string()).cast(pa.dictionary(pa.int8(), pa.string()))}
