"""Files older than the table's schema: their columns are encoded plain next to moved pages, or all are encoded."""

from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.builders.page_offsets import check_offsets
from tests.builders.splice_tasks import assert_alike, both, rewrite, rows_of, small_files_count
from tests.builders.tasks import field, write_file

PLAIN: dict[str, Any] = {"use_dictionary": False, "compression": "zstd", "write_page_index": True}
ID = field("id", pa.int64(), 1)
COUNT = 200


def struct(*children: pa.Field) -> pa.DataType:
    return pa.struct(list(children))


def values(kind: pa.DataType, first: int) -> list[Any]:
    """Some values of a type, nulls among them."""
    if pa.types.is_struct(kind):
        inner = [values(child.type, first + number) for number, child in enumerate(kind)]
        names = [child.name for child in kind]
        rows = [dict(zip(names, row, strict=True)) for row in zip(*inner, strict=True)]
        return [None if number % 11 == 0 else row for number, row in enumerate(rows)]
    whole = [None if number % 7 == 0 else number % 97 for number in range(first, first + COUNT)]
    if pa.types.is_string(kind):
        return [None if number is None else str(number) for number in whole]
    return [None if number is None else Decimal(number) for number in whole] if pa.types.is_decimal(kind) else whole


def table_of(column: pa.Field, first: int, *, required: bool = False) -> pa.Table:
    found = values(column.type, first)
    if required:
        found = [first if value is None else value for value in found]
    ids = pa.array(range(first, first + COUNT), pa.int64())
    return pa.table([ids, pa.array(found, column.type)], schema=pa.schema([ID, column]))


A, B = field("a", pa.int64(), 3), field("b", pa.string(), 4)
CASES = {
    "int to long": (field("value", pa.int32(), 2), field("value", pa.int64(), 2)),
    "float to double": (field("value", pa.float32(), 2), field("value", pa.float64(), 2)),
    "wider decimal": (field("value", pa.decimal128(9, 2), 2), field("value", pa.decimal128(20, 2), 2)),
    "renamed": (field("old", pa.string(), 2), field("value", pa.string(), 2)),
    "required before": (field("value", pa.int64(), 2, nullable=False), field("value", pa.int64(), 2)),
    "another column of that name": (field("value", pa.int64(), 9), field("value", pa.int64(), 2)),
    "fields in another order": (field("value", struct(B, A), 2), field("value", struct(A, B), 2)),
    "a field was dropped": (field("value", struct(A, B), 2), field("value", struct(B), 2)),
    "a field was added": (field("value", struct(A), 2), field("value", struct(A, B), 2)),
    "a field is another": (
        field("value", struct(A, field("b", pa.string(), 8)), 2),
        field("value", struct(A, B), 2),
    ),
}


@pytest.mark.parametrize("older_first", [True, False], ids=["older first", "newer first"])
@pytest.mark.parametrize(("before", "now"), CASES.values(), ids=CASES)
def test_rows_of_older_files_are_read_as_the_table_is_now(
    tmp_path: Path, before: pa.Field, now: pa.Field, older_first: bool
) -> None:
    older = write_file(tmp_path / "old.parquet", table_of(before, 0, required=not before.nullable), **PLAIN)
    newer = write_file(tmp_path / "new.parquet", table_of(now, COUNT), **PLAIN)
    inputs, schema = [older, newer] if older_first else [newer, older], pa.schema([ID, now])
    with small_files_count():
        spliced, encoded = both(inputs, tmp_path, schema, constants={4: "absent", 2: None})
    assert spliced.bytes_spliced > 0
    assert_alike(spliced, encoded)
    assert rows_of(spliced).to_pylist() == rows_of(encoded).to_pylist()
    check_offsets(Path(spliced.outputs[0].path))


def test_a_column_that_older_files_lack_has_its_default_there(tmp_path: Path) -> None:
    now = field("value", pa.int64(), 2)
    newer = write_file(tmp_path / "new.parquet", table_of(now, COUNT), **PLAIN)
    older = write_file(tmp_path / "old.parquet", table_of(now, 0).select(["id"]), **PLAIN)
    with small_files_count():
        result = rewrite([newer, older], tmp_path / "out", pa.schema([ID, now]), constants={2: 42})
    assert result.bytes_spliced > 0
    assert rows_of(result)["value"].to_pylist() == [*values(now.type, COUNT), *[42] * COUNT]


def test_files_without_field_ids_are_read_by_name(tmp_path: Path) -> None:
    now = pa.schema([ID, field("value", pa.int64(), 2)])
    newer = write_file(tmp_path / "new.parquet", table_of(now.field("value"), COUNT), **PLAIN)
    bare = table_of(now.field("value"), 0)
    bare = pa.table({"value": bare["value"], "id": bare["id"]})
    older = write_file(tmp_path / "old.parquet", bare, **PLAIN)
    mapping = {("id",): 1, ("value",): 2}
    with small_files_count():
        spliced, encoded = both([newer, older], tmp_path, now, name_mapping=mapping)
    assert 0 < spliced.bytes_spliced < newer.size
    assert_alike(spliced, encoded)
    assert rows_of(spliced)["id"].to_pylist() == [*range(COUNT, 2 * COUNT), *range(COUNT)]
    assert rows_of(spliced).equals(rows_of(encoded))


def test_a_column_named_like_lineage_is_not_lineage(tmp_path: Path) -> None:
    schema = pa.schema([ID, field("_row_id", pa.string(), 2)])
    inputs = [
        write_file(tmp_path / f"{n}.parquet", table_of(schema.field("_row_id"), n * COUNT), **PLAIN) for n in range(2)
    ]
    with small_files_count():
        spliced, encoded = both(inputs, tmp_path, schema, lineage=True, write={"dictionary": True})
    assert spliced.bytes_spliced > 0
    assert_alike(spliced, encoded)
