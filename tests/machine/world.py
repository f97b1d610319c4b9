"""One table with its writers. Each of their changes is made to the table and to plain lists of the expected rows."""

import datetime as dt
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.manifest import DataFileContent
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.transforms import BucketTransform, DayTransform, IdentityTransform, Transform, VoidTransform
from pyiceberg.types import (
    DoubleType,
    FloatType,
    IntegerType,
    ListType,
    LongType,
    NestedField,
    StringType,
    StructType,
    TimestampType,
)

from tests.machine.rows import ID, Row, as_dicts, texts
from tidyberg.testing import LiveFile, Warehouse, local_path
from tidyberg.testing.deletes import EqualTo, Positions, Vectors, commit_deletes
from tidyberg.testing.manifests import live_files

REGION, AT, AMOUNT, PRICE, NOTE, PLACE, TAGS = 2, 3, 4, 5, 6, 7, 8
CITY, HEIGHT = 9, 10
SCHEMA = Schema(
    NestedField(ID, "id", LongType(), required=False),
    NestedField(REGION, "region", StringType(), required=False),
    NestedField(AT, "at", TimestampType(), required=False),
    NestedField(AMOUNT, "amount", IntegerType(), required=False),
    NestedField(PRICE, "price", FloatType(), required=False),
    NestedField(NOTE, "note", StringType(), required=False),
    NestedField(
        PLACE,
        "place",
        StructType(
            NestedField(CITY, "city", StringType(), required=False),
            NestedField(HEIGHT, "height", IntegerType(), required=False),
        ),
        required=False,
    ),
    NestedField(TAGS, "tags", ListType(11, StringType(), element_required=False), required=False),
)
LASTING = (ID, REGION, AT, PLACE)  # columns that are never dropped: partitions and lookups need them
DAYS = (dt.datetime.fromisoformat("2026-01-01T12:00"), dt.datetime.fromisoformat("2026-01-02T12:00"))

Parts = Sequence[tuple[str, Transform[Any, Any]]]
LAYOUTS: Mapping[str, Parts] = {
    "unpartitioned": (),
    "region": (("region", IdentityTransform()),),
    "bucket": (("id", BucketTransform(2)),),
    "day": (("at", DayTransform()),),
    "region-and-bucket": (("region", IdentityTransform()), ("id", BucketTransform(2))),
}


