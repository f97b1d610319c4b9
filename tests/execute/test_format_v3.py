"""What format v3 brings besides row lineage and deletion vectors: its tasks, its types."""

import dataclasses
import struct
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.schema import Schema, assign_fresh_schema_ids
from pyiceberg.table.locations import load_location_provider
from pyiceberg.types import (
    GeographyType,
    GeometryType,
    IcebergType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StructType,
    TimestampNanoType,
    TimestamptzNanoType,
    UnknownType,
)

from tests.builders.planned_groups import ESTIMATE, SCHEMA, group_of, inventory, pinned
from tests.builders.tasks import STORAGE, make_task, read_rows, write_file
from tidyberg.errors import Unsupported
from tidyberg.execute.kernel.columns.project import LAST_UPDATED, ROW_ID
from tidyberg.execute.kernel.run import run_task
from tidyberg.execute.tasks.build import build_tasks
from tidyberg.execute.tasks.equality_schemas import equality_schema_bytes
from tidyberg.execute.tasks.schemas import arrow_schema, with_lineage_fields
from tidyberg.model.options import PlanOptions
from tidyberg.model.plan import DeleteFile, FileGroup, InputFile
from tidyberg.model.task import Task, TaskInput, TaskResult
from tidyberg.planning.safety import unsupported_table
from tidyberg.verify.contents import checksum_tasks, verify_contents
from tidyberg.verify.counts import verify_counts


def tasks_of(format_version: int, schema: Schema = SCHEMA, properties: dict[str, str] | None = None) -> Task:
    files = (
        InputFile("s3://b/0.parquet", 10, 5, 1, "m", first_row_id=70),
        InputFile("s3://b/1.parquet", 10, 5, 2, "m"),
    )
    table = dataclasses.replace(
        pinned(properties), format_version=format_version, schema=schema, properties=properties or {}
    )
    vector = DeleteFile("p", "dv", 50, 3, 2, "m", "s3://b/0.parquet", content_offset=4, content_size=40)
    groups = [FileGroup(0, 0, "", files, 1, "encode", 1.0, ESTIMATE, deletes=(0,))]
    (task,) = build_tasks(
        groups,
        inventory(table, groups),
        load_location_provider("s3://b/t", {}),
        job_id="j",
        target_file_size=1_000,
        options=PlanOptions(),
        checksum=True,
        deletes=[vector],
    )
    return task


def test_tasks_of_v3_tables_carry_what_lineage_needs() -> None:
    task = tasks_of(3)
    assert task.lineage
    assert [file.first_row_id for file in task.inputs] == [70, None]
    footer = Schema.model_validate_json(task.iceberg_schema)
    assert [(column.field_id, column.name) for column in footer.fields[-2:]] == [
        (ROW_ID, "_row_id"),
        (LAST_UPDATED, "_last_updated_sequence_number"),
    ]
    assert not any(column.required for column in footer.fields[-2:])
    assert task.write.metrics_modes[ROW_ID] == task.write.metrics_modes[LAST_UPDATED] == "truncate(16)"
    assert task.deletes[0].records == 3, "the worker compares it with what the vector holds"


def test_metrics_of_lineage_follow_the_tables_default() -> None:
    modes = tasks_of(3, properties={"write.metadata.metrics.default": "counts"}).write.metrics_modes
    assert modes[ROW_ID] == modes[LAST_UPDATED] == "counts"


def test_older_tables_have_no_lineage() -> None:
    task = tasks_of(2)
    assert not task.lineage
    assert Schema.model_validate_json(task.iceberg_schema) == SCHEMA
    assert ROW_ID not in task.write.metrics_modes


def test_a_column_that_takes_a_reserved_name_is_refused() -> None:
    with pytest.raises(Unsupported, match="named _row_id"):
        with_lineage_fields(Schema(NestedField(1, "_row_id", LongType(), required=False)))


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        (GeometryType(), "geometry"),
        (GeographyType(), "geography"),
        (ListType(2, UnknownType(), element_required=False), "unknown"),
        (StructType(NestedField(2, "nothing", UnknownType(), required=False)), "without fields"),
    ],
    ids=str,
)
def test_types_that_cannot_be_written_are_refused_by_name(kind: IcebergType, said: str) -> None:
    with pytest.raises(Unsupported, match=said):
        arrow_schema(Schema(NestedField(1, "c", kind, required=False)))


