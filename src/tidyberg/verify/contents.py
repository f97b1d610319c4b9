"""Full verification: the outputs are read back and their rows summed up, whatever their order.

Nobody has seen the rows of a copied group: its inputs are summed up too, in the schema that both sides have.
"""

from collections.abc import Sequence
from dataclasses import replace

from tidyberg.errors import VerificationFailed
from tidyberg.model.task import ChecksumResult, ChecksumTask, Task, TaskInput, TaskResult


def checksum_tasks(tasks: Sequence[Task], results: Sequence[TaskResult]) -> list[ChecksumTask]:
    """One task a group that wrote something: read back its outputs in the schema they were written in."""
    by_group = {task.group_id: task for task in tasks}
    return [
        _reading(
            by_group[result.group_id],
            tuple(TaskInput(output.path, output.size, output.records) for output in result.outputs),
        )
        for result in results
        if result.outputs
    ]


def source_checksum_tasks(tasks: Sequence[Task], results: Sequence[TaskResult]) -> list[ChecksumTask]:
    """One task a group that was copied without a sum of its rows: read its inputs."""
    by_group = {task.group_id: task for task in tasks}
    unseen = [by_group[result.group_id] for result in results if result.mode == "copy" and result.checksum is None]
    return [_reading(task, task.inputs) for task in unseen]


def with_source_checksums(results: Sequence[TaskResult], sources: Sequence[ChecksumResult]) -> list[TaskResult]:
    """Results of copied groups with the sums of their inputs, as if their rows had passed a writer."""
    found = {each.group_id: each.checksum for each in sources}
    return [replace(result, checksum=found.get(result.group_id, result.checksum)) for result in results]


def _reading(task: Task, files: tuple[TaskInput, ...]) -> ChecksumTask:
    return ChecksumTask(
        job_id=task.job_id,
        group_id=task.group_id,
        inputs=files,
        arrow_schema=task.arrow_schema,
        batch_rows=task.batch_rows,
        lineage=task.lineage,
    )


def verify_contents(expected: Sequence[TaskResult], found: Sequence[ChecksumResult]) -> None:
    """Raise VerificationFailed unless every group's outputs hold the very rows that were handed to its writer."""
    found_by_group = {each.group_id: each for each in found}
    problems = [_problem(result, found_by_group.get(result.group_id)) for result in expected]
    failed = [problem for problem in problems if problem]
    if failed:
        raise VerificationFailed(
            f"The outputs do not hold the rows of their inputs: {'; '.join(failed)}.",
            hint="Nothing was committed and the outputs are removed; the table is as it was.",
        )


def _problem(expected: TaskResult, found: ChecksumResult | None) -> str | None:
    group = f"group {expected.group_id}"
    if found is None:
        # A group whose rows are all deleted has no output, and so nothing to read back.
        return f"{group} was not read back" if expected.outputs or expected.rows_written else None
    if expected.checksum is None:
        return f"{group} has no checksum of the rows that were written"
    if found.rows != expected.rows_written:
        return f"{group} wrote {expected.rows_written} rows, {found.rows} were read back"
    if found.checksum != expected.checksum:
        return f"{group} read back {found.rows} rows with checksum {found.checksum}, {expected.checksum} was written"
    return None
