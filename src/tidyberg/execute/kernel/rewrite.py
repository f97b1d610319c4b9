"""Rewrites the files of one task: tries the ways of rewriting in turn, the cheapest first."""

from collections.abc import Mapping
from dataclasses import replace

from tidyberg.execute.kernel.attempt import RewriteAttempt, Rewriting
from tidyberg.execute.kernel.copy.rewrite import Copy
from tidyberg.execute.kernel.disjoint_runs import task_in_order
from tidyberg.execute.kernel.encode import Encode
from tidyberg.execute.kernel.merge_deletes import MergeDeletes
from tidyberg.execute.kernel.merge_runs import FalseClaim, MergeRuns, is_small
from tidyberg.execute.kernel.sort import Sort
from tidyberg.execute.kernel.splice.eligibility import may_splice
from tidyberg.execute.kernel.splice.rewrite import Splice
from tidyberg.model.task import Task, TaskResult
from tidyberg.parquet.errors import CannotCopy


def rewrite(attempt: RewriteAttempt) -> TaskResult:
    """Rewrites the files. The result says why a cheaper way was not possible, if it was tried."""
    if attempt.task.mode == "merge" and (in_order := task_in_order(attempt)) is not None:
        return _claiming(rewrite(replace(attempt, task=in_order)), attempt.task)
    refusals: dict[type[Rewriting], CannotCopy] = {}
    *first, last = ways_for(attempt)
    for way in first:
        try:
            result = way.rewrite(attempt)
            break
        except CannotCopy as refusal:  # it has removed its outputs
            refusals[type(way)] = refusal.with_traceback(None)  # it would keep the files and rows of the attempt
    else:
        result = last.rewrite(attempt)
    if attempt.task.mode == "merge":
        result = _with_warnings(result, refusals)
    reasons = {way: str(refusal) for way, refusal in refusals.items()}
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
        return [*([] if is_small(task) else [MergeRuns()]), Sort(), Encode(cores=1)]
    ways: list[Rewriting] = [Copy()] if task.mode == "copy" else []
    if may_splice(task, attempt.storage):
        ways.append(Splice())
    if task.cores > 1:
        ways.append(Encode())
    return [*ways, Encode(cores=1)]


def _claiming(result: TaskResult, task: Task) -> TaskResult:
    """Sets the order that the outputs have, because the inputs were seen to be in it, one after the other [I9]."""
    assert task.sort_key is not None
    outputs = tuple(replace(output, sort_order_id=task.sort_key.order_id) for output in result.outputs)
    return replace(result, outputs=outputs, mode_reason="")


def _with_warnings(result: TaskResult, refusals: Mapping[type[Rewriting], CannotCopy]) -> TaskResult:
    """Says which claim of a file is false, and why outputs are not sorted."""
    warnings = [*result.warnings]
    merge, sort = refusals.get(MergeRuns), refusals.get(Sort)
    if isinstance(merge, FalseClaim):
        warnings.append(f"Group {result.group_id}: {merge}. The claim is false.")
    if sort is not None:
        warnings.append(f"Group {result.group_id} was not sorted, and its outputs claim no sort order: {sort}.")
    return replace(result, warnings=tuple(warnings))