leaf_types = st.sampled_from([LongType(), UnknownType(), TimestampNanoType(), GeometryType()])


def nested(inside: st.SearchStrategy[IcebergType]) -> st.SearchStrategy[IcebergType]:
    """Types around others; ids are given out afterwards."""
    structs = st.lists(inside, min_size=1, max_size=3).map(
        lambda kinds: StructType(*(NestedField(0, f"c{n}", kind, required=False) for n, kind in enumerate(kinds)))
    )
    lists = inside.map(lambda kind: ListType(0, kind, element_required=False))
    maps = inside.map(lambda kind: MapType(0, LongType(), 0, kind, value_required=False))
    return st.one_of(structs, lists, maps)


@given(st.recursive(leaf_types, nested, max_leaves=6))
def test_planning_skips_exactly_the_types_that_cannot_be_written(kind: IcebergType) -> None:
    schema = assign_fresh_schema_ids(
        Schema(NestedField(1, "id", LongType(), required=False), NestedField(2, "c", kind, required=False))
    )
    table = dataclasses.replace(pinned(), format_version=3, schema=schema)
    skip = unsupported_table(table)
    if skip is None:
        arrow_schema(schema)
    else:
        assert skip.code == "column-type"
        with pytest.raises(Unsupported):
            arrow_schema(schema)


def rewrite(directory: Path, inputs: list[TaskInput], schema: Schema) -> TaskResult:
    task = make_task(inputs, arrow_schema(schema), directory / "out", checksum=True)
    result = run_task(task, 0, STORAGE)
    assert isinstance(result, TaskResult)
    verify_counts(group_of(task), result, schema)
    verify_contents([result], [run_task(check, 0, STORAGE) for check in checksum_tasks([task], [result])])  # type: ignore[misc]
    return result


def test_unknown_columns_are_in_no_file(tmp_path: Path) -> None:
    unknown = UnknownType()
    schema = Schema(
        NestedField(1, "id", LongType(), required=False),
        NestedField(2, "later", unknown, required=False),
        NestedField(
            3,
            "nested",
            StructType(
                NestedField(4, "kept", LongType(), required=False), NestedField(5, "later", unknown, required=False)
            ),
            required=False,
        ),
    )
    rows = [{"id": 1, "nested": {"kept": 5}}, {"id": 2, "nested": None}, {"id": None, "nested": {"kept": None}}]
    file = write_file(tmp_path / "a.parquet", pa.Table.from_pylist(rows, arrow_schema(schema)))
    result = rewrite(tmp_path, [file], schema)
    assert read_rows([result.outputs[0].path]) == rows


def test_an_equality_delete_by_an_unknown_column_is_refused() -> None:
    schema = Schema(NestedField(1, "later", UnknownType(), required=False))
    with pytest.raises(Unsupported, match="compares later, which is a unknown"):
        equality_schema_bytes((1,), [schema], "d.parquet")


def test_nanoseconds_keep_their_last_digit(tmp_path: Path) -> None:
    schema = Schema(
        NestedField(1, "at", TimestampNanoType(), required=False),
        NestedField(2, "utc", TimestamptzNanoType(), required=False),
    )
    values = [-9_223_372_036_854_775_807, -1, 1_700_000_000_123_456_789, None, 9_223_372_036_854_775_807]
    columns = [pa.array(values, pa.int64()).cast(column.type) for column in arrow_schema(schema)]
    halves = [pa.table([c.slice(start, 3) for c in columns], schema=arrow_schema(schema)) for start in (0, 3)]
    inputs = [write_file(tmp_path / f"{number}.parquet", half) for number, half in enumerate(halves)]
    (output,) = rewrite(tmp_path, inputs, schema).outputs

    written = pq.read_table(output.path)
    for number, name in ((1, "at"), (2, "utc")):
        assert written.column(name).cast(pa.int64()).to_pylist() == values
        assert output.lower_bounds[number] == struct.pack("<q", values[0])
        assert output.upper_bounds[number] == struct.pack("<q", values[-1])
    parquet = pq.ParquetFile(output.path).schema
    assert all("nanoseconds" in str(parquet.column(number).logical_type) for number in (0, 1))
    assert "isAdjustedToUTC=true" in str(parquet.column(1).logical_type)
