"""Files that are not provably safe to copy are encoded, with a reason and the same rows."""

import datetime as dt
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.builders.copy_tasks import SCHEMA, copy, given, read_back, rows, write_files
from tests.builders.footers import edit_footer
from tests.builders.tasks import STORAGE, field, make_task
from tidyberg.execute.kernel.copy.eligibility import common_footer
from tidyberg.execute.kernel.read.source import open_source, storage_reader
from tidyberg.model.task import TaskDelete, TaskInput, TaskPartitionField, TaskResult
from tidyberg.parquet.errors import CannotCopy
from tidyberg.parquet.fields import ChunkField, FileField, GroupField, MetadataField
from tidyberg.parquet.thrift import BINARY, I32, STRUCT, Struct
from tidyberg.storage.file_io import Storage

TABLE = pa.schema([field("id", pa.int64(), 1), field("name", pa.string(), 2)])


def small(schema: pa.Schema = TABLE, first: int = 0) -> pa.Table:
    columns = [pa.array([first, first + 1, first + 2], schema[0].type), pa.array(["a", "b", None], schema[1].type)]
    return pa.table(columns, schema=schema)


def reason(result: TaskResult) -> str:
    assert result.mode == "encode"
    assert result.outputs
    return result.mode_reason


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ([field("id", pa.int32(), 1), field("name", pa.string(), 2)], "'id' (id 1) is optional int32 (id 1), not"),
        (
            [field("id", pa.int64(), 1, False), field("name", pa.string(), 2)],
            "from the other files: 'id' (id 1) is required",
        ),
        ([field("id", pa.int64(), 1), field("label", pa.string(), 2)], "field 2 is 'label' (id 2), not 'name' (id 2)"),
        ([field("id", pa.int64(), 1), field("name", pa.string(), 3)], "field 2 is 'name' (id 3), not 'name' (id 2)"),
    ],
)
def test_files_in_another_schema_are_encoded(tmp_path: Path, written: list[pa.Field], said: str) -> None:
    inputs = write_files(tmp_path / "new", [small()]) + write_files(tmp_path / "old", [small(pa.schema(written))])
    assert said in reason(copy(inputs, tmp_path / "out", TABLE))


def test_required_columns_may_be_optional_in_the_table_but_not_the_other_way_round(tmp_path: Path) -> None:
    required = pa.schema([field("id", pa.int64(), 1, nullable=False), field("name", pa.string(), 2)])
    strict = write_files(tmp_path / "strict", [small(required), small(required)])
    result = copy(strict, tmp_path / "out-1", TABLE)
    assert result.mode == "copy"
    assert read_back(result, TABLE)["id"].to_pylist() == [0, 1, 2, 0, 1, 2]
    loose = write_files(tmp_path / "loose", [small()])
    said = reason(copy(loose, tmp_path / "out-2", required))
    assert "is not in the table's schema: 'id' (id 1) is optional int64 (id 1), not required int64" in said


def test_columns_since_dropped_or_added_are_encoded(tmp_path: Path) -> None:
    more = small().append_column(field("gone", pa.int32(), 3), pa.array([1, 2, 3], pa.int32()))
    result = copy(write_files(tmp_path / "more", [more]), tmp_path / "out-1", TABLE)
    assert "'gone' (id 3) is no column of the table any more" in reason(result)
    assert pq.read_schema(result.outputs[0].path).names == ["id", "name"]
    fewer = copy(write_files(tmp_path / "fewer", [small().drop_columns("name")]), tmp_path / "out-2", TABLE)
    assert "'name' (id 2) is missing" in reason(fewer)


def test_columns_in_another_order_are_encoded(tmp_path: Path) -> None:
    inputs = write_files(tmp_path, [small().select(["name", "id"])])
    assert "field 1 is 'name' (id 2), not 'id' (id 1)" in reason(copy(inputs, tmp_path / "out", TABLE))


def test_files_without_field_ids_are_encoded(tmp_path: Path) -> None:
    bare = small().cast(pa.schema([("id", pa.int64()), ("name", pa.string())]))
    inputs = write_files(tmp_path, [bare])
    result = copy(inputs, tmp_path / "out", TABLE, name_mapping={("id",): 1, ("name",): 2})
    assert "without field ids" in reason(result)


