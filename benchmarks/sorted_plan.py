"""A plan that sorts the whole table: one group for each partition."""

from dataclasses import replace

from pyiceberg.schema import Schema

from tidyberg.model.plan import FileGroup, Plan
from tidyberg.model.sort_key import Curve, SortField, SortKey
from tidyberg.planning.document import plan_hash


def sorted_plan(plan: Plan, schema: Schema, kind: str, columns: list[str]) -> Plan:
    """Returns a plan that orders all files of a plan by columns (`sort`), or along a curve of this name."""
    fields = tuple(SortField(schema.find_field(column).field_id) for column in columns)
    key = SortKey(fields, None if kind == "sort" else Curve(kind))
    by_partition: dict[tuple[int, str], list[FileGroup]] = {}
    for group in plan.groups:
        by_partition.setdefault((group.spec_id, group.partition_path), []).append(group)
    groups = []
    for number, some in enumerate(by_partition.values()):
        files = tuple(file for group in some for file in group.files)
        outputs = max(1, round(sum(file.size for file in files) / plan.target_file_size))
        deletes = tuple(sorted({delete for group in some for delete in group.deletes}))
        groups.append(
            replace(
                some[0],
                group_id=number,
                files=files,
                deletes=deletes,
                outputs=outputs,
                mode="sort",
                tasks=1,
                sort_key=key,
            )
        )
    changed = replace(plan, groups=tuple(groups))
    return replace(changed, hash=plan_hash(changed))
