"""Verifies a group without reading its data again."""

from collections.abc import Sequence

from tidyberg.model.plan import DeleteFile, FileGroup
from tidyberg.model.table import Pinned
from tidyberg.model.task import TaskResult
from tidyberg.storage.access import StorageAccess
from tidyberg.verify.boundaries import boundary_problems
from tidyberg.verify.counts import raise_problems, verify_counts
from tidyberg.verify.merged_deletes import verify_merged_deletes
from tidyberg.verify.orders import order_problems
from tidyberg.verify.partitions import verify_partitions
from tidyberg.verify.splices import PathsOf, splice_problems


def verify_group(
    group: FileGroup,
    result: TaskResult,
    pinned: Pinned,
    deletes: Sequence[DeleteFile],
    paths_of: PathsOf,
    access: StorageAccess,
) -> None:
    """Raises VerificationFailed unless the result is right for the group. `deletes` are those of the plan."""
    if group.keeps_data:
        verify_merged_deletes(group, result, access)
        return
    verify_counts(group, result, pinned.schema, lineage=pinned.format_version >= 3)
    raise_problems(group, list(splice_problems(group, result, deletes, paths_of)))
    raise_problems(group, list(order_problems(result.outputs, pinned)))
    raise_problems(group, list(boundary_problems(group, result.outputs, pinned.schema)))
    if group.output_spec_id is not None:
        verify_partitions(group, result, pinned.schema, pinned.specs[group.output_spec_id])
