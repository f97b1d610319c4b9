"""Tables that change while a job runs or between the writing of their files: schema, spec, properties, sort order."""

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.name_mapping import create_mapping_from_schema
from pyiceberg.transforms import BucketTransform, IdentityTransform
from pyiceberg.typedef import Record
from pyiceberg.types import DoubleType, FloatType, IntegerType, LongType, NestedField, StringType

from tests.builders.control import make_control
from tests.builders.engines import Meddling
from tests.builders.events_table import REF
from tidyberg.errors import TidybergError
from tidyberg.model.options import PlanOptions, Strategy, VerifyMode
from tidyberg.model.report import CompactionResult
from tidyberg.testing import Warehouse
from tidyberg.testing.warehouse import local_path

FULL = PlanOptions(strategy=Strategy.FULL, min_input_files=2)
SCHEMA = Schema(
    NestedField(1, "id", IntegerType(), required=False),
    NestedField(2, "region", StringType(), required=False),
    NestedField(3, "ratio", FloatType(), required=False),
)
BY_REGION = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "region"))


def compact(warehouse: Warehouse, meddle: Callable[[], object] = lambda: None) -> CompactionResult:
    with make_control(warehouse, Meddling(meddle)) as control:
        return control.compact(REF, FULL, verify=VerifyMode.FULL)


def rows(table: Table) -> list[str]:
    """In the current schema, by PyIceberg's reader."""
    return sorted(str(row) for row in table.refresh().scan().to_arrow().to_pylist())


def add_and_drop_columns(table: Table) -> None:
    with table.update_schema() as update:
        update.add_column("late", StringType())
        update.delete_column("ratio")


def promote_and_rename(table: Table) -> None:
    with table.update_schema(allow_incompatible_changes=False) as update:
        update.update_column("id", LongType())
        update.update_column("ratio", DoubleType())
        update.rename_column("ratio", "share")
        update.move_first("ratio")


def drop_and_add_again(table: Table) -> None:
    with table.update_schema() as update:
        update.delete_column("ratio")
    with table.update_schema() as update:
        update.add_column("ratio", StringType())


def change_spec(table: Table) -> None:
    with table.update_spec() as update:
        update.add_field("id", BucketTransform(3), "id_bucket")


def change_sort_order(table: Table) -> None:
    with table.update_sort_order() as update:
        update.asc("id", IdentityTransform())


def change_properties(table: Table) -> None:
    with table.transaction() as transaction:
        transaction.set_properties({"write.parquet.compression-codec": "gzip", "write.data.path": "/nowhere"})


@pytest.mark.parametrize(
    "change",
    [add_and_drop_columns, promote_and_rename, drop_and_add_again, change_spec, change_sort_order, change_properties],
)
def test_a_table_that_changes_while_the_job_runs_is_committed_all_the_same(
    warehouse: Warehouse, change: Callable[[Table], None]
) -> None:
    table = warehouse.create_table("db.events", SCHEMA, BY_REGION)
    for region in ("eu", "us"):
        warehouse.append_files(table, 3, 10, files_per_commit=1, values={"region": region})
    seen: list[list[str]] = []

    def meddle() -> None:
        change(table.refresh())
        seen.append(rows(table))

    result = compact(warehouse, meddle)

    assert result.outcome == "committed"
    assert [rows(table)] == seen
    files = table.refresh().inspect.files().to_pylist()
    assert len(files) == 2
    assert {file["spec_id"] for file in files} == {0}, "outputs stay in the spec of their group"
    assert {file["sort_order_id"] for file in files} <= {None, 0}
    snapshot = table.current_snapshot()
    assert snapshot is not None
    assert snapshot.schema_id == table.schema().schema_id


def test_outputs_follow_the_current_write_properties_and_claim_no_sort_order(warehouse: Warehouse) -> None:
    table = warehouse.create_table("db.events", SCHEMA, properties={"write.parquet.compression-codec": "zstd"})
    warehouse.append_files(table, 3, 10, files_per_commit=1)
    with table.transaction() as transaction:
        transaction.set_properties(
            {"write.parquet.compression-codec": "gzip", "write.metadata.metrics.default": "none"}
        )
    with table.update_sort_order() as update:
        update.asc("id", IdentityTransform())
    compact(warehouse)
    (file,) = table.refresh().inspect.files().to_pylist()
    footer = pq.read_metadata(local_path(file["file_path"]))
    assert footer.row_group(0).column(0).compression == "GZIP"
    assert not file["lower_bounds"]
    assert file["sort_order_id"] in (None, 0)


def add_plain_files(table: Table, contents: list[pa.Table], partitions: list[tuple[Any, ...]]) -> None:
    """Files as a migration adds them: as they are, without field ids or columns that only the partition tells."""
    with table.transaction() as transaction, transaction.update_snapshot().fast_append() as append:
        for number, (rows, values) in enumerate(zip(contents, partitions, strict=True)):
            path = f"{local_path(table.location())}/data/plain-{number}.parquet"
            with table.io.new_output(path).create(overwrite=True) as sink:
                pq.write_table(rows, sink, store_schema=False)
            file = DataFile.from_args(
                content=DataFileContent.DATA,
                file_path=path,
                file_format=FileFormat.PARQUET,
                partition=Record(*values),
                record_count=rows.num_rows,
                file_size_in_bytes=len(table.io.new_input(path)),
                column_sizes={},
                value_counts={},
                null_value_counts={},
                nan_value_counts={},
                lower_bounds={},
                upper_bounds={},
            )
            file.spec_id = table.spec().spec_id
            append.append_data_file(file)


def test_a_null_partition_and_one_of_the_text_null_stay_apart(warehouse: Warehouse) -> None:
    table = warehouse.create_table("db.events", SCHEMA, BY_REGION)
    with table.transaction() as transaction:
        transaction.set_properties(
            {"schema.name-mapping.default": create_mapping_from_schema(SCHEMA).model_dump_json()}
        )
    partitions: list[tuple[Any, ...]] = [("null",), (None,)] * 3
    contents = [pa.table({"id": pa.array([number], pa.int32())}) for number in range(6)]
    add_plain_files(table, contents, partitions)

    result = compact(warehouse)

    assert len(result.plan.groups) == 2
    assert result.stats.files_after == 2
    found = {}
    for file in table.refresh().inspect.files().to_pylist():
        stored = pq.ParquetFile(local_path(file["file_path"])).read().to_pylist()
        found[file["partition"]["region"]] = [(row["id"], row["region"]) for row in stored]
    assert found == {"null": [(0, "null"), (2, "null"), (4, "null")], None: [(1, None), (3, None), (5, None)]}


def test_files_with_ambiguous_columns_are_refused_and_the_table_stays(warehouse: Warehouse) -> None:
    table = warehouse.create_table("db.events", Schema(NestedField(1, "id", IntegerType(), required=True)))
    contents = [pa.table({"other": pa.array(["x"])})] * 2
    add_plain_files(table, contents, [(), ()])
    snapshot = table.refresh().metadata.current_snapshot_id
    with pytest.raises(TidybergError, match=r"plain-0.parquet: Column 'other' is string in the file"):
        compact(warehouse)
    assert table.refresh().metadata.current_snapshot_id == snapshot
