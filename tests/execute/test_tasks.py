"""Groups become tasks: directories from the table's own provider, constants from the partition."""

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.schema import Schema
from pyiceberg.table.locations import LocationProvider, load_location_provider
from pyiceberg.types import (
    GeometryType,
    IcebergType,
    ListType,
    LongType,
    NestedField,
    StructType,
    UnknownType,
)

from tests.builders.planned_groups import SCHEMA, group, inventory, pinned
from tidyberg.errors import BadInput, Unsupported
from tidyberg.execute.kernel.columns.field_ids import field_id
from tidyberg.execute.kernel.columns.project import leaves
from tidyberg.execute.tasks.build import build_tasks
from tidyberg.execute.tasks.schemas import arrow_schema
from tidyberg.model.options import PlanOptions, RewriteMode
from tidyberg.model.plan import FileGroup
from tidyberg.model.task import Task
from tidyberg.storage.access import storage_access


def tasks_for(
    properties: dict[str, str],
    groups: list[FileGroup],
    options: PlanOptions | None = None,
    values: Sequence[tuple[Any, ...]] = (),
) -> list[Task]:
    provider = load_location_provider("s3://bucket/ns/t", properties)
    return build_tasks(
        groups,
        inventory(pinned(properties), groups, values),
        provider,
        job_id="j1",
        target_file_size=1_000,
        options=options or PlanOptions(),
        checksum=True,
    )


def test_tasks_carry_schema_settings_and_constants() -> None:
    groups = [group(0, 3, "region=eu+west/id_bucket=2"), group(1, 0, "")]
    properties = {
        "write.parquet.compression-codec": "snappy",
        "schema.name-mapping.default": '[{"field-id": 2, "names": ["region", "area"]}]',
    }
    partitioned, plain = tasks_for(properties, groups, values=[("eu west", 2), ()])
    assert partitioned.output_directory == "s3://bucket/ns/t/data/region=eu+west/id_bucket=2"
    assert plain.output_directory == "s3://bucket/ns/t/data"
    assert partitioned.constants == {2: "eu west"}
    assert plain.constants == {}
    assert plain.name_mapping == partitioned.name_mapping == {("region",): 2, ("area",): 2}
    assert partitioned.write.compression == "snappy"
    assert partitioned.checksum
    assert (partitioned.target_bytes, partitioned.max_bytes) == (1_000, 1_800)
    schema = pa.ipc.read_schema(pa.BufferReader(plain.arrow_schema))
    assert [(column.name, field_id(column)) for column in schema] == [("id", 1), ("region", 2)]
    assert Schema.model_validate_json(plain.iceberg_schema) == SCHEMA
    assert partitioned.inputs[0].records == 5


def test_the_string_null_is_not_a_missing_value() -> None:
    groups = [group(number, 3, "region=null/id_bucket=null") for number in range(2)]
    text, missing = tasks_for({}, groups, values=[("null", None), (None, None)])
    assert (text.constants, missing.constants) == ({2: "null"}, {})
    assert text.name_mapping is None


def test_options_override() -> None:
    options = PlanOptions(max_file_size=5_000, max_record_batch_rows=7, parquet={"compression-codec": "gzip"})
    (task,) = tasks_for({}, [group(0, 0, "")], options)
    assert (task.max_bytes, task.batch_rows, task.write.compression) == (5_000, 7, "gzip")
    with pytest.raises(BadInput):
        tasks_for({}, [group(0, 0, "")], PlanOptions(parquet={"codec": "gzip"}))


def test_pages_are_kept_unless_rows_or_pages_must_be_rewritten() -> None:
    asked = (
        PlanOptions(),
        PlanOptions(mode=RewriteMode.COPY),
        PlanOptions(mode=RewriteMode.ENCODE),
        PlanOptions(parquet={"page-row-limit": "100"}),
    )
    made = [tasks_for({}, [group(0, 0, "")], options)[0].splices for options in asked]
    assert made == [True, True, False, False]


def test_object_store_layout_is_honoured() -> None:
    properties = {"write.object-storage.enabled": "true"}
    first, second = tasks_for(properties, [group(0, 3, "region=eu/id_bucket=2"), group(1, 3, "region=eu/id_bucket=2")])
    assert first.output_directory.endswith("/region=eu/id_bucket=2")
    assert first.output_directory != second.output_directory
    properties["write.object-storage.partitioned-paths"] = "false"
    (flat,) = tasks_for(properties, [group(0, 3, "region=eu/id_bucket=2")])
    assert "region" not in flat.output_directory


def test_data_path_and_custom_providers_are_honoured() -> None:
    (task,) = tasks_for({"write.data.path": "s3://other/place"}, [group(0, 0, "")])
    assert task.output_directory == "s3://other/place"
    name = f"{__name__}.ShelfProvider"
    (task,) = tasks_for({"write.py-location-provider.impl": name}, [group(4, 3, "region=eu/id_bucket=2")])
    assert task.output_directory == "s3://bucket/ns/t/shelf/region=eu/id_bucket=2"


class ShelfProvider(LocationProvider):
    def new_data_location(self, data_file_name: str, partition_key: Any = None) -> str:
        return f"{self.table_location}/shelf/{partition_key.to_path()}/{data_file_name}"


def test_columns_of_unknown_type_are_omitted_from_data_files() -> None:
    unknown = NestedField(5, "u", UnknownType(), required=False)
    nested = NestedField(6, "s", StructType(unknown, NestedField(7, "x", LongType(), required=False)), required=False)
    written = arrow_schema(Schema(*SCHEMA.fields, unknown, nested))
    assert [leaf.path for leaf in leaves(written)] == ["id", "region", "s.x"]


@pytest.mark.parametrize(
    "kind", [GeometryType(), ListType(2, UnknownType(), False), StructType(NestedField(2, "u", UnknownType()))]
)
def test_types_that_cannot_be_written_are_refused(kind: IcebergType) -> None:
    with pytest.raises(Unsupported, match="cannot be rewritten"):
        arrow_schema(Schema(NestedField(1, "c", kind, required=False)))


def test_storage_access_has_no_catalog_secrets() -> None:
    class FileIo:
        properties = {  # noqa: RUF012
            "s3.access-key-id": "a",
            "client.region": "r",
            "token": "catalog-token",
            "uri": "http://catalog",
            "credential": "c:d",
        }

    class OpenTable:
        io = FileIo()

    access = storage_access(OpenTable().io)  # type: ignore[arg-type]
    assert access.reveal() == {"s3.access-key-id": "a", "client.region": "r"}
