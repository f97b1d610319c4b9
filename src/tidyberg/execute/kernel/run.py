"""Runs one task, on an executor or in this process: a rewrite, a verification, an audit, a part of a shuffle, ..."""

from collections.abc import Callable
from functools import partial

from tidyberg.execute.kernel.attempt import RewriteAttempt
from tidyberg.execute.kernel.audit import audit_files
from tidyberg.execute.kernel.check.outputs import output_problems, report_stored_file
from tidyberg.execute.kernel.listing import list_files
from tidyberg.execute.kernel.manifests import read_manifests
from tidyberg.execute.kernel.range_sort.sample import sample_keys
from tidyberg.execute.kernel.read.damaged_footers import refuse_damaged_footers
from tidyberg.execute.kernel.rewrite import rewrite
from tidyberg.execute.kernel.row_checksum import checksum_rows
from tidyberg.execute.kernel.shuffle.scratch import map_to_scratch, reduce_from_scratch
from tidyberg.execute.kernel.write.digest import digest_files
from tidyberg.model.shuffle import ScratchMapTask, ScratchReduceTask
from tidyberg.model.task import (
    AnyResult,
    AnyTask,
    AuditTask,
    ChecksumResult,
    ChecksumTask,
    DigestTask,
    ListTask,
    ManifestTask,
    SampleTask,
    Task,
)
from tidyberg.storage.access import StorageAccess
from tidyberg.storage.file_io import Storage


def _never() -> bool:
    return False


def run_task(
    task: AnyTask,
    attempt: int,
    access: StorageAccess,
    should_stop: Callable[[], bool] = _never,
) -> AnyResult:
    storage = Storage(access)
    if _may_follow_a_crash(task, attempt):
        refuse_damaged_footers(task.inputs, storage)
    match task:
        case AuditTask():
            return audit_files(task, storage, should_stop)
        case DigestTask():
            return digest_files(task, storage, should_stop)
        case ManifestTask():
            return read_manifests(task, storage, should_stop)
        case ListTask():
            return list_files(task, storage, should_stop)
        case ChecksumTask():
            return _read_back(task, storage, should_stop)
        case SampleTask():
            return sample_keys(task, storage, should_stop)
        case ScratchMapTask():
            return map_to_scratch(task, attempt, storage, should_stop)
        case ScratchReduceTask():
            return reduce_from_scratch(task, attempt, storage, should_stop)
        case Task():
            return rewrite(RewriteAttempt(task, attempt, storage, should_stop))


def _may_follow_a_crash(task: AnyTask, attempt: int) -> bool:
    """Whether an earlier attempt may have crashed its process because of a damaged file."""
    if isinstance(task, Task):
        return attempt > 0 or task.after_death
    return attempt > 0 and isinstance(task, AuditTask | ChecksumTask)


def _read_back(task: ChecksumTask, storage: Storage, should_stop: Callable[[], bool]) -> ChecksumResult:
    """Reads outputs for full verification: computes the checksum of their rows, and checks their metadata."""
    rows, checksum = checksum_rows(task, storage, should_stop)
    problems = output_problems(task.described, task.sources, partial(report_stored_file, storage, should_stop))
    return ChecksumResult(task.job_id, task.group_id, rows, checksum, tuple(map(str, problems)))
