"""Turns the plan's groups into tasks: schema, write settings, output directory, partition constants."""

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast
from urllib.parse import unquote_plus
from uuid import UUID

from pyiceberg.conversions import partition_to_py
from pyiceberg.partitioning import PartitionKey, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.locations import LocationProvider
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    FixedType,
    IcebergType,
    IntegerType,
    LongType,
    PrimitiveType,
    StringType,
    TimestampType,
    TimestamptzType,
    TimeType,
    UUIDType,
)
from pyiceberg.utils.datetime import (
    date_str_to_days,
    time_str_to_micros,
    timestamp_to_micros,
    timestamptz_to_micros,
)

from tidyberg.execute.equality_schemas import equality_schema_bytes, schemas_newest_first
from tidyberg.execute.kernel.project import AMBIGUOUS
from tidyberg.execute.schemas import arrow_schema_bytes, with_lineage_fields
from tidyberg.execute.write_settings import write_settings
from tidyberg.model.options import PlanOptions
from tidyberg.model.plan import DeleteFile, FileGroup
from tidyberg.model.table import Pinned
from tidyberg.model.task import StorageAccess, Task, TaskDelete, TaskInput, output_name

_STORAGE_PREFIXES = ("s3.", "client.", "gcs.", "adls.", "hdfs.")
_BATCH_ROWS = 65_536
_SPELLED_ALIKE = (BooleanType, IntegerType, LongType, StringType, DateType, TimeType, TimestampType, TimestamptzType)
_OVERSIZE = 1.8  # an output above this many times the target would be split by the next plan


def build_tasks(
    groups: Sequence[FileGroup],
    pinned: Pinned,
    location_provider: LocationProvider,
    *,
    job_id: str,
    target_file_size: int,
    options: PlanOptions,
    checksum: bool,
    deletes: Sequence[DeleteFile] = (),
) -> list[Task]:
    """One task per group; tasks share their schema and settings. `deletes` are the plan's."""
    schema = arrow_schema_bytes(pinned.schema)
    lineage = pinned.format_version >= 3
    iceberg_schema = (with_lineage_fields(pinned.schema) if lineage else pinned.schema).model_dump_json()
    settings = write_settings(pinned.schema, pinned.properties, options.parquet, lineage=lineage)
    max_bytes = options.max_file_size or int(target_file_size * _OVERSIZE)
    schemas = schemas_newest_first(pinned)
    equality_schemas = _equality_schemas(deletes, schemas)
    return [
        Task(
            job_id=job_id,
            group_id=group.group_id,
            inputs=tuple(
                TaskInput(file.path, file.size, file.records, file.sequence_number, file.first_row_id)
                for file in group.files
            ),
            arrow_schema=schema,
            iceberg_schema=iceberg_schema,
            output_directory=_output_directory(location_provider, job_id, group),
            outputs=group.outputs,
            target_bytes=target_file_size,
            max_bytes=max(max_bytes, target_file_size),
            write=settings,
            batch_rows=options.max_record_batch_rows or _BATCH_ROWS,
            constants=identity_values(
                pinned.specs[group.spec_id],
                schemas if _has_equality(group, deletes) else schemas[:1],
                group.partition_path,
            ),
            lineage=lineage,
            checksum=checksum,
            deletes=tuple(_task_delete(deletes[position]) for position in group.deletes),
            equality_schemas={
                deletes[position].equality_ids: equality_schemas[deletes[position].equality_ids]
                for position in group.deletes
                if deletes[position].kind == "equality"
            },
        )
        for group in groups
    ]


def _equality_schemas(deletes: Sequence[DeleteFile], schemas: Sequence[Schema]) -> dict[tuple[int, ...], bytes]:
    first = {delete.equality_ids: delete.path for delete in reversed(deletes) if delete.kind == "equality"}
    return {ids: equality_schema_bytes(ids, schemas, path) for ids, path in first.items()}


def _has_equality(group: FileGroup, deletes: Sequence[DeleteFile]) -> bool:
    return any(deletes[position].kind == "equality" for position in group.deletes)


def _task_delete(delete: DeleteFile) -> TaskDelete:
    return TaskDelete(
        path=delete.path,
        kind=delete.kind,
        size=delete.size,
        sequence_number=delete.sequence_number,
        referenced_data_file=delete.referenced_data_file,
        equality_ids=delete.equality_ids,
        content_offset=delete.content_offset,
        content_size=delete.content_size,
        records=delete.records,
    )


def storage_access(table: Table) -> StorageAccess:
    """What opens the table's storage, credentials among it; nothing of the catalog's own secrets."""
    return StorageAccess(
        {
            name: str(value)
            for name, value in table.io.properties.items()
            if value is not None and name.startswith(_STORAGE_PREFIXES)
        }
    )


@dataclass(frozen=True)
class _PartitionPath:
    """All that location providers ask of a partition key."""

    path: str

    def to_path(self) -> str:
        return self.path


def _output_directory(provider: LocationProvider, job_id: str, group: FileGroup) -> str:
    """Where the table's own location provider puts this group's first output: hashes and custom layouts count."""
    name = output_name(job_id, group.group_id, attempt=0, number=0)
    key = _PartitionPath(group.partition_path) if group.partition_path else None
    return provider.new_data_location(name, cast(PartitionKey | None, key)).rpartition("/")[0]


def identity_values(spec: PartitionSpec, schemas: Sequence[Schema], partition_path: str) -> dict[int, Any]:
    """Values of identity partition columns, for files that do not hold them (spec, column projection).

    `schemas` are those whose columns are wanted, the current one first: equality deletes also ask for dropped ones.
    """
    values: dict[int, Any] = {}
    if not partition_path:
        return values
    for field, segment in zip(spec.fields, partition_path.split("/"), strict=True):
        if not isinstance(field.transform, IdentityTransform):
            continue
        found = (
            (column.field_type, is_dropped)
            for is_dropped, schema in enumerate(schemas)
            for column in schema.fields
            if column.field_id == field.source_id
        )
        kind, is_dropped = next(found, (None, 0))
        if kind is not None:
            text = unquote_plus(segment.partition("=")[2])
            # The path spells a dropped column's value without knowing its type.
            is_certain = not is_dropped or isinstance(kind, _SPELLED_ALIKE)
            values[field.source_id] = _value(text, kind) if is_certain else AMBIGUOUS
    return {field_id: value for field_id, value in values.items() if value is not None}


def _value(text: str, kind: IcebergType) -> Any:
    """The value that PyIceberg spelled as `text` in a path, as Arrow takes it."""
    if text == "null":
        return AMBIGUOUS if isinstance(kind, StringType) else None
    if isinstance(kind, BinaryType | FixedType):
        return base64.b64decode(text)
    if isinstance(kind, DateType):
        return date_str_to_days(text)
    if isinstance(kind, TimeType):
        return time_str_to_micros(text)
    if isinstance(kind, TimestampType):
        return timestamp_to_micros(text)
    if isinstance(kind, TimestamptzType):
        return timestamptz_to_micros(text)
    if isinstance(kind, UUIDType):
        return UUID(text).bytes
    assert isinstance(kind, PrimitiveType)
    return partition_to_py(kind, text)
