"""Builds a task for each group of a plan: schema, write settings, output directory, values of absent columns."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import cast

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.partitioning import PartitionKey
from pyiceberg.schema import Schema
from pyiceberg.table.locations import LocationProvider

from tidyberg.execute.tasks.equality_schemas import equality_schema_bytes, schemas_newest_first
from tidyberg.execute.tasks.evolution import absent_values, name_mapping
from tidyberg.execute.tasks.schemas import arrow_schema_bytes, with_lineage_fields
from tidyberg.execute.tasks.write_settings import write_settings
from tidyberg.model.inventory import Inventory, Partition
from tidyberg.model.options import PlanOptions, RewriteMode
from tidyberg.model.plan import DeleteFile, FileGroup
from tidyberg.model.table import Pinned
from tidyberg.model.task import NanFacts, Task, TaskDelete, TaskInput, TaskPartitionField, output_name

_BATCH_ROWS = 131_072
_FAR_MORE, _FAR_MORE_SPARE = 4, 32  # a writer with more than 4 times the planned outputs plus 32 has a bug
_OVERSIZE = 1.8  # the next plan would split an output that is larger than this many times the target


def build_tasks(
    groups: Sequence[FileGroup],
    inventory: Inventory,
    location_provider: LocationProvider,
    *,
    job_id: str,
    target_file_size: int,
    options: PlanOptions,
    checksum: bool,
    deletes: Sequence[DeleteFile] = (),
    nans: Mapping[str, tuple[NanFacts, ...]] = MappingProxyType({}),
    after_death: bool = False,
) -> list[Task]:
    """Build one task per group, with the number of parts to divide it into. Tasks share schema and settings.

    `deletes` belong to the plan. `nans` are the NaN metrics of files to copy.
    """
    pinned = inventory.pinned
    schema = arrow_schema_bytes(pinned.schema)
    lineage = pinned.format_version >= 3
    iceberg_schema = (with_lineage_fields(pinned.schema) if lineage else pinned.schema).model_dump_json()
    settings = write_settings(pinned.schema, pinned.properties, options.parquet, lineage=lineage)
    max_bytes = options.max_file_size or int(target_file_size * _OVERSIZE)
    schemas = schemas_newest_first(pinned)
    # Deletes that no live file needs are in a group without files. Nobody reads them: they may be gone, or damaged.
    used = {group.group_id: [deletes[position] for position in group.deletes if group.files] for group in groups}
    equality_schemas = _equality_schemas([delete for some in used.values() for delete in some], schemas)
    partitions = partitions_of(groups, inventory)
    mapping = name_mapping(pinned.properties)
    return [
        Task(
            job_id=job_id,
            group_id=group.group_id,
            inputs=tuple(
                TaskInput(
                    file.path,
                    file.size,
                    file.records,
                    file.sequence_number,
                    file.first_row_id,
                    tuple(
                        fact
                        for fact in nans.get(file.path, ())
                        if settings.metrics_modes.get(fact.field_id, "none") != "none"
                    ),
                )
                for file in group.files
            ),
            arrow_schema=schema,
            iceberg_schema=iceberg_schema,
            output_directory=_output_directory(location_provider, job_id, group),
            outputs=group.outputs,
            max_outputs=_most_outputs(group, options),
            target_bytes=target_file_size,
            max_bytes=max(max_bytes, target_file_size),
            write=settings,
            batch_rows=options.max_record_batch_rows or _BATCH_ROWS,
            constants=absent_values(pinned.specs[group.spec_id], partitions[group.group_id], schemas)
            if group.files
            else {},
            name_mapping=mapping,
            lineage=lineage,
            partitioning=_partitioning(group, pinned),
            checksum=checksum,
            after_death=after_death,
            deletes=tuple(map(_task_delete, used[group.group_id])),
            mode=group.mode,
            vectors=group.keeps_data and pinned.format_version > 2,
            # Parts of the inputs would each be in order, but their outputs would overlap.
            parts=1 if group.sort_key is not None else group.tasks,
            sort_key=pinned.sort_orders[pinned.sort_order_id] if group.mode == "merge" else group.sort_key,
            # A request to encode, or for other page settings, forbids splicing.
            boundaries=tuple(map(bytes.fromhex, group.boundaries)),
            splices=options.mode is not RewriteMode.ENCODE and not options.parquet,
            min_row_group_bytes=options.copy_min_row_group_bytes if options.mode is RewriteMode.AUTO else 0,
            equality_schemas={
                delete.equality_ids: equality_schemas[delete.equality_ids]
                for delete in used[group.group_id]
                if delete.kind == "equality"
            },
        )
        for group in groups
    ]


def _most_outputs(group: FileGroup, options: PlanOptions) -> int:
    """Limit the outputs of a group. If rows move to other partitions, only the limit of the job applies."""
    if group.output_spec_id is not None:
        return options.max_output_files
    return min(options.max_output_files, _FAR_MORE * group.outputs + _FAR_MORE_SPARE)


def _partitioning(group: FileGroup, pinned: Pinned) -> tuple[TaskPartitionField, ...] | None:
    if group.output_spec_id is None:
        return None
    fields = pinned.specs[group.output_spec_id].fields
    return tuple(TaskPartitionField(field.source_id, str(field.transform)) for field in fields)


def _equality_schemas(deletes: Sequence[DeleteFile], schemas: Sequence[Schema]) -> dict[tuple[int, ...], bytes]:
    first = {delete.equality_ids: delete.path for delete in reversed(deletes) if delete.kind == "equality"}
    return {ids: equality_schema_bytes(ids, schemas, path) for ids, path in first.items()}


def partitions_of(groups: Sequence[FileGroup], inventory: Inventory) -> dict[int, Partition]:
    """Return the partition of each group. The path alone is ambiguous: it may mean the text "null" or NULL."""
    firsts = {group.files[0].path: group.group_id for group in groups if group.files}
    files = inventory.data_files
    found = files.filter(pc.is_in(files["path"], value_set=pa.array(list(firsts), pa.string())))
    return {
        firsts[path]: inventory.partitions[partition]
        for path, partition in zip(found["path"].to_pylist(), found["partition"].to_pylist(), strict=True)
    }


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


@dataclass(frozen=True)
class _PartitionPath:
    """The part of a partition key that location providers use."""

    path: str

    def to_path(self) -> str:
        return self.path


def _output_directory(provider: LocationProvider, job_id: str, group: FileGroup) -> str:
    """Return the directory that the table's location provider chooses, which may use hashes or a custom layout.

    Outputs in several partitions share one directory, so that their names can be computed in advance. The location of a
    file does not determine its partition.
    """
    name = output_name(job_id, group.group_id, attempt=0, number=0)
    stays = group.partition_path and group.output_spec_id is None
    key = _PartitionPath(group.partition_path) if stays else None
    return provider.new_data_location(name, cast(PartitionKey | None, key)).rpartition("/")[0]
