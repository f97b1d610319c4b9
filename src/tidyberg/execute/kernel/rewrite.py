"""Rewrites the files of one task: tries the ways of rewriting in turn, the cheapest first."""

from dataclasses import replace

from tidyberg.execute.kernel.attempt import RewriteAttempt, Rewriting
from tidyberg.execute.kernel.copy.rewrite import Copy
from tidyberg.execute.kernel.encode import Encode
from tidyberg.execute.kernel.splice.judge import may_splice
from tidyberg.execute.kernel.splice.rewrite import Splice
from tidyberg.model.task import TaskResult
from tidyberg.parquet.errors import CannotCopy


def rewrite(attempt: RewriteAttempt) -> TaskResult:
    """The result says why copying or splicing, where it was tried, was not possible."""
    reasons: dict[type[Rewriting], str] = {}
    *first, last = ways_for(attempt)
    for way in first:
        try:
            result = way.rewrite(attempt)
            break
        except CannotCopy as refusal:  # nothing is left of what was written
            reasons[type(way)] = str(refusal)
    else:
        result = last.rewrite(attempt)
    return replace(result, mode_reason=reasons.get(Copy, ""), splice_reason=reasons.get(Splice, ""))


def ways_for(attempt: RewriteAttempt) -> list[Rewriting]:
    """The last one always works."""
    task = attempt.task
    ways: list[Rewriting] = [Copy()] if task.mode == "copy" else []
    if may_splice(task, attempt.storage):
        ways.append(Splice())
    if task.cores > 1:
        ways.append(Encode())
    return [*ways, Encode(cores=1)]