def test_timestamps_of_other_units_and_kinds_are_encoded(tmp_path: Path) -> None:
    table = pa.schema([field("at", pa.timestamp("us"), 1)])
    moments = [dt.datetime(2024, 1, 1, tzinfo=dt.UTC).replace(tzinfo=None)]
    for number, kind in enumerate((pa.timestamp("ms"), pa.timestamp("us", tz="UTC"))):
        values = pa.table([pa.array(moments, kind)], schema=pa.schema([field("at", kind, 1)]))
        result = copy(write_files(tmp_path / str(number), [values]), tmp_path / f"out-{number}", table)
        assert "is not in the table's schema: 'at' (id 1) is optional int64 timestamp" in reason(result)
    old = pa.table([pa.array(moments, pa.timestamp("ns"))], schema=pa.schema([field("at", pa.timestamp("ns"), 1)]))
    inputs = write_files(tmp_path / "old", [old], use_deprecated_int96_timestamps=True)
    assert "INT96" in reason(copy(inputs, tmp_path / "out-old", table))


def test_decimals_stored_in_two_ways_are_not_mixed(tmp_path: Path) -> None:
    schema = pa.schema([field("price", pa.decimal128(9, 2), 1)])
    table = pa.table([pa.array([1, 2], pa.int32()).cast(pa.decimal128(12, 2)).cast(pa.decimal128(9, 2))], schema=schema)
    as_bytes = write_files(tmp_path / "bytes", [table, table], store_decimal_as_integer=False)
    as_integers = write_files(tmp_path / "integers", [table])
    alike = copy(as_bytes, tmp_path / "alike", schema)
    assert alike.mode == "copy"
    assert read_back(alike, schema).equals(pa.concat_tables([table, table]))
    assert (
        alike.outputs[0].lower_bounds
        == copy(as_bytes, tmp_path / "again", schema, mode="encode").outputs[0].lower_bounds
    )
    mixed = copy(as_bytes + as_integers, tmp_path / "mixed", schema)
    assert "differs from the other files: 'price'" in reason(mixed)


def test_deletes_and_moves_are_encoded(tmp_path: Path) -> None:
    inputs = write_files(tmp_path, [small()])
    positions = tmp_path / "deletes.parquet"
    paths = pa.array([inputs[0].path], pa.string())
    pq.write_table(
        pa.table(
            [paths, pa.array([1], pa.int64())],
            schema=pa.schema(
                [
                    field("file_path", pa.string(), 2147483546, nullable=False),
                    field("pos", pa.int64(), 2147483545, nullable=False),
                ]
            ),
        ),
        positions,
    )
    delete = TaskDelete(str(positions), "position", positions.stat().st_size, sequence_number=9)
    assert "deletes apply" in reason(copy(inputs, tmp_path / "out-1", TABLE, deletes=(delete,)))
    moving = (TaskPartitionField(1, "bucket[2]"),)
    assert "other partitions" in reason(copy(inputs, tmp_path / "out-2", TABLE, partitioning=moving))


def test_small_row_groups_are_encoded_where_the_plan_asks_for_larger_ones(tmp_path: Path) -> None:
    inputs = write_files(tmp_path, [rows(0, 1000)], row_group_size=100)
    said = reason(copy(inputs, tmp_path / "out", min_row_group_bytes=1 << 20))
    assert said.startswith("its 10 row groups have 0.0 MB on average, less than the minimum of 1.0 MB")


def test_a_manifest_with_another_row_count_is_not_trusted(tmp_path: Path) -> None:
    (file,) = write_files(tmp_path, [small()])
    with pytest.raises(Exception, match="holds 3 rows, but the table's manifest says 4"):
        copy([TaskInput(file.path, file.size, 4)], tmp_path / "out", TABLE)


def in_chunk(change: Callable[[Struct], None]) -> Callable[[Struct], None]:
    def edit(footer: Struct) -> None:
        group = footer[FileField.ROW_GROUPS][1].items[0]
        change(group[GroupField.COLUMNS][1].items[1])

    return edit


def in_metadata(change: Callable[[Struct], None]) -> Callable[[Struct], None]:
    return in_chunk(lambda chunk: change(chunk[ChunkField.METADATA][1]))


