"""Rewrites the files of one task: tries copy, splice and encode in turn, the cheapest first."""

from dataclasses import replace

from tidyberg.execute.kernel.attempt import RewriteAttempt, Rewriting
from tidyberg.execute.kernel.copy.rewrite import Copy
from tidyberg.execute.kernel.encode import Encode
from tidyberg.execute.kernel.merge_deletes import MergeDeletes
from tidyberg.execute.kernel.splice.eligibility import may_splice
from tidyberg.execute.kernel.splice.rewrite import Splice
from tidyberg.model.task import TaskResult
from tidyberg.parquet.errors import CannotCopy


def rewrite(attempt: RewriteAttempt) -> TaskResult:
    """Rewrites the files. The result says why a copy or splice was not possible, if it was tried."""
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
    return replace(result, mode_reason=reasons.get(Copy, ""), splice_reason=reasons.get(Splice, ""))


def ways_for(attempt: RewriteAttempt) -> list[Rewriting]:
    """Returns the ways to try, in order. The last one always works."""
    task = attempt.task
    if task.mode == "deletes":
        return [MergeDeletes()]
    ways: list[Rewriting] = [Copy()] if task.mode == "copy" else []
    if may_splice(task, attempt.storage):
        ways.append(Splice())
    if task.cores > 1:
        ways.append(Encode())
    return [*ways, Encode(cores=1)]
