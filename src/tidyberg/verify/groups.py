"""All that is verified of a group without reading its data again."""

from tidyberg.model.plan import FileGroup
from tidyberg.model.table import Pinned
from tidyberg.model.task import TaskResult
from tidyberg.verify.counts import verify_counts
from tidyberg.verify.partitions import verify_partitions


def verify_group(group: FileGroup, result: TaskResult, pinned: Pinned) -> None:
    """Raise VerificationFailed unless the result is what the group must become."""
    verify_counts(group, result, pinned.schema, lineage=pinned.format_version >= 3)
    if group.output_spec_id is not None:
        verify_partitions(group, result, pinned.schema, pinned.specs[group.output_spec_id])
