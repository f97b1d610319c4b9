"""File groups of a plan, with the pinned table and the inventory they belong to."""

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import BucketTransform, IdentityTransform
from pyiceberg.types import LongType, NestedField, StringType

from tidyberg.model.inventory import DATA_FILES, DELETE_FILES, Inventory, Partition
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


def inventory(pinned: Pinned, groups: Sequence[FileGroup], values: Sequence[tuple[Any, ...]] = ()) -> Inventory:
    """Returns an inventory with the first file of each group in a partition of its own, with these values."""
    empty = [(None,) * len(pinned.specs[group.spec_id].fields) for group in groups]
    rows = [
        dict.fromkeys(DATA_FILES.names, 0)
        | {"path": group.files[0].path, "format": "PARQUET", "partition": number, "encrypted": False}
        for number, group in enumerate(groups)
    ]
    return Inventory(
        pinned=pinned,
        partitions=[
            Partition(group.spec_id, tuple(given), group.partition_path)
            for group, given in zip(groups, values or empty, strict=True)
        ],
        manifests=[],
        data_files=pa.Table.from_pylist(rows[::-1], schema=DATA_FILES),
        delete_files=DELETE_FILES.empty_table(),
    )


def group_of(task: Task) -> FileGroup:
    files = tuple(
        InputFile(file.path, file.size, file.records, file.sequence_number, "m", file.first_row_id)
        for file in task.inputs
    )
    return FileGroup(task.group_id, 0, "", files, 1, "encode", 0.0, ESTIMATE)
