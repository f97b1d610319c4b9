"""Counts the finished groups of a round in the job's record, and reports them as events and trace spans."""

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

from tidyberg.control.context import JobContext
from tidyberg.model.job import CopyTotals, OrderTotals, SpliceTotals
from tidyberg.model.plan import FileGroup, Mode
from tidyberg.model.report import GroupFinished
from tidyberg.model.task import TaskResult

_MOST_REASONS = 20  # that a record counts separately


@dataclass
class RoundProgress:
    context: JobContext
    groups: Mapping[int, FileGroup]
    adopted: Collection[int] = ()  # ids of groups that a dead job had finished
    _open_groups: Counter[tuple[int, str]] = field(default_factory=Counter)  # by partition

    def __post_init__(self) -> None:
        self._open_groups.update((group.spec_id, group.partition_path) for group in self.groups.values())

    @property
    def partitions(self) -> int:
        return len(self._open_groups)

    def add(self, result: TaskResult) -> None:
        """A whole group has finished."""
        group, record = self.groups[result.group_id], self.context.record
        partition = (group.spec_id, group.partition_path)
        self._open_groups[partition] -= 1
        before = record.job.progress
        progress = replace(
            before,
            partitions_completed=before.partitions_completed + (self._open_groups[partition] == 0),
            groups_completed=before.groups_completed + 1,
            files_processed=before.files_processed + len(group.files),
            bytes_read=before.bytes_read + result.bytes_read,
            bytes_written=before.bytes_written + result.bytes_written,
        )
        seconds = 0.0 if result.group_id in self.adopted else result.seconds
        record.update(
            progress=progress,
            heartbeat_ms=self.context.services.now_ms(),
            task_seconds=record.job.task_seconds + seconds,
            copied=_add_copied(record.job.copied, group, result, seconds),
            spliced=_add_spliced(record.job.spliced, group, result, seconds),
            sorts=_add_ordered(record.job.sorts, "sort", group, result, seconds),
            run_merges=_add_ordered(record.job.run_merges, "merge", group, result, seconds),
            files_joined=record.job.files_joined + result.files_joined,
            groups_merged=record.job.groups_merged + group.keeps_data,
            requests=Counter(record.job.requests) + Counter(result.requests),
            worker_memory_bytes=max(
                record.job.worker_memory_bytes, 0 if result.group_id in self.adopted else result.peak_rss_bytes
            ),
        )
        self.context.emit(GroupFinished(group.group_id, group.partition_path, progress))

    def trace(self, result: TaskResult) -> None:
        """Adds the span of one task. Tasks run elsewhere, so it is made from the times in the result."""
        if result.started_ns:
            self.context.services.tracer.add(
                "task",
                result.started_ns,
                result.started_ns + round(result.seconds * 1e9),
                group_id=result.group_id,
                part=result.part or 0,
                attempt=result.attempt,
                files=len(self.groups[result.group_id].files),
                bytes=result.bytes_read,
                bytes_written=result.bytes_written,
                mode=result.mode,
                bytes_spliced=result.bytes_spliced,
                rows=result.rows_read,
                rows_deleted=result.rows_deleted,
                peak_rss_bytes=result.peak_rss_bytes,
            )


def _add_copied(so_far: CopyTotals, group: FileGroup, result: TaskResult, seconds: float) -> CopyTotals:
    """Adds one group to what the job has copied."""
    if result.mode == "copy":
        return replace(
            so_far,
            groups=so_far.groups + 1,
            files=so_far.files + len(group.files),
            bytes=so_far.bytes + group.bytes,
            seconds=so_far.seconds + seconds,
            bytes_moved=so_far.bytes_moved + result.bytes_moved,
        )
    if group.mode == "copy":
        return replace(so_far, encoded_instead=_count_reason(so_far.encoded_instead, group, result.mode_reason))
    return so_far


def _add_spliced(so_far: SpliceTotals, group: FileGroup, result: TaskResult, seconds: float) -> SpliceTotals:
    """Adds one group to what the job has spliced."""
    if result.splice_reason:  # other tasks of the same group may have spliced
        so_far = replace(so_far, encoded_instead=_count_reason(so_far.encoded_instead, group, result.splice_reason))
    if not result.bytes_spliced:
        return so_far
    return replace(
        so_far,
        groups=so_far.groups + 1,
        files=so_far.files + len(group.files),
        bytes=so_far.bytes + group.bytes,
        bytes_spliced=so_far.bytes_spliced + result.bytes_spliced,
        bytes_written=so_far.bytes_written + result.bytes_written,
        seconds=so_far.seconds + seconds,
    )


def _add_ordered(so_far: OrderTotals, mode: Mode, group: FileGroup, result: TaskResult, seconds: float) -> OrderTotals:
    """Adds a group of this mode. Sorted files that do not overlap may have been copied or spliced instead."""
    if group.mode != mode or result.mode == "copy" or result.bytes_spliced:
        return so_far
    return replace(
        so_far,
        groups=so_far.groups + 1,
        files=so_far.files + len(group.files),
        bytes=so_far.bytes + result.bytes_read,
        tasks=so_far.tasks + group.tasks,
        seconds=so_far.seconds + seconds,
    )


def _count_reason(known: Mapping[str, int], group: FileGroup, reason: str) -> dict[str, int]:
    reason = _without_paths(group, reason)
    if reason not in known and len(known) >= _MOST_REASONS:
        reason = "other reasons"
    return {**known, reason: known.get(reason, 0) + 1}


def _without_paths(group: FileGroup, reason: str) -> str:
    """Replaces file names, so that groups with the same problem share one reason."""
    for file in group.files:
        reason = reason.replace(file.path, "a file")
    return reason
