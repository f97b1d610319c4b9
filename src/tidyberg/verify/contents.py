"""Full verification: reads outputs back, compares row checksums, and checks their footers and manifest entries."""

from collections.abc import Sequence

from tidyberg.errors import VerificationFailed
from tidyberg.execute.kernel.columns.checksum import sum_digests
from tidyberg.model.task import ChecksumResult, ChecksumTask, Task, TaskInput, TaskResult, WrittenFile

_UNTOUCHED = "Nothing was committed and the outputs are removed; the table is as it was."
_SHOWN = 5  # problems: one false statement often makes many


def checksum_tasks(tasks: Sequence[Task], results: Sequence[TaskResult]) -> list[ChecksumTask]:
    """One task for each task that wrote outputs. It reads them back in the schema in which they were written."""
    by_group = {task.group_id: task for task in tasks}
    return [
        ChecksumTask(
            job_id=result.job_id,
            group_id=result.group_id,
            inputs=tuple(TaskInput(output.path, output.size, output.records) for output in outputs),
            arrow_schema=by_group[result.group_id].arrow_schema,
            batch_rows=by_group[result.group_id].batch_rows,
            lineage=by_group[result.group_id].lineage,
            described=tuple(outputs),
            sources=by_group[result.group_id].inputs if result.mode == "copy" or result.bytes_spliced else (),
            sort_key=by_group[result.group_id].sort_key if any(output.sort_order_id for output in outputs) else None,
        )
        for result in results
        if result.outputs
        for outputs in _divided(result.outputs, by_group[result.group_id].parts)
        if outputs
    ]


def _divided(outputs: Sequence[WrittenFile], parts: int) -> list[Sequence[WrittenFile]]:
    return [outputs[part::parts] for part in range(parts)]


def verify_contents(expected: Sequence[TaskResult], found: Sequence[ChecksumResult]) -> None:
    """Raises VerificationFailed unless outputs hold exactly the rows that their writer got, and describe them truly."""
    found_by_group: dict[int, list[ChecksumResult]] = {}
    for each in found:
        found_by_group.setdefault(each.group_id, []).append(each)
    problems = [_problem(result, found_by_group.get(result.group_id, [])) for result in expected]
    failed = [problem for problem in problems if problem]
    if failed:
        raise VerificationFailed(
            f"The outputs do not hold the rows of their inputs: {'; '.join(failed)}.",
            hint=_UNTOUCHED,
        )
    untrue = [problem for each in found for problem in each.problems]
    if untrue:
        more = f"; and {len(untrue) - _SHOWN} more" if len(untrue) > _SHOWN else ""
        raise VerificationFailed(
            f"The outputs or their manifest entries say what is not true: {'; '.join(untrue[:_SHOWN])}{more}.",
            hint=_UNTOUCHED,
        )


def _problem(expected: TaskResult, found: Sequence[ChecksumResult]) -> str | None:
    group = f"group {expected.group_id}"
    if not found:
        # A group whose rows are all deleted has no output, and so nothing to read back.
        return f"{group} was not read back" if expected.outputs or expected.rows_written else None
    if expected.checksum is None:
        return f"{group} has no checksum of the rows that were written"
    rows = sum(part.rows for part in found)
    checksum = found[0].checksum if len(found) == 1 else sum_digests(part.checksum for part in found)
    if rows != expected.rows_written:
        return f"{group} wrote {expected.rows_written} rows, {rows} were read back"
    if checksum != expected.checksum:
        return f"{group} read back {rows} rows with checksum {checksum}, {expected.checksum} was written"
    return None
