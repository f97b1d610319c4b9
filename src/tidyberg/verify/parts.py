"""Joins the results of the tasks that divided a group, after proof that they cover every row once [I1]."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from pyiceberg.schema import Schema

from tidyberg.errors import VerificationFailed
from tidyberg.execute.kernel.columns.checksum import sum_digests
from tidyberg.execute.kernel.range_sort.cut import CutReport
from tidyberg.model.shuffle import ShuffleResult
from tidyberg.model.task import ColumnFacts, Task, TaskResult
from tidyberg.verify.bounds import BoundedColumn, bounded_columns
from tidyberg.verify.lineage import LINEAGE_LEAVES

_UNTOUCHED = "Nothing was committed and the outputs are removed; the table is as it was."


class Joining:
    """Collects results, and joins those of a group when its last part arrives."""

    def __init__(self, tasks: Mapping[int, Task], schema: Schema) -> None:
        self._tasks = tasks  # whole ones, by group
        self._leaves = bounded_columns(schema) | LINEAGE_LEAVES
        self._waiting: dict[int, dict[int, TaskResult]] = {}

    def take(self, result: TaskResult) -> TaskResult | None:
        """Returns the result of the whole group, or None while parts are missing."""
        if result.part is None:
            return result
        task = self._tasks[result.group_id]
        parts = self._waiting.setdefault(result.group_id, {})
        parts[result.part] = result
        if len(parts) < task.parts:
            return None
        del self._waiting[result.group_id]
        return joined(task, [parts[number] for number in range(task.parts)], self._leaves)


def joined(task: Task, parts: Sequence[TaskResult], known: Mapping[int, BoundedColumn]) -> TaskResult:
    """`parts` in their order; raises VerificationFailed unless they took every row of shared files once."""
    _check_cuts(task, parts)
    _check_splices(task, parts)
    checksums = [part.checksum for part in parts if part.checksum is not None]
    return replace(
        parts[0],
        part=None,
        rows_taken={},
        attempt=max(part.attempt for part in parts),
        outputs=tuple(output for part in parts for output in part.outputs),
        rows_read=sum(part.rows_read for part in parts),
        rows_deleted=sum(part.rows_deleted for part in parts),
        rows_written=sum(part.rows_written for part in parts),
        bytes_read=sum(part.bytes_read for part in parts),
        bytes_written=sum(part.bytes_written for part in parts),
        bytes_spliced=sum(part.bytes_spliced for part in parts),
        splice_reason=next((part.splice_reason for part in parts if part.splice_reason), ""),
        files_joined=sum(part.files_joined for part in parts),
        spliced_files=tuple(path for part in parts for path in part.spliced_files),
        seconds=sum(part.seconds for part in parts),
        peak_rss_bytes=max(part.peak_rss_bytes for part in parts),
        input_facts=_facts_together([part.input_facts for part in parts], known),
        output_facts=_facts_together([part.output_facts for part in parts], known),
        checksum=sum_digests(checksums) if len(checksums) == len(parts) else None,
        warnings=tuple(dict.fromkeys(warning for part in parts for warning in part.warnings)),
        started_ns=min(part.started_ns for part in parts),
        requests=dict(sum((Counter(part.requests) for part in parts), Counter())),
    )


def shuffled(task: Task, shuffle: ShuffleResult, known: Mapping[int, BoundedColumn]) -> TaskResult:
    """Returns the result of a group that was sorted by a shuffle.

    Raises VerificationFailed unless map tasks took every row once, and every row that they sent was written.
    """
    reports: Sequence[CutReport] = shuffle.reports
    parts: Sequence[TaskResult] = shuffle.results
    _check_cuts(task, reports)
    for number, part in enumerate(parts):
        sent = sum(report.rows_sent[number] for report in reports)
        if part.rows_written != sent:
            raise VerificationFailed(
                f"Group {task.group_id} did not pass verification: {sent} rows were sent to part {number}, but "
                f"{part.rows_written} were written.",
                hint=_UNTOUCHED,
            )
    checksums = [report.checksum for report in reports if report.checksum is not None]
    everything: list[CutReport | TaskResult] = [*reports, *parts]
    return replace(
        parts[0],
        part=None,
        attempt=max(part.attempt for part in parts),
        outputs=tuple(output for part in parts for output in part.outputs),
        rows_read=sum(report.rows_read for report in reports),
        rows_deleted=sum(report.rows_deleted for report in reports),
        rows_written=sum(part.rows_written for part in parts),
        bytes_read=sum(report.bytes_read for report in reports),
        bytes_written=sum(part.bytes_written for part in parts),
        files_joined=sum(report.files_joined for report in reports),
        seconds=sum(one.seconds for one in everything),
        peak_rss_bytes=max(one.peak_rss_bytes for one in everything),
        input_facts=_facts_together([report.input_facts for report in reports], known),
        output_facts=_facts_together([part.output_facts for part in parts if part.outputs], known),
        # The checksum is that of the rows before the shuffle. Outputs are compared with it when they are read back.
        checksum=sum_digests(checksums) if len(checksums) == len(reports) else None,
        started_ns=min(one.started_ns for one in everything),
        requests=dict(sum((Counter(one.requests) for one in everything), Counter())),
    )


def _check_cuts(task: Task, parts: Sequence[TaskResult] | Sequence[CutReport]) -> None:
    """Checks that the parts of each shared file cover all its rows, without a gap or an overlap."""
    for file in task.inputs:
        taken = [part.rows_taken[file.path] for part in parts if file.path in part.rows_taken]
        row = 0
        for begin, end in taken:
            if begin != row or end < begin:
                break
            row = end
        else:
            if not taken or row == file.records:
                continue
        raise VerificationFailed(
            f"Group {task.group_id} did not pass verification: of the {file.records} rows of {file.path}, tasks took "
            f"{', '.join(f'{begin} to {end}' for begin, end in taken)}.",
            hint=_UNTOUCHED,
        )


def _check_splices(task: Task, parts: Sequence[TaskResult]) -> None:
    """Checks that pages were moved only by a task that had all rows of their file."""
    moved = Counter(path for part in parts for path in part.spliced_files)
    for file in task.inputs:
        ends = [part.rows_taken[file.path] for part in parts if file.path in part.rows_taken]
        is_whole = all(end in ((0, file.records), (0, 0), (file.records, file.records)) for end in ends)
        if moved[file.path] > 1 or (moved[file.path] and not is_whole):
            raise VerificationFailed(
                f"Group {task.group_id} did not pass verification: pages of {file.path} were moved as they are by "
                f"{moved[file.path]} tasks, of {len(ends)} that take rows of it.",
                hint=_UNTOUCHED,
            )


def _facts_together(
    parts: Sequence[Mapping[int, ColumnFacts]], known: Mapping[int, BoundedColumn]
) -> dict[int, ColumnFacts]:
    """Adds up columns that every part reports."""
    if not parts:
        return {}
    columns = [column for column in parts[0] if all(column in part for part in parts)]
    return {column: _together([part[column] for part in parts], known.get(column)) for column in columns}


def _together(parts: Sequence[ColumnFacts], leaf: BoundedColumn | None) -> ColumnFacts:
    nulls = [part.nulls for part in parts]
    bounded = [part for part in parts if part.nulls != part.values]
    return ColumnFacts(
        values=sum(part.values for part in parts),
        nulls=None if None in nulls else sum(count for count in nulls if count is not None),
        lower=_outermost(min, [part.lower for part in bounded], leaf),
        upper=_outermost(max, [part.upper for part in bounded], leaf),
    )


def _outermost(choose: Callable[..., Any], bounds: Sequence[bytes | None], leaf: BoundedColumn | None) -> bytes | None:
    """Returns None if a value is unknown or cannot be compared."""
    values = [leaf.decode(bound) if leaf is not None else None for bound in bounds]
    if not bounds or any(value is None for value in values):
        return None
    position: int = choose(range(len(bounds)), key=values.__getitem__)
    return bounds[position]
