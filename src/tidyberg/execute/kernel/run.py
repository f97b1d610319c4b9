"""Runs one task, on an executor or in this process: rewrites files, or reads them for verification and audits."""

from collections.abc import Callable
from functools import partial

from tidyberg.execute.kernel.attempt import RewriteAttempt
from tidyberg.execute.kernel.audit import audit_files
from tidyberg.execute.kernel.check.outputs import false_statements, report_by
from tidyberg.execute.kernel.manifests import read_manifests
from tidyberg.execute.kernel.read.damage import refuse_damage
from tidyberg.execute.kernel.rewrite import rewrite
from tidyberg.execute.kernel.row_checksum import sum_rows
from tidyberg.execute.kernel.write.digest import digest_files
from tidyberg.model.task import (
    AnyResult,
    AnyTask,
    AuditTask,
    ChecksumResult,
    ChecksumTask,
    DigestTask,
    ManifestTask,
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
    if _may_have_ended_another(task, attempt):
        refuse_damage(task.inputs, storage)
    match task:
        case AuditTask():
            return audit_files(task, storage, should_stop)
        case DigestTask():
            return digest_files(task, storage, should_stop)
        case ManifestTask():
            return read_manifests(task, storage, should_stop)
        case ChecksumTask():
            return _read_back(task, storage, should_stop)
        case Task():
            return rewrite(RewriteAttempt(task, attempt, storage, should_stop))


def _may_have_ended_another(task: AnyTask, attempt: int) -> bool:
    """A process that ran the task before may have died of a file."""
    if isinstance(task, Task):
        return attempt > 0 or task.after_death
    return attempt > 0 and isinstance(task, AuditTask | ChecksumTask)


def _read_back(task: ChecksumTask, storage: Storage, should_stop: Callable[[], bool]) -> ChecksumResult:
    """Reads outputs for full verification: sums up their rows and checks what they say of themselves."""
    rows, checksum = sum_rows(task, storage, should_stop)
    problems = false_statements(task.described, task.sources, partial(report_by, storage, should_stop))
    return ChecksumResult(task.job_id, task.group_id, rows, checksum, tuple(map(str, problems)))
