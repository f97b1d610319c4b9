"""Groups become tasks: directories from the table's own provider, constants from the partition."""

import datetime as dt
from decimal import Decimal
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.locations import LocationProvider, load_location_provider
from pyiceberg.transforms import BucketTransform, IdentityTransform
from pyiceberg.typedef import Record
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    GeometryType,
    IntegerType,
    LongType,
    NestedField,
    PrimitiveType,
    StringType,
    TimestampType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

from tidyberg.errors import BadInput, Unsupported
from tidyberg.execute.kernel.project import AMBIGUOUS, field_id
from tidyberg.execute.schemas import arrow_schema
from tidyberg.execute.tasks import build_tasks, identity_values, storage_access
from tidyberg.model.options import PlanOptions
from tidyberg.model.plan import Estimate, FileGroup, InputFile
from tidyberg.model.table import Pinned, TableRef
from tidyberg.model.task import Task

SCHEMA = Schema(NestedField(1, "id", LongType(), required=True), NestedField(2, "region", StringType(), required=False))
SPEC = PartitionSpec(
    PartitionField(2, 1000, IdentityTransform(), "region"),
    PartitionField(1, 1001, BucketTransform(4), "id_bucket"),
    spec_id=3,
)
ESTIMATE = Estimate(1, 1, 1, 1, 1, 1, 1.0, 0.0, 0.0, 0.0, 0, 0, None)


def pinned(properties: dict[str, str] | None = None) -> Pinned:
    return Pinned(
        table=TableRef("c", ("ns",), "t"),
        uuid="u",
        location="s3://bucket/ns/t",
        metadata_location="s3://bucket/ns/t/metadata/1.json",
        format_version=2,
        branch="main",
        snapshot_id=1,
        sequence_number=1,
        timestamp_ms=1,
        schema=SCHEMA,
        specs={0: PartitionSpec(spec_id=0), 3: SPEC},
        default_spec_id=3,
        sort_order_id=0,
        properties=properties or {},
        snapshots={},
    )


def group(number: int, spec_id: int, path: str) -> FileGroup:
    files = (InputFile(f"s3://bucket/{number}.parquet", 10, 5, 1, "m"),)
    return FileGroup(number, spec_id, path, files, 1, "encode", 1.0, ESTIMATE)


def tasks_for(properties: dict[str, str], groups: list[FileGroup], options: PlanOptions | None = None) -> list[Task]:
    provider = load_location_provider("s3://bucket/ns/t", properties)
    return build_tasks(
        groups,
        pinned(properties),
        provider,
        job_id="j1",
        target_file_size=1_000,
        options=options or PlanOptions(),
        checksum=True,
    )


def test_tasks_carry_schema_settings_and_constants() -> None:
    groups = [group(0, 3, "region=eu+west/id_bucket=2"), group(1, 0, "")]
    partitioned, plain = tasks_for({"write.parquet.compression-codec": "snappy"}, groups)
    assert partitioned.output_directory == "s3://bucket/ns/t/data/region=eu+west/id_bucket=2"
    assert plain.output_directory == "s3://bucket/ns/t/data"
    assert partitioned.constants == {2: "eu west"}
    assert plain.constants == {}
    assert partitioned.write.compression == "snappy"
    assert partitioned.checksum
    assert (partitioned.target_bytes, partitioned.max_bytes) == (1_000, 1_800)
    schema = pa.ipc.read_schema(pa.BufferReader(plain.arrow_schema))
    assert [(column.name, field_id(column)) for column in schema] == [("id", 1), ("region", 2)]
    assert Schema.model_validate_json(plain.iceberg_schema) == SCHEMA
    assert partitioned.inputs[0].records == 5


def test_options_override() -> None:
    options = PlanOptions(max_file_size=5_000, max_record_batch_rows=7, parquet={"compression-codec": "gzip"})
    (task,) = tasks_for({}, [group(0, 0, "")], options)
    assert (task.max_bytes, task.batch_rows, task.write.compression) == (5_000, 7, "gzip")
    with pytest.raises(BadInput):
        tasks_for({}, [group(0, 0, "")], PlanOptions(parquet={"codec": "gzip"}))


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


MICROS = 1_700_000_000_123_456


@pytest.mark.parametrize(
    ("kind", "value", "python"),
    [
        (BooleanType(), True, True),
        (IntegerType(), -5, -5),
        (DoubleType(), 1.5, 1.5),
        (StringType(), "a/b=c d+%é", "a/b=c d+%é"),
        (BinaryType(), b"\x00\xff/", b"\x00\xff/"),
        (FixedType(2), b"ab", b"ab"),
        (DateType(), 19_700, dt.date(2023, 12, 9)),
        (TimeType(), 3_723_000_004, dt.time(1, 2, 3, 4)),
        (TimestampType(), MICROS, dt.datetime.fromisoformat("2023-11-14T22:13:20.123456")),
        (TimestamptzType(), MICROS, dt.datetime.fromisoformat("2023-11-14T22:13:20.123456+00:00")),
        (DecimalType(9, 2), Decimal("-1.20"), Decimal("-1.20")),
        (UUIDType(), UUID(int=5), UUID(int=5)),
        (LongType(), None, None),
    ],
)  # fmt: skip
def test_identity_values_come_back_from_the_path(kind: PrimitiveType, value: Any, python: Any) -> None:
    schema = Schema(NestedField(1, "c", kind, required=False))
    spec = PartitionSpec(PartitionField(1, 1000, IdentityTransform(), "c"))
    path = spec.partition_to_path(Record(value), schema)
    values = identity_values(spec, [schema], path)
    if value is None:
        assert values == {}
        return
    arrow = arrow_schema(schema).field(0).type
    storage = arrow.storage_type if isinstance(arrow, pa.BaseExtensionType) else arrow
    found = pa.scalar(values[1], storage).as_py()
    assert (UUID(bytes=found) if isinstance(python, UUID) else found) == python


def test_the_text_null_is_not_taken_for_a_missing_value() -> None:
    spec = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "region"))
    assert identity_values(spec, [SCHEMA], "region=null") == {2: AMBIGUOUS}
    assert identity_values(spec, [Schema(SCHEMA.fields[0])], "region=null") == {}


def test_types_that_cannot_be_written_are_refused() -> None:
    with pytest.raises(Unsupported, match="geometry"):
        arrow_schema(Schema(NestedField(1, "c", GeometryType(), required=False)))


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

    access = storage_access(OpenTable())  # type: ignore[arg-type]
    assert access.reveal() == {"s3.access-key-id": "a", "client.region": "r"}
