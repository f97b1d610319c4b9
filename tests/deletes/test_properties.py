"""Whatever writers and compactions do in whatever order, the table holds the rows that a plain list holds."""

import os
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from pyiceberg.expressions import EqualTo as IsEqual
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import IntegerType, LongType, NestedField, StringType

from tests.deletes.tables import BY_REGION, Meddling, compact, data_files, leftovers, options
from tidyberg.errors import Conflict
from tidyberg.model.options import Strategy, VerifyMode
from tidyberg.testing import Warehouse, local_path
from tidyberg.testing.deletes import EqualTo, Positions, commit_deletes
from tidyberg.testing.reading import LiveFile

EXAMPLES = int(os.environ.get("TIDYBERG_TEST_HISTORIES", "30"))
REGIONS = ("eu", "us")
ID, REGION = 1, 2
SCHEMA = Schema(
    NestedField(ID, "id", LongType(), required=False),
    NestedField(REGION, "region", StringType(), required=False),
    NestedField(3, "amount", IntegerType(), required=False),
    NestedField(4, "note", StringType(), required=False),
)
AMOUNTS = st.one_of(st.none(), st.integers(0, 3))
NOTES = st.one_of(st.none(), st.sampled_from(["a", "b", "c"]))
REGION_CHOICE = st.sampled_from(REGIONS)


@dataclass
class Row:
    """What was appended, by field id, and the spec that it was appended under."""

    spec_id: int
    values: dict[int, Any] = field(default_factory=dict)