def put(identifier: int, kind: int, value: Any) -> Callable[[Struct], None]:
    return lambda struct: struct.__setitem__(identifier, (kind, value))


def refusal(path: Path) -> str:
    """Why a file of three rows cannot be copied."""
    file = given(path, 3)
    with pytest.raises(CannotCopy) as refused:
        common_footer(make_task([file], TABLE, path.parent), [open_source(file, storage_reader(Storage(STORAGE)))])
    return str(refused.value)


@pytest.mark.parametrize(
    ("edit", "said"),
    [
        (put(40, I32, 1), "its footer has fields that this version does not know (40)"),
        (in_chunk(put(40, I32, 1)), "column name has fields that this version does not know (40)"),
        (in_metadata(put(40, I32, 1)), "column name has fields that this version does not know (40)"),
        (put(FileField.ENCRYPTION, STRUCT, {}), "it is encrypted"),
        (in_chunk(put(ChunkField.CRYPTO, STRUCT, {})), "column name is encrypted"),
        (in_chunk(put(ChunkField.FILE_PATH, BINARY, b"other.parquet")), "column name lies in another file"),
        (put(FileField.CREATED_BY, BINARY, b"parquet-mr version 1.2.8 (build x)"), "parquet-mr version 1.2"),
    ],
)
def test_footers_that_say_more_than_is_understood_are_never_copied(
    tmp_path: Path, edit: Callable[[Struct], None], said: str
) -> None:
    (file,) = write_files(tmp_path, [small()])
    edit_footer(Path(file.path), edit)
    assert said in refusal(Path(file.path))


@pytest.mark.parametrize(
    ("edit", "said"),
    [
        (in_metadata(put(MetadataField.COMPRESSED, I32, 1 << 40)), "column name would lie outside of the file"),
        (in_metadata(put(MetadataField.DATA_PAGE, I32, 1 << 40)), "column name would lie outside of the file"),
        (in_metadata(put(MetadataField.DATA_PAGE, I32, 5)), "its columns overlap"),
        (in_metadata(put(MetadataField.VALUES, I32, 4)), "column name has 4 values in 3 rows"),
        (in_metadata(put(MetadataField.COMPRESSED, BINARY, b"12")), "the length of column name is not a valid number"),
        (in_metadata(put(MetadataField.BLOOM, I32, 1 << 40)), "bloom filter of column name would lie outside"),
        (in_chunk(put(ChunkField.OFFSET_INDEX, I32, 1 << 40)), "column name would lie outside of the file"),
        (put(FileField.ROWS, I32, 4), "its row groups do not hold the rows"),
        (put(FileField.SCHEMA, I32, 4), "the schema is not a list"),
    ],
)
def test_damaged_footers_are_never_copied(tmp_path: Path, edit: Callable[[Struct], None], said: str) -> None:
    (file,) = write_files(tmp_path, [small()], write_page_index=True, use_dictionary=False)
    edit_footer(Path(file.path), edit)
    assert said in refusal(Path(file.path))


def test_several_writers_keep_their_rows_but_not_their_bounds(tmp_path: Path) -> None:
    tables = [rows(0, 200), rows(200, 200)]
    inputs = write_files(tmp_path, tables, write_page_index=True)
    second = Path(inputs[1].path)
    edit_footer(second, put(FileField.CREATED_BY, BINARY, b"another version 1.0 (build 2)"))
    result = copy([inputs[0], given(second, 200)], tmp_path / "out")
    assert result.mode == "copy"
    assert read_back(result).equals(pa.concat_tables(tables).cast(SCHEMA))
    footer = pq.read_metadata(result.outputs[0].path)
    assert footer.created_by.startswith("tidyberg version ")
    statistics = [footer.row_group(number).column(0).statistics for number in range(2)]
    assert [(one.has_min_max, one.null_count) for one in statistics] == [(False, 0), (False, 0)]
    assert footer.row_group(1).column(0).has_column_index
    # The manifest may repeat what the footers of the inputs said, each judged by its own writer.
    assert result.outputs[0].null_value_counts[1] == 0
    assert int.from_bytes(result.outputs[0].upper_bounds[1], "little") == 399