class World:
    def __init__(self, warehouse: Warehouse, name: str, layout: str, format_version: int) -> None:
        self.warehouse = warehouse
        self.name = name
        fields = [
            PartitionField(SCHEMA.find_field(source).field_id, 1000 + place, transform, f"{source}_{place}")
            for place, (source, transform) in enumerate(LAYOUTS[layout])
        ]
        self.table = warehouse.create_table(f"db.{name}", SCHEMA, PartitionSpec(*fields), format_version=format_version)
        self.rows: dict[str, list[Row]] = {"main": []}
        self.history: dict[int, list[Row]] = {}
        self.read: set[tuple[int, int]] = set()  # snapshots and the schemas in which their rows were found right
        self.examined: set[int] = set()  # snapshots whose metadata was found right
        self.lineage: dict[int, dict[int, tuple[int | None, int | None]]] = {}  # by snapshot and number
        self._numbers: dict[str, list[int]] = {}  # by data file
        self._next_number = 0
        self._changes = 0

    # What can be asked.

    def head(self, branch: str = "main") -> Snapshot:
        snapshot = self.table.refresh().metadata.snapshot_by_name(branch)
        assert snapshot is not None
        return snapshot

    def files(self, branch: str = "main") -> list[LiveFile]:
        """Live data files, in an order that no random name decides: drawing from them must be repeatable."""
        found = live_files(self.table.refresh(), self.table.metadata.snapshot_by_name(branch))
        data = [file for file in found if file.content is DataFileContent.DATA]
        return sorted(data, key=lambda file: (file.sequence_number, self.numbers_in(file)))

    def delete_files(self, branch: str = "main") -> list[LiveFile]:
        found = live_files(self.table.refresh(), self.table.metadata.snapshot_by_name(branch))
        return [file for file in found if file.content is not DataFileContent.DATA]

    def numbers_in(self, file: LiveFile) -> list[int]:
        """The ids of a data file's rows, in order; deleted ones too."""
        if file.path not in self._numbers:
            contents = pq.read_table(local_path(file.path), columns=["id"], partitioning=None)
            self._numbers[file.path] = contents["id"].to_pylist()
        return self._numbers[file.path]

    def expected(self, branch: str = "main") -> list[str]:
        return texts(self.rows[branch], self.table.refresh().schema())

    # What writers do.

    def append(self, branch: str, rows: Sequence[Mapping[int, Any]]) -> None:
        """Append rows in one commit, a file for each of the partitions that they fall into."""
        schema = self.table.refresh().schema()
        added = []
        for given in rows:
            values = {**given, ID: self._next_number}
            for field in schema.fields:  # columns that came later
                if field.field_id not in values and isinstance(field.field_type, LongType):
                    values[field.field_id] = self._next_number % 3
            place = values.get(PLACE)
            if place is not None:
                kind = schema.find_type(PLACE)
                assert isinstance(kind, StructType)
                for field in kind.fields:
                    place.setdefault(field.field_id, f"extra-{self._next_number % 2}")
            added.append(Row(values))
            self._next_number += 1
        arrow = schema_to_pyarrow(schema, include_field_ids=False)
        contents = pa.Table.from_pylist(as_dicts(added, schema), arrow)
        self.warehouse.append_files(self.table, 1, rows=lambda _: contents, branch=branch)
        self._now(branch, self.rows[branch] + added)

    def delete_rows(self, branch: str, positions: Mapping[str, Sequence[int]], *, file_scoped: bool) -> None:
        """By position deletes, and in format version 3 by deletion vectors."""
        files = {file.path: file for file in self.files(branch)}
        gone = {self.numbers_in(files[path])[place] for path, places in positions.items() for place in places}
        by_vector = self.table.metadata.format_version > 2
        delete = Vectors(positions) if by_vector else Positions(positions, file_scoped)
        commit_deletes(self.table, delete, branch=branch)
        self._now(branch, [row for row in self.rows[branch] if row.number not in gone])

    def delete_keys(
        self, branch: str, columns: Sequence[str], keys: Sequence[Sequence[Any]], like: LiveFile | None
    ) -> None:
        """Keys for the partition of a file, or for the whole table, when the table has a spec without partitions."""
        paths = [self.path_to(name) for name in columns]
        given = {name: [key[place] for key in keys] for place, name in enumerate(columns)}
        if like is None:
            scope = EqualTo(given, spec_id=self.spec_without_partitions() or 0)
        else:
            scope = EqualTo(given, like.path)
        if like is None or self._has_no_partitions(like.spec_id):
            reached = {row.number for row in self.rows[branch]}
        else:
            beside = [f for f in self.files(branch) if (f.spec_id, f.partition) == (like.spec_id, like.partition)]
            reached = {number for file in beside for number in self.numbers_in(file)}
        wanted = {Row(_nest(paths, key)).key(paths) for key in keys}
        commit_deletes(self.table, scope, branch=branch)
        self._now(branch, [r for r in self.rows[branch] if r.number not in reached or r.key(paths) not in wanted])

    def remove_files(self, branch: str, files: Sequence[LiveFile]) -> None:
        """Whole data files go, as an overwrite takes them; the deletes that applied to them stay."""
        gone = {number for file in files for number in self.numbers_in(file)}
        commit_deletes(self.table, branch=branch, remove={file.path for file in files})
        self._now(branch, [row for row in self.rows[branch] if row.number not in gone])

    def rewrite_deletes(self, branch: str) -> None:
        """As Java's rewrite of position delete files: one a partition, as old as the newest that it replaces."""
        if self.table.refresh().metadata.format_version > 2:
            return  # that version has no new position delete files
        by_partition: dict[tuple[int, tuple[Any, ...]], list[LiveFile]] = {}
        for file in self.delete_files(branch):
            if file.content is DataFileContent.POSITION_DELETES and not file.is_vector:
                by_partition.setdefault((file.spec_id, file.partition), []).append(file)
        live = {file.path for file in self.files(branch)}
        replaced, written = set(), []
        for files in by_partition.values():
            positions: dict[str, list[int]] = {}
            for file in files:
                contents = pq.read_table(local_path(file.path), partitioning=None)
                for path, place in zip(*(contents[name].to_pylist() for name in ("file_path", "pos")), strict=True):
                    positions.setdefault(path, []).append(place)
            replaced |= {file.path for file in files}
            kept = {path: sorted(set(places)) for path, places in positions.items() if path in live}
            if kept:
                newest = max(file.sequence_number for file in files)
                written.append(Positions(kept, sequence_number=newest))
        if replaced:
            commit_deletes(self.table, *written, branch=branch, remove=replaced)
            self._now(branch, self.rows[branch])

    def change_schema(self, kind: str) -> None:
        self._changes += 1
        fields = {field.field_id: field for field in self.table.refresh().schema().fields}
        spare = [field for field in fields.values() if field.field_id not in LASTING]
        with self.table.update_schema() as update:
            if kind == "promote" and AMOUNT in fields and fields[AMOUNT].field_type == IntegerType():
                update.update_column(fields[AMOUNT].name, LongType())
            elif kind == "promote" and PRICE in fields and fields[PRICE].field_type == FloatType():
                update.update_column(fields[PRICE].name, DoubleType())
            elif kind == "drop" and spare:
                update.delete_column(spare[self._changes % len(spare)].name)
            elif kind == "rename" and spare:
                update.rename_column(spare[self._changes % len(spare)].name, f"named_{self._changes}")
            elif kind == "nest":
                update.add_column(("place", f"extra_{self._changes}"), StringType())
            elif kind == "move":
                update.move_first(fields[REGION].name)
            else:
                update.add_column(f"late_{self._changes}", LongType())

    def change_spec(self, layout: str) -> None:
        """To another layout; partitions that it drops stay in the old specs."""
        current = self.table.refresh().spec()
        sources = {SCHEMA.find_field(source).field_id for source, _ in LAYOUTS[layout]}
        if self.table.metadata.format_version == 1 and sources & {field.source_id for field in current.fields}:
            return  # version 1 keeps removed fields as void ones, and PyIceberg writes no spec with a source twice
        with self.table.update_spec() as update:
            for field in current.fields:
                update.remove_field(field.name)
            for source, transform in LAYOUTS[layout]:
                update.add_field(source, transform, f"{source}_{layout}_{len(self.table.specs())}")

    def upgrade(self) -> None:
        version = self.table.refresh().metadata.format_version
        if version < 3:
            self.warehouse.upgrade(self.table, version + 1)

    def create_branch(self, branch: str) -> None:
        if branch not in self.table.refresh().metadata.refs:
            self.table.manage_snapshots().create_branch(self.head().snapshot_id, branch).commit()
            self.rows[branch] = list(self.rows["main"])

    def roll_back(self, steps: int) -> None:
        """Main goes back some snapshots."""
        snapshot = self.head()
        known = {one.snapshot_id: one for one in self.table.metadata.snapshots}
        for _ in range(steps):
            snapshot = known.get(snapshot.parent_snapshot_id or -1, snapshot)
        if snapshot.snapshot_id != self.head().snapshot_id and snapshot.snapshot_id in self.history:
            self.table.manage_snapshots().set_current_snapshot(snapshot_id=snapshot.snapshot_id).commit()
            self.rows["main"] = list(self.history[snapshot.snapshot_id])

    def expire(self) -> None:
        """All snapshots but the heads of the branches; the files stay, for others to clean up."""
        self.learn_snapshots()
        metadata = self.table.metadata
        heads = {ref.snapshot_id for ref in metadata.refs.values()}
        old = [snapshot.snapshot_id for snapshot in metadata.snapshots if snapshot.snapshot_id not in heads]
        if old:
            self.table.maintenance.expire_snapshots().by_ids(old).commit()

    # Odds and ends.

    def _has_no_partitions(self, spec_id: int) -> bool:
        """A spec of void fields only is one without partitions, as version 1 leaves it."""
        return all(isinstance(field.transform, VoidTransform) for field in self.table.specs()[spec_id].fields)

    def spec_without_partitions(self) -> int | None:
        return next((number for number, spec in self.table.specs().items() if spec.is_unpartitioned()), None)

    def learn_snapshots(self) -> None:
        """A snapshot that no writer made holds the rows of its parent: that is what a compaction promises [I1]."""
        for snapshot in self.table.refresh().metadata.snapshots:
            if snapshot.snapshot_id not in self.history:
                assert snapshot.parent_snapshot_id is not None
                self.history[snapshot.snapshot_id] = self.history[snapshot.parent_snapshot_id]

    def _now(self, branch: str, rows: list[Row]) -> None:
        self.rows[branch] = rows
        self.history[self.head(branch).snapshot_id] = list(self.rows[branch])

    def path_to(self, column: str) -> tuple[int, ...]:
        schema = self.table.refresh().schema()
        names = column.split(".")
        return tuple(schema.find_field(".".join(names[: depth + 1])).field_id for depth in range(len(names)))


def _nest(paths: Sequence[Sequence[int]], key: Sequence[Any]) -> dict[int, Any]:
    values: dict[int, Any] = {}
    for path, value in zip(paths, key, strict=True):
        place = values
        for field_id in path[:-1]:
            place = place.setdefault(field_id, {})
        place[path[-1]] = value
    return values
