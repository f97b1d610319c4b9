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
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
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
from tidyberg.testing import LiveFile, Warehouse, local_path
from tidyberg.testing.deletes import EqualTo, Positions, commit_deletes

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
HOW = st.tuples(
    st.sampled_from([Strategy.FULL, Strategy.SMALL_FILES, Strategy.DELETE_FILES, Strategy.AUTO]),
    st.sampled_from([None, "region = 'eu'", "region = 'us'"]),
)


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
        self.changes = 0

    def teardown(self) -> None:
        self.warehouse.close()
        self._directory.cleanup()

    @initialize(layout=st.sampled_from(["unpartitioned", "by region", "by region since"]))
    def create(self, layout: str) -> None:
        spec = BY_REGION if layout == "by region" else UNPARTITIONED_PARTITION_SPEC
        self.table: Table = self.warehouse.create_table("db.events", SCHEMA, spec)
        if layout == "by region since":
            self._change_spec()
        for region in REGIONS * 2:
            self._append(region, [(1, "a"), (None, "b"), (2, None)])

    @rule(
        writes=st.lists(st.sampled_from(["append", "rows", "keys", "evolve"]), min_size=1, max_size=4),
        how=HOW,
        during=st.sampled_from([None, "rows", "keys", "append", "keys, then append"]),
        data=st.data(),
    )
    def write_then_compact(
        self, writes: list[str], how: tuple[Strategy, str | None], during: str | None, data: st.DataObject
    ) -> None:
        """Writes, then a compaction, during which another writer may write too."""
        for kind in writes:
            self._draw_write(kind, data)()
            self._check_rows()
        engine = None if during is None else Meddling(self._draw_write(during, data))
        try:
            result = compact(self.warehouse, options(*how), engine=engine, verify=VerifyMode.FULL)
        except Conflict:
            assert during is not None, "a conflict without another writer"
            return
        if during is None:
            assert not result.groups_left
        if during is None and how == (Strategy.FULL, None):
            self._check_rows()
            assert compact(self.warehouse, options()).outcome == "nothing"

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

    def _change_columns(self) -> None:
        """In turn: promote, add, rename, drop."""
        self.table.refresh()
        self.changes += 1
        spare = [c for c in self.table.schema().fields if c.field_id not in (ID, REGION)]
        with self.table.update_schema() as update:
            if self.changes % 4 == 1 and spare and spare[0].field_type == IntegerType():
                update.update_column(spare[0].name, LongType())
            elif self.changes % 4 == 2 or not spare:
                update.add_column(f"late_{self.changes}", LongType())
            elif self.changes % 4 == 3:
                update.rename_column(spare[-1].name, f"new_{self.changes}")
            else:
                update.delete_column(spare[0].name)

    def _change_spec(self) -> None:
        if len(self.table.refresh().specs()) > 1:
            return
        with self.table.update_spec() as update:
            if self.table.spec().is_unpartitioned():
                update.add_field("region", IdentityTransform(), "region")
            else:
                update.remove_field("region")

    def _drop_region(self) -> None:
        """Whole files go; the deletes that applied to them stay."""
        files = self._files()
        if not files or not all(file.partition for file in files):
            return
        region = files[0].partition[0]
        self.table.refresh().delete(IsEqual(term="region", value=region))
        self.truth = [row for row in self.truth if row.values[REGION] != region]

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
        """Keys over one or two columns, for a partition or, in an unpartitioned spec, for the whole table."""
        like = data.draw(st.sampled_from(self._files()))
        columns = [column for column in self.table.refresh().schema().fields if column.field_id != REGION]
        chosen = data.draw(st.lists(st.sampled_from(columns), min_size=1, max_size=2, unique_by=lambda c: c.field_id))
        known = [tuple(row.values.get(column.field_id) for column in chosen) for row in self.truth]
        keys = data.draw(st.lists(st.sampled_from(known), min_size=1, max_size=3)) if known else []
        plain = [spec_id for spec_id, spec in self.table.specs().items() if spec.is_unpartitioned()]
        is_global = like.spec_id in plain or (bool(plain) and data.draw(st.booleans()))
        region = None if is_global else like.partition[0]

        def apply() -> None:
            by_name = {column.name: [key[place] for key in keys] for place, column in enumerate(chosen)}
            scope = EqualTo(by_name, spec_id=plain[0]) if is_global else EqualTo(by_name, like.path)
            commit_deletes(self.table, scope)
            self.truth = [
                row
                for row in self.truth
                if tuple(row.values.get(column.field_id) for column in chosen) not in keys
                or not (is_global or (row.spec_id, row.values[REGION]) == (like.spec_id, region))
            ]

        return apply

    def _draw_write(self, kind: str, data: st.DataObject) -> Callable[[], None]:
        if kind == "evolve":
            steps = [self._change_columns, self._change_columns, self._change_spec, self._drop_region]
            return data.draw(st.sampled_from(steps))
        if kind == "rows" and self._files():
            return self._draw_positions(data)
        delete = self._draw_keys(data) if "keys" in kind and self._files() else None
        region = data.draw(st.sampled_from(REGIONS))
        rows = data.draw(st.lists(st.tuples(AMOUNTS, NOTES), min_size=1, max_size=4))

        def write() -> None:
            if delete is not None:
                delete()
            if "append" in kind or delete is None:
                self._append(region, rows)

        return write

    def _files(self) -> list[LiveFile]:
        return data_files(self.warehouse, self.table)

    def _ids_in(self, path: str) -> list[int]:
        ids: list[int] = pq.read_table(local_path(path), columns=["id"], partitioning=None)["id"].to_pylist()
        return ids


TestHistories = Histories.TestCase
TestHistories.settings = settings(max_examples=EXAMPLES, stateful_step_count=4)