class Histories(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self._directory = tempfile.TemporaryDirectory()
        self.warehouse = Warehouse(self._directory.name)
        self.truth: list[Row] = []
        self.next_id = 0
        self.columns_added = 0

    def teardown(self) -> None:
        self.warehouse.close()
        self._directory.cleanup()

    @initialize(partitioned=st.booleans())
    def create(self, partitioned: bool) -> None:
        spec = BY_REGION if partitioned else UNPARTITIONED_PARTITION_SPEC
        self.table: Table = self.warehouse.create_table("db.events", SCHEMA, spec)
        for _ in range(2):
            self._append("eu", [(1, "a"), (None, "b"), (2, None)])

    @rule(region=REGION_CHOICE, rows=st.lists(st.tuples(AMOUNTS, NOTES), min_size=1, max_size=6))
    def append(self, region: str, rows: list[tuple[int | None, str | None]]) -> None:
        self._append(region, rows)

    @precondition(lambda self: self._files())
    @rule(data=st.data())
    def delete_rows(self, data: st.DataObject) -> None:
        self._draw_positions(data)()

    @precondition(lambda self: self._files())
    @rule(data=st.data())
    def delete_keys(self, data: st.DataObject) -> None:
        self._draw_keys(data)()

    @rule(data=st.data())
    @precondition(lambda self: self._files() and all(file.partition for file in self._files()))
    def delete_partition(self, data: st.DataObject) -> None:
        region = data.draw(st.sampled_from(self._files())).partition[0]
        self.table.refresh().delete(IsEqual(term="region", value=region))
        self.truth = [row for row in self.truth if row.values[REGION] != region]

    @rule()
    def add_column(self) -> None:
        self.columns_added += 1
        with self.table.update_schema() as update:
            update.add_column(f"late_{self.columns_added}", LongType())

    @rule(data=st.data())
    @precondition(lambda self: self._spare_columns())
    def rename_or_drop_column(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(self._spare_columns()))
        with self.table.update_schema() as update:
            if data.draw(st.booleans()):
                update.delete_column(name)
            else:
                update.rename_column(name, f"{name}_new")

    @rule()
    @precondition(lambda self: self._column(3) is not None)
    def promote_amount(self) -> None:
        amount = self._column(3)
        assert amount is not None
        with self.table.update_schema() as update:
            update.update_column(amount, LongType())

    @rule()
    @precondition(lambda self: len(self.table.specs()) == 1)
    def change_spec(self) -> None:
        with self.table.update_spec() as update:
            if self.table.spec().is_unpartitioned():
                update.add_field("region", IdentityTransform(), "region")
            else:
                update.remove_field("region")

    @rule(
        strategy=st.sampled_from([Strategy.FULL, Strategy.SMALL_FILES, Strategy.DELETE_FILES, Strategy.AUTO]),
        where=st.sampled_from([None, None, "region = 'eu'", "region = 'us'"]),
        data=st.data(),
    )
    def compact(self, strategy: Strategy, where: str | None, data: st.DataObject) -> None:
        meddling = self._draw_meddling(data)
        try:
            result = compact(
                self.warehouse,
                options(strategy, where),
                engine=Meddling(meddling) if meddling else None,
                verify=VerifyMode.FULL,
            )
        except Conflict:
            assert meddling is not None, "a conflict without another writer"
        else:
            if meddling is None and (strategy, where) == (Strategy.FULL, None):
                assert not result.groups_left
                self._check_rows()
                assert compact(self.warehouse, options(strategy)).outcome == "nothing"

    @invariant()
    def check(self) -> None:
        self._check_rows()
        assert not {path for path in leftovers(self.warehouse, self.table) if "tidyberg-" in path}

    def _check_rows(self) -> None:
        self.table.refresh()
        ids = [column.field_id for column in self.table.schema().fields]
        expected = sorted(repr(tuple(row.values.get(number) for number in ids)) for row in self.truth)
        assert self.warehouse.rows(self.table) == expected

    # What writers do, to the table and to the list.

    def _append(self, region: str, rows: list[tuple[int | None, str | None]]) -> None:
        self.table.refresh()
        added = []
        for amount, note in rows:
            values = {ID: self.next_id, REGION: region, 3: amount, 4: note}
            for column in self.table.schema().fields:
                if column.field_id > 4:
                    values[column.field_id] = None if amount is None else amount * 10
            added.append(Row(self.table.spec().spec_id, values))
            self.next_id += 1
        schema = schema_to_pyarrow(self.table.schema(), include_field_ids=False)
        contents = [
            {column.name: row.values[column.field_id] for column in self.table.schema().fields} for row in added
        ]
        self.warehouse.append_files(self.table, 1, rows=lambda _: pa.Table.from_pylist(contents, schema))
        self.truth += added

    def _draw_positions(self, data: st.DataObject) -> Callable[[], None]:
        """Rows of one file, or of several files of one partition."""
        first = data.draw(st.sampled_from(self._files()))
        beside = [f for f in self._files() if (f.spec_id, f.partition) == (first.spec_id, first.partition)]
        chosen = {first.path: first, **{f.path: f for f in data.draw(st.lists(st.sampled_from(beside), max_size=2))}}
        positions = {
            path: sorted(data.draw(st.sets(st.integers(0, file.records - 1), min_size=1)))
            for path, file in chosen.items()
        }
        file_scoped = len(chosen) == 1 and data.draw(st.booleans())
        gone = {self._ids_in(path)[position] for path, places in positions.items() for position in places}

        def apply() -> None:
            commit_deletes(self.table, Positions(positions, file_scoped))
            self.truth = [row for row in self.truth if row.values[ID] not in gone]

        return apply

    def _draw_keys(self, data: st.DataObject) -> Callable[[], None]:
        """Keys over one or two columns, for a partition or, where its spec is unpartitioned, the whole table."""
        like = data.draw(st.sampled_from(self._files()))
        columns = [column for column in self.table.refresh().schema().fields if column.field_id != REGION]
        chosen = data.draw(st.lists(st.sampled_from(columns), min_size=1, max_size=2, unique_by=lambda c: c.field_id))
        known = [tuple(row.values.get(column.field_id) for column in chosen) for row in self.truth]
        keys = data.draw(st.lists(st.sampled_from(known), min_size=1, max_size=3)) if known else []
        is_global = self.table.specs()[like.spec_id].is_unpartitioned()
        region = None if is_global else like.partition[0]

        def apply() -> None:
            by_name = {column.name: [key[place] for key in keys] for place, column in enumerate(chosen)}
            commit_deletes(self.table, EqualTo(by_name, like.path))
            self.truth = [
                row
                for row in self.truth
                if tuple(row.values.get(column.field_id) for column in chosen) not in keys
                or not (is_global or (row.spec_id, row.values[REGION]) == (like.spec_id, region))
            ]

        return apply

    def _draw_meddling(self, data: st.DataObject) -> Callable[[], None] | None:
        """What another writer does while the compaction runs."""
        kind = data.draw(st.sampled_from(["nothing", "nothing", "append", "rows", "keys", "keys, then append"]))
        if kind == "append":
            return lambda: self._append("eu", [(1, "a")])
        if kind == "nothing" or not self._files():
            return None
        if kind == "rows":
            return self._draw_positions(data)
        delete = self._draw_keys(data)
        if kind == "keys":
            return delete

        def delete_then_append() -> None:
            delete()
            self._append("eu", [(1, "a"), (None, None)])

        return delete_then_append

    def _files(self) -> list[LiveFile]:
        return data_files(self.warehouse, self.table)

    def _ids_in(self, path: str) -> list[int]:
        ids: list[int] = pq.read_table(local_path(path), columns=["id"], partitioning=None)["id"].to_pylist()
        return ids

    def _column(self, field_id: int) -> str | None:
        found = [column.name for column in self.table.refresh().schema().fields if column.field_id == field_id]
        return found[0] if found else None

    def _spare_columns(self) -> list[str]:
        columns = self.table.refresh().schema().fields
        return [column.name for column in columns if column.field_id not in (ID, REGION)]


TestHistories = Histories.TestCase
TestHistories.settings = settings(max_examples=EXAMPLES, stateful_step_count=12)
