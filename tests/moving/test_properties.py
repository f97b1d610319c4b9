"""With random partition specs, rows and deletes, a move changes no row."""

import tempfile
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import given, note, settings
from hypothesis import strategies as st
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC
from pyiceberg.table import Table
from pyiceberg.transforms import BucketTransform, IdentityTransform, Transform, TruncateTransform, parse_transform

from tests.builders.control import leftovers
from tests.builders.events_table import SCHEMA, data_files, delete_files
from tests.builders.moved_tables import change_spec, move
from tidyberg.testing import Warehouse
from tidyberg.testing.deletes import delete_equal, delete_positions

FIELDS: list[tuple[str, Transform[Any, Any]]] = [
    ("region", IdentityTransform()),
    ("id", BucketTransform(3)),
    ("id", TruncateTransform(10)),
    ("note", TruncateTransform(5)),
    ("amount", IdentityTransform()),
    ("place.city", BucketTransform(2)),
]
ROW = st.fixed_dictionaries(
    {
        "id": st.none() | st.integers(0, 29),
        "region": st.sampled_from([None, "eu", "us"]),
        "amount": st.none() | st.integers(-2, 2),
        "note": st.none() | st.text(alphabet="aé😀", max_size=7),
        "place": st.none() | st.fixed_dictionaries({"city": st.sampled_from([None, "x", "y"])}),
    }
)
STEP = st.one_of(
    st.tuples(st.just("append"), st.lists(ROW, min_size=1, max_size=6)),
    st.tuples(st.just("spec"), st.lists(st.sampled_from(FIELDS), max_size=2, unique_by=lambda field: field[0])),
    st.tuples(st.just("keys"), st.lists(st.integers(0, 29), min_size=1, max_size=3)),
    st.tuples(st.just("positions"), st.integers(0, 5)),
)


def take(warehouse: Warehouse, table: Table, step: str, content: Any) -> None:
    files = data_files(warehouse, table)
    if step == "append":
        schema = pa.schema(
            [("id", pa.int64()), ("region", pa.string()), ("amount", pa.int32()), ("note", pa.string()),
             ("place", pa.struct([("city", pa.string())]))]
        )  # fmt: skip
        warehouse.append_files(table, 1, rows=lambda _: pa.Table.from_pylist(content, schema=schema))
    elif step == "spec":
        change_spec(table, *content, remove=[field.name for field in table.refresh().spec().fields])
    elif step == "keys" and files:
        delete_equal(table, files[content[0] % len(files)].path, {"id": content})
    elif step == "positions" and files:
        file = files[content % len(files)]
        delete_positions(table, file.path, [content % file.records])


@settings(max_examples=8)
@given(
    first=st.lists(ROW, min_size=1, max_size=6),
    steps=st.lists(STEP, max_size=7),
    last=st.lists(st.sampled_from(FIELDS), max_size=2, unique_by=lambda field: field[0]),
)
def test_a_move_changes_no_row_and_leaves_nothing_to_do(
    first: list[dict[str, Any]], steps: list[tuple[str, Any]], last: list[tuple[str, Transform[Any, Any]]]
) -> None:
    with tempfile.TemporaryDirectory() as directory, Warehouse(directory) as warehouse:
        table = warehouse.create_table("db.events", SCHEMA, UNPARTITIONED_PARTITION_SPEC)
        for step, content in [("append", first), *steps, ("spec", last)]:
            take(warehouse, table, step, content)
        rows = warehouse.rows(table)

        move(warehouse)

        note(str(table.refresh().specs()))
        assert warehouse.rows(table) == rows
        files = data_files(warehouse, table)
        assert {file.spec_id for file in files} <= {table.spec().spec_id}
        _partitions_are_true(table)
        assert not leftovers(warehouse, table)
        if not rows:
            assert delete_files(warehouse, table) == []
        assert not move(warehouse).has_committed


def _partitions_are_true(table: Table) -> None:
    """Compares with PyIceberg, which reads the manifests and computes the transforms."""
    for task in table.scan().plan_files():
        rows = pq.read_table(task.file.file_path.removeprefix("file://")).to_pylist()
        for at, field in enumerate(table.spec().fields):
            source = table.schema().find_column_name(field.source_id)
            assert source is not None
            kind = table.schema().find_field(field.source_id).field_type
            transform = parse_transform(str(field.transform)).transform(kind)
            values = {repr(transform(_value(row, source))) for row in rows}
            assert values == {repr(task.file.partition[at])}


def _value(row: dict[str, Any], name: str) -> Any:
    outer, _, inner = name.partition(".")
    return row[outer] if not inner else (row[outer] or {}).get(inner)
