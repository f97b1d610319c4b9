"""Rewrites the files of one task: tries the ways of rewriting in turn, the cheapest first."""

from dataclasses import replace

from tidyberg.execute.kernel.attempt import RewriteAttempt, Rewriting
from tidyberg.execute.kernel.copy.rewrite import Copy
from tidyberg.execute.kernel.encode import Encode
from tidyberg.execute.kernel.merge_deletes import MergeDeletes
from tidyberg.execute.kernel.merge_runs import MergeRuns
from tidyberg.execute.kernel.sort import Sort, fits_in_memory
from tidyberg.execute.kernel.splice.eligibility import may_splice
from tidyberg.execute.kernel.splice.rewrite import Splice
from tidyberg.model.task import TaskResult
from tidyberg.parquet.errors import CannotCopy


def rewrite(attempt: RewriteAttempt) -> TaskResult:
    """Rewrites the files. The result says why a cheaper way was not possible, if it was tried."""
    reasons: dict[type[Rewriting], str] = {}
    *first, last = ways_for(attempt)
    for way in first:
        try:
            result = way.rewrite(attempt)
            break
        except CannotCopy as refusal:  # it has removed its outputs
            reasons[type(way)] = str(refusal)
    else:
        result = last.rewrite(attempt)
    if MergeRuns in reasons:
        result = _with_warning(result, reasons[MergeRuns])
    return replace(result, mode_reason=reasons.get(Copy, ""), splice_reason=reasons.get(Splice, ""))


def ways_for(attempt: RewriteAttempt) -> list[Rewriting]:
    """Returns the ways to try, in order. The last one always works, or says what to do."""
    task = attempt.task
    if task.mode == "deletes":
        return [MergeDeletes()]
    if task.mode == "sort":
        return [Sort(required=True)]
    if task.mode == "merge":
        # Few rows are sorted faster than merged, and then it does not matter what their files claim.
        return (
            [Sort(), MergeRuns(), Encode(cores=1)] if fits_in_memory(task) else [MergeRuns(), Sort(), Encode(cores=1)]
        )
    ways: list[Rewriting] = [Copy()] if task.mode == "copy" else []
    if may_splice(task, attempt.storage):
        ways.append(Splice())
    if task.cores > 1:
        ways.append(Encode())
    return [*ways, Encode(cores=1)]


def _with_warning(result: TaskResult, reason: str) -> TaskResult:
    """Says why sorted files were not merged, and whether the outputs are sorted all the same."""
    is_sorted = all(output.sort_order_id is not None for output in result.outputs)
    end = "Its rows were sorted instead." if is_sorted else "Its outputs are not sorted, and claim no sort order."
    warning = f"Group {result.group_id} could not be merged in order: {reason}. {end}"
    return replace(result, warnings=(*result.warnings, warning))
